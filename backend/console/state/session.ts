// Who is logged in. Invariant: when a session ends in the middle of work, the screen stays as it is, a dialog asks for the password, and
// the calls that were refused go on after it.
import { computed, signal } from "@preact/signals";
import { ApiFailure, call } from "./api.ts";
import { continueAll } from "./ended.ts";

export interface SessionUser {
  readonly email: string;
  readonly role: "viewer" | "admin" | "operator";
  readonly org: { readonly id: string; readonly name: string };
  readonly expires_at: string;
}

/** undefined: not known yet; null: nobody. */
export const user = signal<SessionUser | null | undefined>(undefined);
/** Why who is logged in could not be found out. */
export const problem = signal<string | undefined>(undefined);

export const mayWrite = computed(() => user.value?.role === "admin" || user.value?.role === "operator");
export const isOperator = computed(() => user.value?.role === "operator");

/** Asks the backend whose session this browser has. */
export async function findSession(): Promise<void> {
  try {
    user.value = await call<SessionUser>("/api/auth/session");
    problem.value = undefined;
  } catch (error) {
    if (error instanceof ApiFailure && error.status === 401) {
      user.value = null;
      problem.value = undefined;
    } else problem.value = (error as Error).message;
  }
}

/** Throws ApiFailure, whose words are for whoever types. */
export async function logIn(email: string, password: string): Promise<void> {
  await call("/api/auth/session", { method: "POST", body: { email, password } });
  const found = await call<SessionUser>("/api/auth/session");
  const before = user.peek();
  // Another person's screen would show what was not asked by this one.
  if (before && (before.email !== found.email || before.org.id !== found.org.id)) location.reload();
  user.value = found;
  continueAll();
}

export async function logOut(): Promise<void> {
  await call("/api/auth/session", { method: "DELETE" }).catch(() => undefined);
  location.hash = "";
  location.reload();
}

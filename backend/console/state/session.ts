// Manages the login. Invariant: if a session ends while the user works, the screen does not change, a dialog asks for the password, and the
// refused calls continue after the login.
import type { ApiResponses } from "../../client/api.ts";
import { computed, effect, signal } from "@preact/signals";
import { resumeCalls } from "./expired-session.ts";
import { type Loaded, useLoaded } from "./loaded.ts";
import { address, go } from "./route.ts";
import { readStored, store } from "./stored.ts";
import { ApiFailure, call, errorMessage, setPageUser } from "./api.ts";
import { mayLeave } from "./unsaved.ts";

export type SessionUser = ApiResponses["GET /api/auth/session"];

/** The user of the last visit, so that the first screen is requested while the backend checks the session. */
const LAST_USER = "atherops.user";

/** undefined: not known yet; null: not logged in. */
export const user = signal<SessionUser | null | undefined>(readStored(LAST_USER) as SessionUser | undefined);
effect(() => {
  setPageUser(user.value);
  store(LAST_USER, user.value ?? undefined);
});
export const problem = signal<string | undefined>(undefined);

export const mayWrite = computed(() => user.value?.role === "admin" || user.value?.role === "operator");
export const isOperator = computed(() => user.value?.role === "operator");

/** Why a login link failed; shown on the login page. */
export const refusedLink = signal<string | undefined>(undefined);
const NO_LINKS = "This backend does not support login links. `npm start` does.";

export async function findSession(): Promise<void> {
  try {
    const found = await call<SessionUser>("/api/auth/session");
    const before = user.peek();
    user.value = found;
    problem.value = undefined;
    // The screen was requested for the user of the last visit, and refused.
    if (before && !isSameUser(before, found)) location.reload();
  } catch (error) {
    if (error instanceof ApiFailure && error.status === 401) {
      user.value = null;
      problem.value = undefined;
    } else problem.value = (error as Error).message;
  }
}

function isSameUser(one: SessionUser, other: SessionUser): boolean {
  return one.email === other.email && one.org.id === other.org.id;
}

/** Throws ApiFailure, whose message is shown to the user. */
export async function logIn(email: string, password: string): Promise<void> {
  await call("/api/auth/session", { method: "POST", body: { email, password } });
  const loggedIn = await call<SessionUser>("/api/auth/session");
  const before = user.peek();
  // The screen would show data that another user requested, and its refused calls would be repeated for this user.
  if (before && !isSameUser(before, loggedIn)) return location.reload();
  user.value = loggedIn;
  resumeCalls();
}

/**
 * Logs in by the link that `npm start` prints, `#/login/CODE`. A fragment is not sent to any server; the code is removed from the address
 * before anything else happens.
 */
export async function logInByLink(code: string): Promise<void> {
  go(address("overview"), { replace: true });
  try {
    await call("/api/auth/session/code", { method: "POST", body: { code } });
    // The screen shows the data of another session.
    if (user.peek()) location.reload();
    refusedLink.value = undefined;
  } catch (error) {
    refusedLink.value = error instanceof ApiFailure && error.status === 404 ? NO_LINKS : `The login link failed: ${errorMessage(error)}.`;
  }
  await findSession();
}

export const invitation = signal<string | undefined>(undefined);

/** Opens the link of an invitation, `#/invitation/TOKEN`. */
export function openInvitation(token: string): void {
  go(address("overview"), { replace: true });
  invitation.value = token;
}

/** Throws ApiFailure, whose message is shown to the user. */
export async function acceptInvitation(token: string, password: string): Promise<void> {
  await call("/api/auth/invitation/accept", { method: "POST", body: { token, password } });
  // The screen below shows the data of another session.
  if (user.peek()) location.reload();
  await findSession();
  invitation.value = undefined;
}

export async function logOut(): Promise<void> {
  if (!mayLeave()) return;
  await call("/api/auth/session", { method: "DELETE" }).catch(() => undefined);
  store(LAST_USER, undefined);
  location.hash = "";
  location.reload();
}

/** Information that the backend returns without a login. */
export interface ConsoleSettings {
  readonly hasSingleSignOn: boolean;
  /** `npm start` started the backend. */
  readonly isLocalStart: boolean;
}

export function useSettings(): Loaded<ConsoleSettings> {
  return useLoaded("settings", async (signal) => await call<ConsoleSettings>("/console/settings.json", { signal }));
}

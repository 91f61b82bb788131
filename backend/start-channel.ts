// What `npm start` (hack/start.ts) and its backend tell each other: a login for who sits at the terminal, and what this machine's agent
// still waits for. They do so over the channel that Node opens between a process and the child it starts. Invariant: without that channel,
// or where the API is reached from elsewhere, nothing of this exists; whoever holds it started this process and gave it its secrets.
import { OneTimeLogin } from "./auth/sessions/one-time-login.ts";

/** What the parent may send. */
export type Told = { readonly want: "login code" } | { readonly waitsFor: string | null };

export interface LocalStart {
  readonly oneTimeLogin: OneTimeLogin;
  /** In words, as progress of a program tells them; null: for nothing. */
  readonly waitsFor: () => string | null;
}

type Channel = Pick<NodeJS.Process, "send" | "channel"> & { on(event: "message", take: (message: unknown) => void): unknown };

export function openStartChannel({ isLocal }: { isLocal: boolean }, parent: Channel = process): LocalStart | undefined {
  if (!parent.send || !isLocal) return undefined;
  const oneTimeLogin = new OneTimeLogin();
  let waitsFor: string | null = null;
  parent.on("message", (message) => {
    const told = (message ?? {}) as Partial<{ want: unknown; waitsFor: unknown }>;
    if (told.want === "login code") parent.send?.({ loginCode: oneTimeLogin.mint() });
    if (told.waitsFor === null || typeof told.waitsFor === "string") ({ waitsFor } = told as { waitsFor: string | null });
  });
  // It keeps nobody running: the backend ends when it is asked to.
  parent.channel?.unref();
  return { oneTimeLogin, waitsFor: () => waitsFor };
}

// Talks to `npm start` (hack/start.ts), over the channel that Node opens between a process and its child. The parent requests a login code
// for the user at the terminal, and reports what the agent of this machine is waiting for. Invariant: there is no channel without such a
// parent, or if the API listens on addresses other than loopback. The parent is trusted: it gave this process its secrets.
import { OneTimeLogin } from "./auth/sessions/one-time-login.ts";

/** A message from the parent. */
export type ParentMessage = { readonly want: "login code" } | { readonly waitsFor: string | null };

export interface LocalStart {
  readonly oneTimeLogin: OneTimeLogin;
  /** What the agent is waiting for, as a progress line; null if it is not waiting. */
  readonly waitsFor: () => string | null;
}

/** The part of `process` that exists in a child with a channel to its parent. */
type Channel = Pick<NodeJS.Process, "send" | "channel"> & { on(event: "message", take: (message: unknown) => void): unknown };

/** Undefined if no parent has opened a channel, or if the API is not local. */
export function openStartChannel({ isLocal }: { isLocal: boolean }, parent: Channel = process): LocalStart | undefined {
  if (!parent.send || !isLocal) return undefined;
  const oneTimeLogin = new OneTimeLogin();
  let waitsFor: string | null = null;
  parent.on("message", (received) => {
    const message = (received ?? {}) as Partial<{ want: unknown; waitsFor: unknown }>;
    if (message.want === "login code") parent.send?.({ loginCode: oneTimeLogin.mint() });
    if (message.waitsFor === null || typeof message.waitsFor === "string") ({ waitsFor } = message as { waitsFor: string | null });
  });
  // An open channel must not keep the backend running when it is stopped.
  parent.channel?.unref();
  return { oneTimeLogin, waitsFor: () => waitsFor };
}

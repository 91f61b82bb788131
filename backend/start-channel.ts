// The channel between `npm start` (hack/start.ts) and the backend that it starts, which Node opens between a process and its child. The parent
// asks for a login code for the user at the terminal, and reports what the agent of this machine still waits for. Invariant: there is no
// channel without such a parent, or if the API listens on other addresses than loopback. The parent is trusted: it gave this process its
// secrets.
import { OneTimeLogin } from "./auth/sessions/one-time-login.ts";

/** A message of the parent. */
export type ParentMessage = { readonly want: "login code" } | { readonly waitsFor: string | null };

export interface LocalStart {
  readonly oneTimeLogin: OneTimeLogin;
  /** What the agent waits for, as the line of progress that a program prints; null: for nothing. */
  readonly waitsFor: () => string | null;
}

/** The part of `process` that a child with a channel to its parent has. */
type Channel = Pick<NodeJS.Process, "send" | "channel"> & { on(event: "message", take: (message: unknown) => void): unknown };

/** Undefined without a parent that opened a channel, or if the API is not local. */
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

// What keeps the process from starting and is the operator's to mend. Invariant: the message says what is wrong and what to do, and
// holds no secret; main.ts prints it without a stack. Thrown by listeners and engine starts.

export class StartError extends Error {
  override readonly name: string = "StartError";
}

/** `variable` is the setting that chose the address. */
export function cannotListen(
  variable: string,
  at: { readonly host: string; readonly port: number },
  cause: NodeJS.ErrnoException,
): StartError {
  const why = cause.code === "EADDRINUSE" ? "the port is in use" : cause.message;
  return new StartError(`${variable}: cannot listen on ${at.host}:${at.port}: ${why}`, { cause });
}

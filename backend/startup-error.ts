// Errors that prevent the process from starting and that the operator can fix. Invariant: the message says what is wrong and what to do, and
// contains no secret, because main.ts prints it without a stack.

export class StartError extends Error {
  override readonly name: string = "StartError";
}

/** Another process uses DATA_DIR; the message says which, and what to do. */
export class DataDirInUseError extends StartError {
  override readonly name = "DataDirInUseError";
}

/** A listener could not be opened. `variable`: the setting that chose its address. */
export function cannotListen(
  variable: string,
  at: { readonly host: string; readonly port: number },
  cause: NodeJS.ErrnoException,
): StartError {
  const reason = cause.code === "EADDRINUSE" ? "the port is in use" : cause.message;
  return new StartError(`${variable}: cannot listen on ${at.host}:${at.port}: ${reason}`, { cause });
}

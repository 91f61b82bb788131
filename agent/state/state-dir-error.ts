// Errors of the disk under STATE_DIR, with messages that say what to do.

/** STATE_DIR cannot be written; the message says what to do. */
export class StateDirError extends Error {
  override readonly name = "StateDirError";
}

/** What failed on the disk, with what to do. */
export function stateDirError(stateDir: string, error: Error): StateDirError {
  const isFull = ["ENOSPC", "EDQUOT"].includes((error as NodeJS.ErrnoException).code ?? "");
  const why = isFull ? "no space left on the device: free some" : `${error.message}; set it to a place that this user may write`;
  return new StateDirError(`STATE_DIR ${stateDir}: ${why}`, { cause: error });
}

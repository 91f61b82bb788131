// Lets one agent at a time use a folder of the node, also where both are pid 1 of a pod of their own. Invariant: the lock is the
// kernel's (an exclusive SQLite transaction), so it ends with its process however that dies, is never stale, and holds across pods
// that share a hostPath. Nothing else opens the file `lock`: closing it a second time would give the lock away. Also the errors of the disk
// under STATE_DIR, whose messages say what to do.
import { readFileSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

const BUSY = 5;

/** Takes the lock of `folder`, which exists; undefined while another has it. `holder` is shown to other agents. Throws SQLite's error. */
export function tryLock(folder: string, holder: string): Disposable | undefined {
  const lock = new DatabaseSync(join(folder, "lock"));
  try {
    lock.exec("PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
  } catch (error) {
    lock.close();
    if ((error as { errcode?: number }).errcode === BUSY) return undefined;
    throw error;
  }
  ignoreFailure(() => writeFileSync(holderFile(folder), `${holder}, since ${new Date().toISOString()}\n`, { mode: 0o600 }));
  return {
    [Symbol.dispose]() {
      ignoreFailure(() => rmSync(holderFile(folder), { force: true }));
      if (lock.isOpen) lock.close();
    },
  };
}

/** Who has the lock of `folder`, or had it when killed. */
export function holderOf(folder: string): string {
  try {
    return readFileSync(holderFile(folder), "utf8").trim() || "another agent";
  } catch {
    return "another agent";
  }
}

function holderFile(folder: string): string {
  return join(folder, "lock.holder");
}

/** Safe: the file only says who it is, and a full disk must keep no agent from starting. */
function ignoreFailure(write: () => void): void {
  try {
    write();
  } catch {
    // See above.
  }
}

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

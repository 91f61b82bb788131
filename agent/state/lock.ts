// Lets one agent at a time use a folder of the node, also where both are pid 1 of a pod of their own. Invariant: the lock is the
// kernel's (an exclusive SQLite transaction), so it ends with its process however that dies, is never stale, and holds across pods
// that share a hostPath. Nothing else opens the file `lock`: closing it a second time would give the lock away. Also the errors of the disk
// under STATE_DIR, whose messages say what to do.
import { chmodSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

const BUSY = 5;

/** Takes the lock of `folder`, which exists; undefined while another has it. `holder` is shown to other agents. Throws SQLite's error. */
export function tryLock(folder: string, holder: string): Disposable | undefined {
  const file = join(folder, "lock");
  keepFromOthers(file);
  const lock = new DatabaseSync(file);
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

/** A user who can open the file can hold SQLite's locks on it, so that no agent gets them. SQLite itself creates it with the process's umask. */
function keepFromOthers(file: string): void {
  ignoreFailure(() => {
    if (statSync(file, { throwIfNoEntry: false }) === undefined) writeFileSync(file, "", { mode: 0o600, flag: "wx" });
    else chmodSync(file, 0o600);
  });
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

/** Safe: SQLite reports what matters, and a full disk must keep no agent from starting. */
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

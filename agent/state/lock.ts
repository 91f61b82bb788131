// Ensures that only one agent at a time uses a folder of the node, even if each is pid 1 of its own pod. Invariant: it is a lock of the
// kernel (an exclusive SQLite transaction), so it ends with its process however that dies, is never stale, and works across pods that share
// a hostPath. Nothing else may open the file `lock`: closing it a second time would release the lock. This file also defines the errors for
// a failing disk under STATE_DIR, whose messages say what to do.
import { chmodSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

const BUSY = 5;

/**
 * Locks `folder`, which must exist; undefined if another agent holds the lock. `holder` is shown to other agents. Throws SQLite's error.
 */
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

/**
 * A user who can open the file can hold SQLite's locks on it and so lock out all agents. SQLite itself would create it with the process's
 * umask.
 */
function keepFromOthers(file: string): void {
  ignoreFailure(() => {
    if (statSync(file, { throwIfNoEntry: false }) === undefined) writeFileSync(file, "", { mode: 0o600, flag: "wx" });
    else chmodSync(file, 0o600);
  });
}

/** The agent that holds the lock of `folder`, or held it when it was killed. */
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

/** Safe: SQLite reports relevant errors, and a full disk must not keep an agent from starting. */
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

/** An error of the disk, with advice. */
export function stateDirError(stateDir: string, error: Error): StateDirError {
  const isFull = ["ENOSPC", "EDQUOT"].includes((error as NodeJS.ErrnoException).code ?? "");
  const why = isFull ? "no space left on the device: free some" : `${error.message}; set it to a place that this user may write`;
  return new StateDirError(`STATE_DIR ${stateDir}: ${why}`, { cause: error });
}

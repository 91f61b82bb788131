// Lets only one process at a time use a folder, even if two processes in different containers have the same process id. Invariant: the lock
// is the kernel's (an exclusive SQLite transaction), so it ends with its process in every case, is never stale, and works across containers
// that share a volume. No other code may open the file `lock`: closing it a second time would release the lock.
import { chmodSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

const BUSY = 5;

/** Takes the lock of `folder`, which exists; undefined while another has it. `holder` is shown to others. Throws SQLite's error. */
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
 * A user who can open the file can hold SQLite's locks on it, so that no process gets them. SQLite itself creates it with the process's
 * umask.
 */
function keepFromOthers(file: string): void {
  ignoreFailure(() => {
    if (statSync(file, { throwIfNoEntry: false }) === undefined) writeFileSync(file, "", { mode: 0o600, flag: "wx" });
    else chmodSync(file, 0o600);
  });
}

/** The process that holds the lock of `folder`, or held it when it was killed; undefined if unknown. */
export function holderOf(folder: string): string | undefined {
  try {
    return readFileSync(holderFile(folder), "utf8").trim() || undefined;
  } catch {
    return undefined;
  }
}

function holderFile(folder: string): string {
  return join(folder, "lock.holder");
}

/** If this fails, the process continues: SQLite reports the failures that matter, and a full disk must not prevent a start. */
function ignoreFailure(write: () => void): void {
  try {
    write();
  } catch {
    // See above.
  }
}

// Opens the embedded relational store, `accounts.sqlite` in DATA_DIR. Invariant: the file belongs to its user alone (0600; SQLite gives
// its log and its shared memory the same mode), and its name is on the disk before anything is in it.
import { closeSync, existsSync, fsyncSync, openSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Log } from "../../observability/log.ts";
import { StartError } from "../../startup-error.ts";
import { SqliteFailure } from "./failure.ts";
import { StoreThread } from "./store-thread.ts";

/** Beside it, while the backend runs: `-wal` and `-shm`. */
export const ACCOUNTS_FILE = "accounts.sqlite";

/** Throws StartError for a file that is no database, is damaged, or cannot be opened. */
export async function openSqlite(dataDir: string, log: Log): Promise<StoreThread> {
  const file = join(dataDir, ACCOUNTS_FILE);
  if (!existsSync(file)) makeFile(file);
  const thread = new StoreThread({ file, log });
  try {
    await thread.life();
    return thread;
  } catch (error) {
    await thread[Symbol.asyncDispose]();
    if (!(error instanceof SqliteFailure)) throw error;
    const advice = "restore a backup (docs/backup.md), or see that this user can read and write the file";
    throw new StartError(`DATA_DIR: ${file} cannot be opened (${error.message}): ${advice}`, { cause: error });
  }
}

function makeFile(file: string): void {
  closeSync(openSync(file, "wx", 0o600));
  const folder = openSync(dirname(file), "r");
  try {
    fsyncSync(folder);
  } finally {
    closeSync(folder);
  }
}

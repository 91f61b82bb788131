// Opens the embedded relational store, `accounts.sqlite` in DATA_DIR. Invariant: the file belongs to its user alone (0600; SQLite gives
// its log and its shared memory the same mode), and its name is on the disk before anything is in it.
import { closeSync, existsSync, openSync, readdirSync } from "node:fs";
import { dirname, join } from "node:path";
import { syncFolder, makeFolder } from "../../../common/files.ts";
import type { Log } from "../../operations/log.ts";
import { StartError } from "../../startup-error.ts";
import { SqliteFailure } from "./failure.ts";
import { StoreThread } from "./store-thread.ts";

/** Beside it, while the backend runs: `-wal` and `-shm`. */
export const ACCOUNTS_FILE = "accounts.sqlite";
/** Beside it, from the end of the first start: whoever finds it knows that accounts that are missing were there. */
export const ACCOUNTS_MADE = "accounts.made";

/** Throws StartError for a file that is no database, is damaged, or cannot be opened. */
export async function openSqlite(file: string, log: Log): Promise<StoreThread> {
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

/** What a start makes only when the accounts have their file. */
const LATER = [ACCOUNTS_MADE, "clickhouse", "metrics", "metrics-journal", join("secrets", "admin-password")];

/** Throws StartError where there must have been accounts before: new ones would know no agent's key and own no log line. */
export function requireNewFolder(dataDir: string): void {
  const trace = LATER.find((name) => holdsSomething(join(dataDir, name)));
  if (trace === undefined) return;
  throw new StartError(
    `DATA_DIR: ${dataDir} has ${trace} but no ${ACCOUNTS_FILE}, which held its accounts: restore a backup (docs/backup.md), set DATABASE_URL if they are in PostgreSQL, or, to begin with new accounts, name an empty folder`,
  );
}

function holdsSomething(path: string): boolean {
  try {
    return readdirSync(path).length > 0;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === "ENOTDIR" && existsSync(path);
  }
}

function makeFile(file: string): void {
  makeFolder(dirname(file), 0o700);
  closeSync(openSync(file, "wx", 0o600));
  syncFolder(dirname(file));
}

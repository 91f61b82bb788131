// Opens the embedded relational store, `accounts.sqlite` in DATA_DIR, and creates it under a draft name for `move`. Invariant: only its user can
// access the file (0600; SQLite creates `-wal` and `-shm` with the same mode), and its name is on the disk before its first row.
import { closeSync, existsSync, openSync, readdirSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { makeFolder, renameDurably, syncFile, syncFolder } from "../../../common/files.ts";
import type { Log } from "../../log.ts";
import { StartError } from "../../errors.ts";
import { SqliteFailure, StoreThread } from "./store-thread.ts";

/** While the backend runs, there are also files with the suffixes `-wal` and `-shm`. */
export const ACCOUNTS_FILE = "accounts.sqlite";
/** Written at the end of the first start: if it exists without accounts.sqlite, the accounts were lost. */
export const ACCOUNTS_MADE = "accounts.made";

/** Throws StartError if the file is not a database, is damaged, or cannot be opened. */
export async function openSqlite(file: string, log: Log): Promise<StoreThread> {
  if (!existsSync(file)) {
    makeFolder(dirname(file), 0o700);
    closeSync(openSync(file, "wx", 0o600));
    syncFolder(dirname(file));
  }
  const thread = new StoreThread({ file, log });
  try {
    await thread.running();
    return thread;
  } catch (error) {
    await thread[Symbol.asyncDispose]();
    if (!(error instanceof SqliteFailure)) throw error;
    const advice = "restore a backup (docs/backup.md), or see that this user can read and write the file";
    throw new StartError(`DATA_DIR: ${file} cannot be opened (${error.message}): ${advice}`, { cause: error });
  }
}

/** Files and folders that a start creates only after accounts.sqlite. */
const LATER = [ACCOUNTS_MADE, "clickhouse", "metrics", "metrics-journal", join("secrets", "admin-password")];

/** Throws StartError if the folder had accounts before: a new store would know neither keys of agents nor owners of stored data. */
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

/**
 * Creates a store under a draft name: `fill` creates and closes it, then it is renamed to `file`. So `file` is complete and on disk, or
 * does not exist; the next attempt removes the remains of an interrupted one. Returns the result of `fill`.
 */
export async function underDraftName<T>(file: string, fill: (draft: string) => Promise<T>): Promise<T> {
  // SQLite would apply the write-ahead log of another store to this one.
  if (existsSync(`${file}-wal`)) throw new Error(`${file}-wal is the log of another store of this name: put it where that store is`);
  const draft = `${file}.moving`;
  for (const ending of ["", "-wal", "-shm"]) rmSync(`${draft}${ending}`, { force: true });
  const result = await fill(draft);
  syncFile(draft);
  renameDurably(draft, file);
  return result;
}

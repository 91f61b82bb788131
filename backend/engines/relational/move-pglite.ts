// Moves the accounts of a `postgres/` folder, which earlier versions kept with PGlite, into the embedded SQLite store, once. Invariants:
// the new store has its name only when every row was read back from it and is the same; until then, and after, `postgres/` stays as it
// is; a start that is interrupted begins the move again; a folder that cannot be read whole is never taken for an empty one.
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Kysely } from "kysely";
import { StartError } from "../../startup-error.ts";
import { underDraftName } from "../sqlite/draft.ts";
import { type AnyTables, compareRows, copyRows, tablesInOrder } from "./copy-tables.ts";

interface Store extends AsyncDisposable {
  tables<T>(): Kysely<T>;
}

interface Move {
  readonly dataDir: string;
  /** What the new store is to be called. */
  readonly file: string;
  /** Each opens its store with the tables of now; of the second it is told the file. */
  readonly openOld: (folder: string) => Promise<Store>;
  readonly openNew: (file: string) => Promise<Store>;
}

/** True where an earlier version's accounts are: even a folder that is damaged, as long as PostgreSQL's first file is there. */
export function hasPgliteFolder(dataDir: string): boolean {
  return existsSync(join(dataDir, "postgres", "PG_VERSION"));
}

/** Answers how many rows were moved. Throws StartError with nothing changed when the folder is damaged, or holds nothing. */
export async function moveFromPglite({ dataDir, file, openOld, openNew }: Move): Promise<number> {
  const folder = join(dataDir, "postgres");
  try {
    return await underDraftName(file, async (draft) => {
      await using old = await openOld(folder);
      await using fresh = await openNew(draft);
      const tables = await tablesInOrder(fresh.tables());
      await fresh
        .tables<AnyTables>()
        .transaction()
        .execute((trx) => copyRows(old.tables(), trx, tables));
      const rows = await compareRows(old.tables(), fresh.tables(), tables);
      if (rows === 0) throw new Error("it holds no accounts");
      return rows;
    });
  } catch (error) {
    const advice = "restore a backup of DATA_DIR, or, to begin with new accounts, move the folder elsewhere";
    throw new StartError(`DATA_DIR: the accounts in ${folder} cannot be moved to ${file} (${(error as Error).message}): ${advice}`, {
      cause: error,
    });
  }
}

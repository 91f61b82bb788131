// Moves the accounts of a `postgres/` folder, which earlier versions kept with PGlite, into the embedded SQLite store, once. Invariants:
// the new store has its name only when every row was read back from it and is the same; until then, and after, `postgres/` stays as it
// is; a start that is interrupted begins the move again; a folder that cannot be read whole is never taken for an empty one.
import { existsSync, rmSync } from "node:fs";
import { join } from "node:path";
import { isDeepStrictEqual } from "node:util";
import { sql, type Kysely } from "kysely";
import { renameDurably, syncFile } from "../../../agent/common/durable-file.ts";
import { StartError } from "../../startup-error.ts";

const BATCH_ROWS = 500;
/** Each store has its own. */
const NOT_MOVED = "schema_migrations";

type Row = Record<string, unknown>;
type Tables = Kysely<Record<string, Row>>;

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
  const draft = `${file}.moving`;
  for (const ending of ["", "-wal", "-shm"]) rmSync(`${draft}${ending}`, { force: true });
  let rows: number;
  try {
    await using old = await openOld(folder);
    await using fresh = await openNew(draft);
    rows = await copyAll(old.tables(), fresh.tables());
    if (rows === 0) throw new Error("it holds no accounts");
  } catch (error) {
    const advice = "restore a backup of DATA_DIR, or, to begin with new accounts, move the folder elsewhere";
    throw new StartError(`DATA_DIR: the accounts in ${folder} cannot be moved to ${file} (${(error as Error).message}): ${advice}`, {
      cause: error,
    });
  }
  syncFile(draft);
  renameDurably(draft, file);
  return rows;
}

async function copyAll(old: Tables, fresh: Tables): Promise<number> {
  const tables = (await fresh.introspection.getTables()).map(({ name }) => name).filter((name) => name !== NOT_MOVED);
  await fresh.transaction().execute(async (trx) => {
    // A key may refer to one of a later batch.
    await sql`PRAGMA defer_foreign_keys = ON`.execute(trx);
    for (const table of tables)
      for await (const rows of batches(old, table, await keyOf(trx, table)))
        await trx.insertInto(table).values(rows.map(storable)).execute();
  });
  let moved = 0;
  for (const table of tables) moved += await verified(old, fresh, table);
  return moved;
}

/** Reads every row of the old store again and finds the same one in the new, and no others. Answers how many. */
async function verified(old: Tables, fresh: Tables, table: string): Promise<number> {
  const key = await keyOf(fresh, table);
  let same = 0;
  for await (const rows of batches(old, table, key))
    for (const row of rows) {
      let query = fresh.selectFrom(table).selectAll();
      for (const column of key) query = query.where(column, "=", row[column]);
      const found: Row | undefined = await query.executeTakeFirst();
      if (!isDeepStrictEqual(plain(found), plain(row))) throw new Error(`a row of ${table} was read back as another`);
      same += 1;
    }
  const { count } = await fresh
    .selectFrom(table)
    .select(({ fn }) => fn.countAll().as("count"))
    .executeTakeFirstOrThrow();
  if (Number(count) !== same) throw new Error(`${table} has ${same} rows there and ${String(count)} here`);
  return same;
}

async function keyOf(fresh: Tables, table: string): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`SELECT name FROM pragma_table_info(${table}) WHERE pk > 0 ORDER BY pk`.execute(fresh);
  return rows.map(({ name }) => name);
}

async function* batches(old: Tables, table: string, key: readonly string[]): AsyncGenerator<Row[]> {
  for (let offset = 0; ; offset += BATCH_ROWS) {
    let query = old.selectFrom(table).selectAll().limit(BATCH_ROWS).offset(offset);
    for (const column of key) query = query.orderBy(column);
    const rows = await query.execute();
    if (rows.length > 0) yield rows;
    if (rows.length < BATCH_ROWS) return;
  }
}

/** JSON goes in as text, as from everywhere else. */
function storable(row: Row): Row {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, isJson(value) ? JSON.stringify(value) : value]));
}

function isJson(value: unknown): boolean {
  return typeof value === "object" && value !== null && !(value instanceof Date);
}

/** SQLite's rows have no prototype. */
function plain(row: Row | undefined): Row | undefined {
  return row && { ...row };
}

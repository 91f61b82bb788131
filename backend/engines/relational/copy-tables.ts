// Copies the rows of all tables from one relational store into an empty one with the same tables, and compares them. Invariants: a row is
// inserted after every row that it refers to; rows count as equal only if they were read back; each store keeps its own list of migrations.
import { isDeepStrictEqual } from "node:util";
import { sql, type Kysely } from "kysely";

const BATCH_ROWS = 500;
/** Each store has its own list of migrations. */
const NOT_COPIED = "schema_migrations";

type Row = Record<string, unknown>;
export type AnyTables = Record<string, Row>;
export type Tables = Kysely<AnyTables>;

export interface Table {
  readonly name: string;
  /** The columns of the primary key, in order. */
  readonly key: readonly string[];
  /** The column that refers to another row of the same table by its key. */
  readonly parent: string | undefined;
}

/** Rows that should be equal are not. */
export class RowsDiffer extends Error {
  override readonly name = "RowsDiffer";
}

/** Called with the number of `rows` of `table` so far. */
export type Progress = (step: "copied" | "compared", table: string, rows: number) => void;

/** The tables in an order in which each follows those that it refers to. `sqlite`: the store of the two that is SQLite. */
export async function tablesInOrder(sqlite: Tables): Promise<Table[]> {
  let remaining = (await sqlite.introspection.getTables()).map(({ name }) => name).filter((name) => name !== NOT_COPIED);
  const ordered = new Map<string, Table>();
  while (remaining.length > 0) {
    const blocked: string[] = [];
    for (const name of remaining) {
      const { rows: references } = await sql<{ table: string; from: string }>`
        SELECT "table", "from" FROM pragma_foreign_key_list(${name})`.execute(sqlite);
      const isReady = references.every(({ table }) => table === name || ordered.has(table));
      const parent = references.find(({ table }) => table === name)?.from;
      if (isReady) ordered.set(name, { name, key: await keyColumns(sqlite, name), parent });
      else blocked.push(name);
    }
    if (blocked.length === remaining.length) throw new Error(`tables refer to each other in a cycle: ${remaining.join(", ")}`);
    remaining = blocked;
  }
  return [...ordered.values()];
}

async function keyColumns(sqlite: Tables, table: string): Promise<string[]> {
  const { rows } = await sql<{ name: string }>`SELECT name FROM pragma_table_info(${table}) WHERE pk > 0 ORDER BY pk`.execute(sqlite);
  return rows.map(({ name }) => name);
}

/** The first of `tables` that has rows. */
export async function firstWithRows(store: Tables, tables: readonly Table[]): Promise<string | undefined> {
  for (const { name } of tables) if (await store.selectFrom(name).selectAll().limit(1).executeTakeFirst()) return name;
  return undefined;
}

/** Inserts all rows of `from` into `to`, in the caller's transaction on `to`. Throws an error that names the table. */
export async function copyRows(from: Tables, to: Tables, tables: readonly Table[], progress?: Progress): Promise<void> {
  for (const table of tables) {
    let copied = 0;
    const source = batches(from, table);
    for await (const rows of table.parent === undefined ? source : parentsFirst(table, table.parent, source)) {
      await to.insertInto(table.name).values(rows.map(encodeJson)).execute().catch(rethrowWithName(table));
      copied += rows.length;
      progress?.("copied", table.name, copied);
    }
  }
}

/** Checks that `to` has all rows of `from`, unchanged, and no others. Returns their number. Throws RowsDiffer otherwise. */
export async function compareRows(from: Tables, to: Tables, tables: readonly Table[], progress?: Progress): Promise<number> {
  let total = 0;
  for (const table of tables) {
    let compared = 0;
    for await (const rows of batches(from, table)) {
      const found = await findByKeys(to, table, rows);
      for (const row of rows)
        if (!isDeepStrictEqual(found.get(keyOf(table, row)), { ...row }))
          throw new RowsDiffer(`a row of ${table.name} differs from its copy`);
      compared += rows.length;
      progress?.("compared", table.name, compared);
    }
    const { count } = await to
      .selectFrom(table.name)
      .select(({ fn }) => fn.countAll().as("count"))
      .executeTakeFirstOrThrow();
    if (Number(count) !== compared) throw new RowsDiffer(`the source has ${compared} rows of ${table.name}, the target ${String(count)}`);
    total += compared;
  }
  return total;
}

async function* batches(from: Tables, { name, key }: Table): AsyncGenerator<Row[]> {
  for (let offset = 0; ; offset += BATCH_ROWS) {
    let query = from.selectFrom(name).selectAll().limit(BATCH_ROWS).offset(offset);
    for (const column of key) query = query.orderBy(column);
    const rows = await query.execute().catch(rethrowWithName({ name }));
    if (rows.length > 0) yield rows;
    if (rows.length < BATCH_ROWS) return;
  }
}

/** The same rows, ordered so that each follows the one that it refers to; rows wait until their parent was returned. */
async function* parentsFirst(table: Table, parent: string, source: AsyncGenerator<Row[]>): AsyncGenerator<Row[]> {
  const returned = new Set<string>();
  let waiting: Row[] = [];
  for await (const rows of source) {
    waiting.push(...rows);
    for (;;) {
      const { ready = [], later = [] } = Object.groupBy(waiting, (row) =>
        row[parent] === null || returned.has(JSON.stringify([row[parent]])) ? "ready" : "later",
      );
      if (ready.length === 0) break;
      for (const row of ready) returned.add(keyOf(table, row));
      waiting = later;
      for (let at = 0; at < ready.length; at += BATCH_ROWS) yield ready.slice(at, at + BATCH_ROWS);
    }
  }
  // Rows that refer to each other, or to a missing row; the store refuses them if that is invalid.
  if (waiting.length > 0) yield waiting;
}

async function findByKeys(to: Tables, table: Table, rows: readonly Row[]): Promise<Map<string, Row>> {
  const found = await to
    .selectFrom(table.name)
    .selectAll()
    .where((eb) => eb.or(rows.map((row) => eb.and(table.key.map((column) => eb(column, "=", row[column]))))))
    .execute();
  // Rows of SQLite have no prototype.
  return new Map(found.map((row) => [keyOf(table, row), { ...row }]));
}

function keyOf({ key }: Table, row: Row): string {
  return JSON.stringify(key.map((column) => row[column]));
}

/** Names the table in an error of its store. */
function rethrowWithName({ name }: Pick<Table, "name">): (error: Error) => never {
  return (error) => {
    throw new Error(`${name}: ${error.message}`, { cause: error });
  };
}

const isJson = (value: unknown): boolean => typeof value === "object" && value !== null && !(value instanceof Date);

/** JSON is inserted as text, as everywhere else. */
function encodeJson(row: Row): Row {
  return Object.fromEntries(Object.entries(row).map(([name, value]) => [name, isJson(value) ? JSON.stringify(value) : value]));
}

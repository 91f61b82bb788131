// Statements for many rows at once: writing rows collected from many requests, and finding which of the rows that a cache has were changed.
// Invariants: a row that the store rejects does not keep the others from being written; the changed rows are found in the table itself, so no
// change is missed, by whichever process and however late it was committed.
import { type Kysely, type RawBuilder, sql, SqliteAdapter } from "kysely";

export interface Watched {
  readonly table: string;
  /** A unique column that identifies the rows. */
  readonly column: string;
  readonly type: "text" | "uuid";
  /** An expression of type text over the columns that matter. */
  readonly state: RawBuilder<string>;
}

/** Returns the identifiers of rows that were deleted or changed since `states` (identifier → state) was read. */
export async function changedRows<T>(db: Kysely<T>, watched: Watched, states: Readonly<Record<string, string>>): Promise<string[]> {
  const { table, column, type, state } = watched;
  const json = JSON.stringify(states);
  const isSqlite = db.getExecutor().adapter instanceof SqliteAdapter;
  const known = isSqlite ? sql`json_each(${json})` : sql`json_each_text(${json}::json)`;
  const name = isSqlite ? sql`known.key` : sql`known.key::${sql.raw(type)}`;
  // A subquery per row uses the index, even if the planner has no statistics of the table.
  const { rows } = await sql<{ key: string }>`
    SELECT known.key FROM ${known} AS known
    WHERE (SELECT ${state} FROM ${sql.table(table)} WHERE ${sql.ref(column)} = ${name}) IS DISTINCT FROM known.value`.execute(db);
  return rows.map(({ key }) => key);
}

const REFUSED_SQLSTATE = /^2[23]/;

/** True if the store rejects the values of the statement, so that a retry cannot succeed (PostgreSQL documentation, appendix A). */
export function isRefused(error: unknown): boolean {
  return REFUSED_SQLSTATE.test(String((error as { code?: unknown }).code));
}

/**
 * Writes all rows at once, or one by one if the store rejects one of them. Returns the rejected rows. Throws an error that a retry may fix; some
 * rows may be written then.
 */
export async function writeRows<T>(rows: readonly T[], write: (rows: readonly T[]) => Promise<unknown>): Promise<T[]> {
  try {
    await write(rows);
    return [];
  } catch (error) {
    if (!isRefused(error)) throw error;
  }
  const refused: T[] = [];
  for (const row of rows) {
    await write([row]).catch((error: unknown) => {
      if (!isRefused(error)) throw error;
      refused.push(row);
    });
  }
  return refused;
}

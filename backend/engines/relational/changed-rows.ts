// Which of many rows that somebody has read are others now: one statement, however many they are. Invariant: the answer is that of the
// rows themselves, so that it misses no change, whoever made it and however late it was committed.
import { type Kysely, type RawBuilder, sql, SqliteAdapter } from "kysely";

export interface Watched {
  readonly table: string;
  /** Unique: what rows are named by. */
  readonly column: string;
  readonly type: "text" | "uuid";
  /** An expression that is text, of those columns that matter. */
  readonly state: RawBuilder<string>;
}

/** `states`: by what each row is named, the state that it had. Answers the names of those that are gone or have another state. */
export async function changedRows<T>(db: Kysely<T>, watched: Watched, states: Readonly<Record<string, string>>): Promise<string[]> {
  const { table, column, type, state } = watched;
  const json = JSON.stringify(states);
  const isSqlite = db.getExecutor().adapter instanceof SqliteAdapter;
  const known = isSqlite ? sql`json_each(${json})` : sql`json_each_text(${json}::json)`;
  const name = isSqlite ? sql`known.key` : sql`known.key::${sql.raw(type)}`;
  // A subquery for each: it goes by the index, whatever the planner thinks of a table that was never analysed.
  const { rows } = await sql<{ key: string }>`
    SELECT known.key FROM ${known} AS known
    WHERE (SELECT ${state} FROM ${sql.table(table)} WHERE ${sql.ref(column)} = ${name}) IS DISTINCT FROM known.value`.execute(db);
  return rows.map(({ key }) => key);
}

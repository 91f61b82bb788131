// Runs on the thread of the embedded relational store: opens the file, runs one statement after the other, and returns each result.
// Invariant: a statement is on disk before its result is returned (WAL with synchronous = FULL), and no result or error contains a value
// that was bound.
import { DatabaseSync, type SQLInputValue, type SQLOutputValue, type StatementSync } from "node:sqlite";
import { parentPort, workerData } from "node:worker_threads";
import { freeHeapWhenIdle } from "../heap.ts";
import { MAX_PREPARED_STATEMENTS, MAX_RESULT_ROWS, MAX_WAL_BYTES } from "../engine-limits.ts";

export interface Statement {
  readonly id: number;
  readonly sql: string;
  readonly parameters: readonly unknown[];
}

/** `rows` of a statement that reads or returns; `changes` of all others. `fatal`: the file could not be opened. */
export type Answer =
  | { readonly id: number; readonly rows: readonly object[] }
  | { readonly id: number; readonly changes: bigint }
  | { readonly id: number; readonly message: string; readonly errcode: number | undefined }
  | { readonly opened: true }
  | { readonly fatal: string; readonly errcode: number | undefined };

type Read = (value: SQLOutputValue) => unknown;

interface Prepared {
  readonly statement: StatementSync;
  /** Undefined if the statement returns no rows. Columns that are returned as stored have no entry. */
  readonly readers: ReadonlyMap<string, Read> | undefined;
}

/** Another process, such as an operator's `sqlite3` or a backup, may lock the file for a moment. */
const BUSY_TIMEOUT_MS = 5_000;
/** Any other statement may change the tables. */
const KEEPS_TABLES = /^\s*(select|insert|update|delete|begin|commit|rollback)\b/i;

/** Readers by the type that the migration declares for the column; SQLite keeps the type's name as it was written. */
const READERS: Record<string, Read> = {
  timestamptz: (value) => new Date(String(value)),
  boolean: (value) => value !== 0,
  jsonb: (value) => (typeof value === "string" ? JSON.parse(value) : value),
};

const prepared = new Map<string, Prepared>();

function open(file: string): DatabaseSync {
  const database = new DatabaseSync(file, { timeout: BUSY_TIMEOUT_MS, enableForeignKeyConstraints: true });
  const mode = database.prepare("PRAGMA journal_mode = WAL").get()?.["journal_mode"];
  if (mode !== "wal") throw new Error(`its file system has no shared memory or no locks (journal_mode is ${String(mode)})`);
  database.exec(`PRAGMA synchronous = FULL; PRAGMA journal_size_limit = ${MAX_WAL_BYTES}; PRAGMA temp_store = MEMORY`);
  // Deleted rows, especially those of a deleted organisation, must not stay readable in free pages.
  database.exec("PRAGMA secure_delete = ON");
  // Reads the header, so that opening a file that is not a database fails here.
  database.prepare("SELECT count(*) FROM sqlite_schema").get();
  return database;
}

function run(database: DatabaseSync, { id, sql, parameters }: Statement): Answer {
  // SQLite has already rolled back if the disk is full.
  if (sql === "rollback" && !database.isTransaction) return { id, changes: 0n };
  const { statement, readers } = prepare(database, sql);
  const values = parameters.map(storable);
  if (!readers) return { id, changes: BigInt(statement.run(...values).changes) };
  const rows: object[] = [];
  for (const row of statement.iterate(...values)) {
    if (rows.length === MAX_RESULT_ROWS) throw new Error(`a statement answers at most ${MAX_RESULT_ROWS} rows`);
    for (const [column, read] of readers) if (row[column] !== null) row[column] = read(row[column] ?? null) as never;
    rows.push(row);
  }
  return { id, rows };
}

function prepare(database: DatabaseSync, sql: string): Prepared {
  const known = prepared.get(sql);
  if (known) {
    prepared.delete(sql);
    prepared.set(sql, known);
    return known;
  }
  if (!KEEPS_TABLES.test(sql)) prepared.clear();
  const statement = database.prepare(sql);
  const columns = statement.columns();
  const typed = columns.flatMap(({ name, type }): [string, Read][] => {
    const read = READERS[type?.toLowerCase() ?? ""];
    return read ? [[name, read]] : [];
  });
  const fresh = { statement, readers: columns.length > 0 ? new Map(typed) : undefined };
  if (!KEEPS_TABLES.test(sql)) return fresh;
  prepared.set(sql, fresh);
  const [oldest] = prepared.keys();
  if (prepared.size > MAX_PREPARED_STATEMENTS && oldest !== undefined) prepared.delete(oldest);
  return fresh;
}

/** Times are stored as RFC 3339 in UTC with milliseconds, which sort as text. */
function storable(value: unknown): SQLInputValue {
  if (value instanceof Date) return value.toISOString();
  if (typeof value === "boolean") return value ? 1 : 0;
  return (value ?? null) as SQLInputValue;
}

function failureOf(error: unknown): { message: string; errcode: number | undefined } {
  const { message, errcode } = error as Error & { errcode?: number };
  return { message, errcode };
}

const port = parentPort;
if (!port) throw new Error("started as a thread only");
try {
  const database = open((workerData as { file: string }).file);
  port.on("message", (message: Statement | "close") => {
    if (message === "close") {
      database.close();
      port.close();
      return;
    }
    let answer: Answer;
    try {
      answer = run(database, message);
    } catch (error) {
      // A failed statement would report the same failure again at its next use (sqlite3_reset).
      prepared.delete(message.sql);
      answer = { id: message.id, ...failureOf(error) };
    }
    port.postMessage(answer);
  });
  port.postMessage({ opened: true } satisfies Answer);
  freeHeapWhenIdle();
} catch (error) {
  const { message, errcode } = failureOf(error);
  port.postMessage({ fatal: message, errcode } satisfies Answer);
  port.close();
}

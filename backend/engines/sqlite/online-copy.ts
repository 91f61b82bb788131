// Copies the embedded relational store while its backend writes, from another process (SQLite's online backup). Invariants: the copy is the
// store at one point in time; no writer waits for it; a copy in which SQLite finds damage is rejected.
import { backup, DatabaseSync } from "node:sqlite";

const BUSY_TIMEOUT_MS = 5_000;
/** Pages of 4 KiB per step; between steps the process does other work. */
const PAGES_A_STEP = 1000;

/** `target` must not exist. Returns a time (RFC 3339): everything that was committed before is in the copy. */
export async function copyOnline(file: string, target: string): Promise<string> {
  const source = new DatabaseSync(file, { readOnly: true, timeout: BUSY_TIMEOUT_MS });
  const startedAt = new Date().toISOString();
  try {
    // A transaction that has read sees no later commit, so that the copy does not restart after each commit.
    source.exec("BEGIN");
    source.prepare("SELECT count(*) FROM sqlite_schema").get();
    await backup(source, target, { rate: PAGES_A_STEP });
    source.exec("ROLLBACK");
  } finally {
    source.close();
  }
  const copy = new DatabaseSync(target);
  try {
    const result = copy.prepare("PRAGMA quick_check(1)").get()?.["quick_check"];
    if (result !== "ok") throw new Error(`${file} is damaged (${String(result)})`);
  } finally {
    copy.close();
  }
  return startedAt;
}

/** The number of rows of each table; undefined for a missing table. No other process may have the file open. */
export function countTables(file: string, tables: readonly string[]): Map<string, number | undefined> {
  const database = new DatabaseSync(file);
  try {
    const findTable = database.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?");
    const count = (table: string): number => Number(database.prepare(`SELECT count(*) AS count FROM "${table}"`).get()?.["count"]);
    return new Map(tables.map((table) => [table, findTable.get(table) === undefined ? undefined : count(table)]));
  } finally {
    database.close();
  }
}

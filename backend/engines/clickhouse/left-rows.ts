// Rows that were answered and that a killed process left in its journal, where a server has taken the place of the embedded engine: nobody
// would look there any more. Invariant: nothing is changed, so that the embedded engine finds all of it. Only that one can tell which of
// these rows its tables have already, so the server is not given them.
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Log } from "../../observability/log.ts";
import { decodedEntries } from "./journal-entry.ts";
import { readMark, segmentNames } from "./row-journal.ts";

interface LeftRows {
  /** Bodies' days. */
  bodies: number;
  rows: number;
  /** Of the files. */
  bytes: number;
}

const WHAT_TO_DO =
  "start once without CLICKHOUSE_URL, which stores them, stop in order, then carry them over (docs/from-one-to-many.md, Logs and spans)";

/** `folder`: of the journals, one folder for each table. Never rejects. */
export async function tellLeftRows(folder: string, log: Log): Promise<void> {
  try {
    const left = await leftRows(folder);
    if (left.bodies > 0) log.warn({ folder, ...left }, `rows that were answered lie in the journal of the embedded engine; ${WHAT_TO_DO}`);
  } catch (err) {
    // Safe: the file is as it was, and whoever reads this knows where to look.
    log.warn({ folder, err }, `the journal of the embedded engine cannot be read: it may hold rows that were answered; ${WHAT_TO_DO}`);
  }
}

async function leftRows(folder: string): Promise<LeftRows> {
  const left = { bodies: 0, rows: 0, bytes: 0 };
  for (const table of await namesIn(folder)) {
    for (const name of segmentNames(await namesIn(join(folder, table)))) {
      const content = await readFile(join(folder, table, name));
      const { entries } = decodedEntries(content, readMark(join(folder, table)));
      left.bodies += entries.length;
      left.rows += entries.reduce((sum, { rows }) => sum + rows.count, 0);
      left.bytes += entries.length > 0 ? content.length : 0;
    }
  }
  return left;
}

/** None of what is no folder: the embedded engine was never used here. */
async function namesIn(folder: string): Promise<string[]> {
  return await readdir(folder).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT" || error.code === "ENOTDIR") return [];
    throw error;
  });
}

// Reports acknowledged rows in the journal of an embedded engine that was replaced by a ClickHouse server, because no other code reads that
// journal. Invariant: the files stay unchanged: only the embedded engine knows which rows its tables have, so the server gets none.
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import type { Log } from "../../log.ts";
import { readSegments } from "../append-log/append-log.ts";
import { entryOf } from "./row-journal.ts";

interface LeftRows {
  /** Entries: the rows of one body that belong to one day. */
  bodies: number;
  rows: number;
  /** Size of the files. */
  bytes: number;
}

const ADVICE =
  "start once without CLICKHOUSE_URL, which stores them, stop in order, then carry them over (docs/from-one-to-many.md, Logs and spans)";

/** Logs a warning if there are such rows. `folder` has one folder per table. Never rejects. */
export async function reportLeftRows(folder: string, log: Log): Promise<void> {
  try {
    const totals = await countLeftRows(folder);
    if (totals.bodies > 0)
      log.warn(
        { event: "journal.rows_left", folder, ...totals },
        `the journal of the embedded engine contains acknowledged rows; ${ADVICE}`,
      );
  } catch (err) {
    // The files are unchanged, and the operator knows where to look.
    log.warn(
      { event: "journal.rows_left_unknown", folder, err },
      `the journal of the embedded engine cannot be read and may contain acknowledged rows; ${ADVICE}`,
    );
  }
}

async function countLeftRows(folder: string): Promise<LeftRows> {
  const totals = { bodies: 0, rows: 0, bytes: 0 };
  for (const table of await tablesIn(folder)) {
    for await (const { bytes, records } of readSegments(join(folder, table))) {
      totals.bodies += records.length;
      totals.rows += records.reduce((sum, record) => sum + entryOf(record).rows.count, 0);
      totals.bytes += records.length > 0 ? bytes : 0;
    }
  }
  return totals;
}

/** Empty if there is no folder: the embedded engine was never used here. */
async function tablesIn(folder: string): Promise<string[]> {
  const entries = await readdir(folder, { withFileTypes: true }).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return [];
    throw error;
  });
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
}

// Acknowledged writes in the journal of an embedded VictoriaMetrics that another one has replaced: nothing else reads that journal any
// more. Invariant: the files stay unchanged, because the embedded engine may not have all of these writes.
import type { Log } from "../../operations/log.ts";
import { readSegments } from "../append-log/append-log.ts";

const WHAT_TO_DO =
  "start once without METRICS_WRITE_URL and METRICS_QUERY_URL, which replays them, stop in order, then carry its samples over (docs/from-one-to-many.md, Metrics)";

/** Logs a warning if there are any. Never rejects. */
export async function reportLeftWrites(folder: string, log: Log): Promise<void> {
  try {
    const left = { writes: 0, bytes: 0 };
    for await (const { bytes, records } of readSegments(folder)) {
      left.writes += records.length;
      left.bytes += bytes;
    }
    if (left.writes > 0)
      log.warn(
        { event: "journal.writes_left", folder, ...left },
        `the journal of the embedded engine contains acknowledged metrics; ${WHAT_TO_DO}`,
      );
  } catch (err) {
    // Safe: the files are unchanged, and the operator knows where to look.
    log.warn(
      { event: "journal.writes_left_unknown", folder, err },
      `the journal of the embedded engine cannot be read and may contain acknowledged metrics; ${WHAT_TO_DO}`,
    );
  }
}

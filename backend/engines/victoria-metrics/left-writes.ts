// Writes that were answered and that a killed process left in its journal, where another VictoriaMetrics has taken the place of the embedded
// one: nobody would look there any more. Invariant: nothing is changed, so that the embedded engine is given all of it. It has most of them
// already, and only it can be given the rest by this program.
import { readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import type { Log } from "../../observability/log.ts";

const WHAT_TO_DO =
  "start once without METRICS_WRITE_URL and METRICS_QUERY_URL, which gives them to it, stop in order, then carry its samples over (docs/from-one-to-many.md, Metrics)";

/** `folder`: of the journal. Never rejects. */
export async function tellLeftWrites(folder: string, log: Log): Promise<void> {
  try {
    const names = (await readdir(folder)).filter((name) => name.endsWith(".journal"));
    const sizes = await Promise.all(names.map(async (name) => (await stat(join(folder, name))).size));
    const bytes = sizes.reduce((sum, size) => sum + size, 0);
    if (bytes > 0)
      log.warn({ folder, bytes }, `metrics that were answered may lie in the journal of the embedded engine alone; ${WHAT_TO_DO}`);
  } catch (err) {
    // Safe: the files are as they were. Without a folder the embedded engine was never used here.
    if ((err as NodeJS.ErrnoException).code === "ENOENT") return;
    log.warn({ folder, err }, `the journal of the embedded engine cannot be read: it may hold metrics that were answered; ${WHAT_TO_DO}`);
  }
}

// The disk queue of metrics follows its exporter: the collector names a queue's file after the exporter, and metrics have one of their own
// only since they leave the collector uncompressed. Invariants: no collector runs meanwhile; a queue is moved to the name that the
// configuration gives it, in one step, and only where nothing that waits lies under that name; what waits is neither lost nor sent twice.
import { existsSync, renameSync } from "node:fs";
import { basename, join } from "node:path";
import { parse } from "yaml";
import type { Log } from "../log.ts";
import { holdsQueued } from "./bbolt-file.ts";
import { EXPORTER, METRICS_EXPORTER, QUEUE_STORAGE } from "./config.ts";

interface Config {
  readonly extensions: Record<string, { directory: string }>;
  readonly service: { readonly pipelines: Record<string, { readonly exporters: readonly string[] }> };
}

/** `config`: YAML that a collector is about to run with. Never throws. */
export async function followMetricsExporter(config: string, log: Log): Promise<void> {
  const queues = queuesOf(config);
  if (!queues || !existsSync(queues.left)) return;
  try {
    await move(queues, log);
  } catch (error) {
    // Safe: it is tried again before the next start, and meanwhile logs, traces and new metrics are not to wait for it.
    log.error({ file: queues.left, err: (error as Error).message }, `metrics may wait in ${queues.left}, which cannot be moved`);
  }
}

/** Throws what the system says. */
async function move({ left, used }: { left: string; used: string }, log: Log): Promise<void> {
  if (existsSync(used) && (await holdsQueued(used))) {
    log.warn(
      { file: left },
      `metrics may wait in ${left} too; they are sent once those in ${basename(used)} are and the collector starts anew`,
    );
    return;
  }
  renameSync(left, used);
  log.info({ file: used }, `the disk queue of metrics is called ${basename(used)} now`);
}

/** The file of the one exporter of metrics that is in use, and that of the other; undefined where both are, or none. */
function queuesOf(config: string): { used: string; left: string } | undefined {
  try {
    const { extensions, service } = parse(config) as Config;
    const pipelines = Object.entries(service.pipelines).filter(([id]) => id.split("/")[0] === "metrics");
    const inUse = (id: string): boolean => pipelines.some(([, { exporters }]) => exporters.includes(id));
    if (inUse(EXPORTER) === inUse(METRICS_EXPORTER)) return undefined;
    const folder = extensions[QUEUE_STORAGE]?.directory.replaceAll("$$", "$") ?? "";
    const fileOf = (id: string): string => join(folder, `exporter_${id.replace("/", "_")}_metrics`);
    const files = [fileOf(EXPORTER), fileOf(METRICS_EXPORTER)] as const;
    return inUse(EXPORTER) ? { used: files[0], left: files[1] } : { used: files[1], left: files[0] };
  } catch {
    // Safe: nothing is moved, and the collector itself says what it thinks of its configuration.
    return undefined;
  }
}

// Reads the state of the collector's disk queues: rejected signals from its log, fill levels from its metrics. Invariant: a collector whose
// file queue is full is killed instead of stopped; the proxy recognises the lines that the next one reads again (agent/collector/files).
import type { Signal } from "../../settings.ts";
import { ask } from "../../../common/http.ts";
import { FILES_EXPORTER } from "../config/collector-config.ts";

export interface Rejection {
  /** Unix milliseconds. */
  readonly sinceMs: number;
  readonly lastMs: number;
  readonly error: string;
}

const REJECTED = /^\{.*"Exporting failed\. Rejecting data/;
/** Logged if the collector cannot read or delete an entry; it continues with the next one. */
const SKIPPED = /^\{.*"(Failed updating currently dispatched items|Error deleting item from queue)/;
const NO_SPACE = "no space left on device";
const SIGNALS: readonly string[] = ["metrics", "logs", "traces"] satisfies Signal[];
/** A rejection that is not repeated for this long is over; the collector retries after at most 5 s. */
const OVER_AFTER_MS = 60_000;

export class Rejections {
  readonly #bySignal = new Map<string, Rejection>();
  #skips = false;

  /** True if the collector skipped entries of a queue, which it sends only after its next start. */
  get skips(): boolean {
    return this.#skips;
  }

  /** `line`: a line of the collector's log. */
  note(line: string, nowMs = Date.now()): void {
    if (SKIPPED.test(line) && line.includes(NO_SPACE)) this.#skips = true;
    if (!REJECTED.test(line)) return;
    const { error, signal } = fieldsOf(line);
    // Other causes concern single entries, and the proxy records them for the signal.
    if (!error.includes(NO_SPACE) || !SIGNALS.includes(signal)) return;
    const before = this.current(nowMs).get(signal as Signal);
    this.#bySignal.set(signal, { sinceMs: before?.sinceMs ?? nowMs, lastMs: nowMs, error: NO_SPACE });
  }

  current(nowMs = Date.now()): ReadonlyMap<Signal, Rejection> {
    return new Map([...this.#bySignal].filter(([, { lastMs }]) => nowMs - lastMs < OVER_AFTER_MS)) as Map<Signal, Rejection>;
  }
}

function fieldsOf(line: string): { error: string; signal: string } {
  try {
    const { error = "", "otelcol.signal": signal = "" } = JSON.parse(line) as Record<string, unknown>;
    return { error: String(error), signal: String(signal) };
  } catch {
    return { error: "", signal: "" };
  }
}

/** Sums the series of a metric whose line contains all `labels`. Returns NaN if there is none. */
export function sumMetric(metrics: string, name: string, ...labels: string[]): number {
  const lines = metrics.split("\n").filter((line) => line.startsWith(`${name}{`) && labels.every((label) => line.includes(label)));
  return lines.length === 0 ? Number.NaN : lines.reduce((sum, line) => sum + Number(line.split(" ").at(-1)), 0);
}

/** A batch of a file has at most 100 lines; one that needs more than the remaining space is not expected. */
const FULL_QUEUE = 0.8;
export const ASK_WITHIN_MS = 1_000;

/** True if the metrics of the collector show that the disk queue of log files has no space for another batch. */
export async function isFileQueueFull(metricsUrl: string): Promise<boolean> {
  // A collector that does not respond does not read either.
  return ((await readQueues(metricsUrl))?.get(FILES_EXPORTER) ?? 0) > FULL_QUEUE;
}

/** Fill level of the fullest disk queue; undefined if the collector does not respond. */
export async function readQueuePercent(metricsUrl: string | undefined): Promise<number | undefined> {
  const queues = metricsUrl === undefined ? undefined : await readQueues(metricsUrl);
  return queues && Math.round(100 * Math.max(0, ...queues.values()));
}

/** Exporter → the used share of its queue. */
async function readQueues(metricsUrl: string): Promise<Map<string, number> | undefined> {
  try {
    const { text } = await ask(metricsUrl, { signal: AbortSignal.timeout(ASK_WITHIN_MS) });
    const [sizes, capacities] = ["size", "capacity"].map((name) => {
      const lines = text.matchAll(new RegExp(`^otelcol_exporter_queue_${name}\\{.*?exporter="([^"]*)".*\\} (\\S+)`, "gm"));
      return new Map([...lines].map(([, exporter = "", value]) => [exporter, Number(value)] as const));
    });
    return new Map([...(sizes ?? [])].map(([exporter, size]) => [exporter, size / (capacities?.get(exporter) ?? Number.NaN) || 0]));
  } catch {
    // The collector is restarting, or does not respond in time, which its health check reports.
    return undefined;
  }
}

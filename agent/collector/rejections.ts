// What the collector could not put into its disk queues, from its own log: each such line means that files wait and applications are refused.
import type { Signal } from "../settings.ts";

export interface Rejection {
  /** Unix milliseconds. */
  readonly sinceMs: number;
  readonly lastMs: number;
  readonly error: string;
}

const REJECTED = /^\{.*"Exporting failed\. Rejecting data/;
const SIGNALS: readonly string[] = ["metrics", "logs", "traces"] satisfies Signal[];
/** The collector tries again after 5 s at most. */
const OVER_AFTER_MS = 60_000;

export class Rejections {
  readonly #bySignal = new Map<string, Rejection>();

  /** `line`: of the collector's log. */
  note(line: string, nowMs = Date.now()): void {
    if (!REJECTED.test(line)) return;
    const { error, signal } = fieldsOf(line);
    // Any other cause is one of an entry, and the proxy's record of the signal has it.
    if (!error.includes("no space left on device") || !SIGNALS.includes(signal)) return;
    const before = this.current(nowMs).get(signal as Signal);
    this.#bySignal.set(signal, { sinceMs: before?.sinceMs ?? nowMs, lastMs: nowMs, error: "no space left on device" });
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

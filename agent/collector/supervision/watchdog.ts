// Detects that log files are not read: the agent or the collector does not finish a pass over them, or the disk queue accepts no lines.
// /readyz reports this as a failing signal. If an empty queue's file fills the disk, the watchdog restarts the collector, and the supervisor
// removes the file. Invariant: a collector with a backlog, or one that waits for the backend, does not count as stuck.
import { ask } from "../../../common/http.ts";
import { type Rejection, sumMetric } from "./queue-state.ts";
import { Loop } from "../../../common/loop.ts";
import type { Log } from "../../log.ts";
import { FILES_EXPORTER } from "../config/collector-config.ts";
import type { LogFilesStatus } from "../files/log-files-status.ts";

export interface FailingSignal {
  readonly signal: string;
  readonly sinceMs: number;
  readonly error: string;
}

export interface WatchdogOptions {
  readonly files: { status(): Omit<LogFilesStatus, "lost"> };
  /** The collector's component that reads them. */
  readonly receiver: string;
  readonly supervisor: {
    status(): { readonly state: string; readonly since: string };
    readonly metricsUrl: string | undefined;
    /** Signals whose data cannot be added to the disk queues, with the reason. */
    readonly rejections: ReadonlyMap<string, Omit<Rejection, "lastMs">>;
    killAndRestart(): void;
  };
  readonly log: Log;
  /** Returns the collector's pause between passes for a number of open files. */
  readonly pauseMs?: (openFiles: number) => number;
  readonly nowMs?: () => number;
  readonly readMetrics?: (url: string) => Promise<string>;
  readonly everyMs?: number;
}

const STUCK_AFTER_MS = 30_000;
/** After this time without a finished pass, accepted records count as progress. */
const LATE_AFTER_MS = 15_000;
const RESTART_AFTER_MS = 30_000;
const RESTART_AGAIN_MS = 600_000;
const EVERY_MS = 5000;
const ASK_WITHIN_MS = 2000;

export class LogFilesWatchdog implements AsyncDisposable {
  readonly #options: WatchdogOptions;
  readonly #nowMs: () => number;
  readonly #loop: Loop;
  #records: number | undefined;
  #progressMs = 0;
  #restartedMs = Number.NEGATIVE_INFINITY;

  constructor(options: WatchdogOptions) {
    this.#options = options;
    this.#nowMs = options.nowMs ?? Date.now;
    const everyMs = options.everyMs ?? EVERY_MS;
    const failed = (error: unknown): void =>
      options.log.debug({ event: "collector.progress_unknown", err: (error as Error).message }, "cannot query the collector's progress");
    this.#loop = new Loop({ firstAfterMs: everyMs, step: async () => (await this.check(), everyMs), failed });
  }

  failing(): FailingSignal[] {
    const { files, supervisor } = this.#options;
    const rejected = [...supervisor.rejections].map(([signal, { sinceMs, error }]) => ({
      signal,
      sinceMs,
      error: `the collector cannot write to its disk queue: ${error}`,
    }));
    const { lastPassMs, isFollowing, open } = files.status();
    // The pause for up to 2,000 files, one second, is part of the 30 s.
    const pauseMs = Math.max(0, (this.#options.pauseMs?.(open) ?? 0) - 1000);
    const { state } = supervisor.status();
    if (!isFollowing) return rejected;
    const stuck = (sinceMs: number, error: string, pauseMs = 0): FailingSignal[] =>
      this.#nowMs() - sinceMs > STUCK_AFTER_MS + pauseMs ? [{ signal: "logs", sinceMs, error }] : [];
    return [
      ...rejected,
      ...stuck(lastPassMs, "the agent has finished no pass over LOG_PATHS for 30 s or longer: a file system does not answer"),
      ...(state === "running"
        ? stuck(this.#lastReadMs(), "the collector has finished no pass over the log files for 30 s or longer", pauseMs)
        : []),
    ];
  }

  /** When the collector last showed that it reads, in Unix milliseconds. */
  #lastReadMs(): number {
    const { files, supervisor } = this.#options;
    return Math.max(Date.parse(supervisor.status().since), files.status().lastCollectorPassMs, this.#progressMs);
  }

  /** Runs one check; called every few seconds. */
  async check(): Promise<void> {
    const { supervisor, receiver, readMetrics = readText } = this.#options;
    const rejection = supervisor.rejections.get("logs");
    const url = supervisor.metricsUrl;
    const isLate = this.#nowMs() - this.#lastReadMs() > LATE_AFTER_MS;
    if (!isLate) this.#records = undefined;
    if (url === undefined || (rejection === undefined && !isLate)) return;
    const metrics = await readMetrics(url);
    const records = sumMetric(metrics, "otelcol_receiver_accepted_log_records", `receiver="${receiver}"`);
    if (this.#records !== undefined && !Object.is(records, this.#records)) this.#progressMs = this.#nowMs();
    if (isLate) this.#records = records;
    if (rejection) this.#restartIfEmpty(rejection, sumMetric(metrics, "otelcol_exporter_queue_size", `exporter="${FILES_EXPORTER}"`));
  }

  #restartIfEmpty({ sinceMs, error }: Omit<Rejection, "lastMs">, queued: number): void {
    const { supervisor, log } = this.#options;
    const nowMs = this.#nowMs();
    if (queued !== 0 || nowMs - sinceMs < RESTART_AFTER_MS || nowMs - this.#restartedMs < RESTART_AGAIN_MS) return;
    this.#restartedMs = nowMs;
    log.warn(
      { event: "collector.empty_queue_full", err: error },
      "the disk queue is empty and cannot be written; restarting the collector",
    );
    supervisor.killAndRestart();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
  }
}

async function readText(url: string): Promise<string> {
  return (await ask(url, { signal: AbortSignal.timeout(ASK_WITHIN_MS) })).text;
}

// Tracks the results of one signal's requests: counts, last success, last error, and outages, which are logged in a few lines instead of
// one per request. Invariant: an outage is logged when it begins, every REMIND_MS, and when it ends.
import type { Logger } from "pino";
import { Outage, type OutageFacts } from "../../common/outage.ts";
import type { LineCounts } from "../collector/files/file-batch.ts";
import type { Signal } from "../settings.ts";

export interface SignalStatus {
  /** RFC 3339; null until the backend has accepted a request. */
  readonly lastSuccess: string | null;
  readonly lastError: { readonly at: string; readonly message: string } | null;
  /** Start of the current outage, RFC 3339; null if there is none. */
  readonly failingSince: string | null;
  /** Requests of the collector that the backend accepted completely. */
  readonly accepted: number;
  /** Requests that the collector was asked to repeat. */
  readonly retried: number;
  /** Requests that the backend permanently refused: what it did not store of them is lost. */
  readonly refused: number;
  /**
   * Dropped metric points by reason (common/otlp-metrics/series-writer.ts, DropReason), and dropped records as `too_large`, `invalid` or
   * `nul_bytes`; the rest of their requests was delivered.
   */
  readonly droppedPoints: Readonly<Record<string, number>>;
  /** Lines of files that the collector split into several records, because they are longer than 1 MiB. */
  readonly splitLines: number;
  /** Size of the accepted requests: as compressed by the collector for logs and traces of applications, otherwise uncompressed. */
  readonly acceptedBytes: number;
}

const REMIND_MS = 5 * 60_000;
const REFUSAL_REMIND_MS = 60_000;

export class SignalRecord {
  readonly #signal: Signal;
  readonly #log: Logger;
  readonly #nowMs: () => number;
  readonly #outage: Outage<string>;
  #lastSuccessMs: number | undefined;
  #lastError: { atMs: number; message: string } | undefined;
  #refusalLoggedAtMs = Number.NEGATIVE_INFINITY;
  readonly #dropped = new Map<string, number>();
  readonly #counts = { accepted: 0, retried: 0, refused: 0, acceptedBytes: 0, splitLines: 0 };

  constructor(signal: Signal, log: Logger, nowMs: () => number) {
    this.#signal = signal;
    this.#log = log;
    this.#nowMs = nowMs;
    const warn = (reason: string, { seconds, failures }: OutageFacts): void =>
      log.warn(
        { event: "proxy.signal_failing", signal, failing_s: seconds, retried: failures },
        `${signal} are not delivered; the collector keeps them and retries: ${reason}`,
      );
    this.#outage = new Outage({
      began: warn,
      reminded: warn,
      remindEveryMs: REMIND_MS,
      ended: ({ seconds, failures }) =>
        log.info(
          { event: "proxy.signal_recovered", signal, outage_s: seconds, retried: failures },
          `recovered: ${signal} are delivered again after ${seconds} s`,
        ),
      nowMs,
    });
  }

  accepted(bytes: number): void {
    const nowMs = this.#nowMs();
    this.#counts.accepted++;
    this.#counts.acceptedBytes += bytes;
    this.#lastSuccessMs = nowMs;
    this.#outage.recovered();
  }

  /** The collector keeps the data and will send it again. */
  retry(reason: string): void {
    const nowMs = this.#nowMs();
    this.#counts.retried++;
    this.#lastError = { atMs: nowMs, message: reason };
    this.#outage.failed(reason);
  }

  /** The proxy itself asks the collector to wait: the backend may be well, so this is no outage. */
  postponed(reason: string): void {
    this.#counts.retried++;
    this.#lastError = { atMs: this.#nowMs(), message: reason };
  }

  /** The data of this request is permanently lost. */
  refused(status: number, message: string): void {
    const nowMs = this.#nowMs();
    this.#counts.refused++;
    this.#lastError = { atMs: nowMs, message };
    if (nowMs - this.#refusalLoggedAtMs < REFUSAL_REMIND_MS) return;
    this.#refusalLoggedAtMs = nowMs;
    this.#log.error(
      { event: "proxy.request_refused", signal: this.#signal, status, refused: this.#counts.refused },
      `the backend refused a request with ${this.#signal}, whose data is lost: ${message}`,
    );
  }

  /** Counts lines of files that were not sent as they are in the file. */
  countLines({ split, holes }: LineCounts): void {
    this.#counts.splitLines += split;
    if (holes > 0) this.dropped("nul_bytes", holes, "a log file was truncated while its program kept its offset");
  }

  /** Logged once per reason, because data that cannot be converted is exported again and again. */
  dropped(reason: string, count: number, detail?: string): void {
    const before = this.#dropped.get(reason);
    this.#dropped.set(reason, (before ?? 0) + count);
    if (before !== undefined) return;
    const unit = this.#signal === "metrics" ? "points" : "records";
    const why = detail === undefined ? reason : `${reason}: ${detail}`;
    this.#log.warn(
      { event: "proxy.data_dropped", signal: this.#signal, reason, [unit]: count },
      `dropping ${unit} of ${this.#signal}: ${why}`,
    );
  }

  status(): SignalStatus {
    const error = this.#lastError;
    return {
      lastSuccess: rfc3339(this.#lastSuccessMs),
      lastError: error === undefined ? null : { at: new Date(error.atMs).toISOString(), message: error.message },
      failingSince: rfc3339(this.#outage.sinceMs),
      ...this.#counts,
      droppedPoints: Object.fromEntries(this.#dropped),
    };
  }
}

function rfc3339(ms: number | undefined): string | null {
  return ms === undefined ? null : new Date(ms).toISOString();
}

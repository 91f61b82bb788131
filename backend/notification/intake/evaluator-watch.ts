// Tracks whether the evaluator works, and since when: a missing alert is resolved only if the evaluator would have reported it. Invariants:
// an unknown state counts as not working; time in which this process was suspended does not count as working.
import { Loop } from "../../../common/loop.ts";
import { Outage } from "../../../common/outage.ts";
import type { Log } from "../../log.ts";

export interface EvaluatorWatchOptions {
  readonly check: () => Promise<void>;
  readonly nowMs: () => number;
  /** Wall clock that reveals a suspension; a monotonic clock may stop with the machine. */
  readonly wallMs?: (() => number) | undefined;
  readonly everyMs?: number | undefined;
  readonly intervalMs: number;
  readonly log: Log;
}

const EVERY_MS = 10_000;
const MIN_SETTLED_MS = 120_000;
const SETTLED_INTERVALS = 3;
const REMIND_MS = 300_000;
/** A gap of this time plus the check interval means that the process was suspended; a check takes at most about five seconds. */
const SUSPENSION_MS = 20_000;
/** This many failures in a row are an outage; fewer may be a start of the evaluator. */
const FAILURES = 3;

export class EvaluatorWatch implements AsyncDisposable {
  readonly #nowMs: () => number;
  readonly #wallMs: () => number;
  readonly #settledMs: number;
  readonly #suspensionMs: number;
  readonly #log: Log;
  readonly #loop: Loop;
  /** Wall-clock time of the last call of #detectSuspension. */
  #seenMs: number;
  #wokeMs: number | undefined;
  #upSinceMs: number | undefined;
  #isDown = false;

  constructor({ check, nowMs, wallMs = Date.now, everyMs = EVERY_MS, intervalMs, log }: EvaluatorWatchOptions) {
    this.#nowMs = nowMs;
    this.#wallMs = wallMs;
    this.#seenMs = wallMs();
    this.#log = log;
    this.#suspensionMs = everyMs + SUSPENSION_MS;
    this.#settledMs = Math.max(MIN_SETTLED_MS, SETTLED_INTERVALS * intervalMs);
    const outage = new Outage({
      began: (err) =>
        log.error(
          { event: "evaluator.unavailable", err },
          "vmalert does not respond: rules may not be evaluated, missing alerts are not resolved",
        ),
      reminded: (err, { seconds }) =>
        log.error({ event: "evaluator.still_unavailable", err, seconds }, "vmalert still does not respond: rules may not be evaluated"),
      ended: ({ seconds }) => log.info({ event: "evaluator.recovered", seconds }, "recovered: vmalert responds"),
      remindEveryMs: REMIND_MS,
    });
    this.#loop = new Loop({
      step: async () => {
        this.#detectSuspension();
        await check();
        this.#detectSuspension();
        this.#upSinceMs ??= nowMs();
        this.#isDown = false;
        outage.recovered();
        return everyMs;
      },
      failed: (error, failures) => {
        this.#upSinceMs = undefined;
        this.#isDown = failures >= FAILURES;
        if (this.#isDown) outage.failed(error);
      },
      backoffMs: [1000, everyMs],
    });
  }

  /** True if the evaluator has worked without interruption for long enough to evaluate each rule. */
  get isSettled(): boolean {
    this.#detectSuspension();
    return this.#upSinceMs !== undefined && this.#nowMs() - this.#upSinceMs >= this.#settledMs;
  }

  /** True shortly after a suspension: an alert that ends now may have ended only because no telemetry arrived meanwhile. */
  get isJustAwake(): boolean {
    this.#detectSuspension();
    return this.#wokeMs !== undefined && Math.abs(this.#nowMs() - this.#wokeMs) < this.#settledMs;
  }

  /** Call when a report of the evaluator could not be stored. */
  missed(): void {
    if (this.#upSinceMs !== undefined) this.#upSinceMs = this.#nowMs();
  }

  get isUp(): boolean {
    return this.#upSinceMs !== undefined;
  }

  /** False also before the first check. */
  get isDown(): boolean {
    return this.#isDown;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
  }

  /** Detects a suspension since the last call. A changed clock looks the same, and is treated the same. */
  #detectSuspension(): void {
    const wallMs = this.#wallMs();
    const gapMs = Math.abs(wallMs - this.#seenMs);
    this.#seenMs = wallMs;
    if (gapMs <= this.#suspensionMs) return;
    this.#wokeMs = this.#nowMs();
    this.missed();
    const seconds = Math.round(gapMs / 1000);
    const waitSeconds = this.#settledMs / 1000;
    this.#log.warn(
      { event: "notification.process_suspended", seconds, waitSeconds },
      "process was suspended or the clock jumped; not resolving alerts for now",
    );
  }
}

// Whether the evaluator works, and since when: a missing alert is resolved only if the evaluator would have sent it. Invariants: unknown
// counts as not working; neither does time count in which this process stood still, as on a machine that was suspended.
import { Loop } from "../../../common/loop.ts";
import { Outage } from "../../../common/outage.ts";
import type { Log } from "../../operations/log.ts";

export interface EvaluatorWatchOptions {
  /** Throws when it does not answer. */
  readonly check: () => Promise<void>;
  readonly nowMs: () => number;
  /** By which a stand-still is seen: the wall's, because others stop with the machine. */
  readonly wallMs?: (() => number) | undefined;
  readonly everyMs?: number | undefined;
  /** Between evaluations of a rule. */
  readonly intervalMs: number;
  readonly log: Log;
}

const EVERY_MS = 10_000;
const LEAST_SETTLED_MS = 120_000;
const SETTLED_INTERVALS = 3;
const REMIND_MS = 300_000;
/** Beyond the time between checks. A check itself takes at most some five seconds. */
const STANDSTILL_MS = 20_000;
/** So many failures in a row are an outage: it may be starting. */
const FAILURES = 3;

export class EvaluatorWatch implements AsyncDisposable {
  readonly #nowMs: () => number;
  readonly #wallMs: () => number;
  readonly #settledMs: number;
  readonly #standstillMs: number;
  readonly #log: Log;
  readonly #loop: Loop;
  /** When it was last seen that this process runs, by the wall's clock. */
  #ranMs: number;
  #wokeMs: number | undefined;
  #upSinceMs: number | undefined;
  #isDown = false;

  constructor({ check, nowMs, wallMs = Date.now, everyMs = EVERY_MS, intervalMs, log }: EvaluatorWatchOptions) {
    this.#nowMs = nowMs;
    this.#wallMs = wallMs;
    this.#ranMs = wallMs();
    this.#log = log;
    this.#standstillMs = everyMs + STANDSTILL_MS;
    this.#settledMs = Math.max(LEAST_SETTLED_MS, SETTLED_INTERVALS * intervalMs);
    const outage = new Outage({
      began: (err) =>
        log.error(
          { event: "evaluator.unavailable", err },
          "vmalert is unavailable: no rules are evaluated, and alerts keep their last state",
        ),
      reminded: (err, { seconds }) =>
        log.error({ event: "evaluator.still_unavailable", err, seconds }, "vmalert is still unavailable: no rules are evaluated"),
      ended: ({ seconds }) => log.info({ event: "evaluator.recovered", seconds }, "recovered: vmalert is available"),
      remindEveryMs: REMIND_MS,
    });
    this.#loop = new Loop({
      step: async () => {
        this.#run();
        await check();
        this.#run();
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

  /** It has worked without a break for so long that each rule has been evaluated since. */
  get isSettled(): boolean {
    this.#run();
    return this.#upSinceMs !== undefined && this.#nowMs() - this.#upSinceMs >= this.#settledMs;
  }

  /** A moment ago nothing ran. What ends now may have ended only because no telemetry came meanwhile. */
  get isJustAwake(): boolean {
    this.#run();
    return this.#wokeMs !== undefined && Math.abs(this.#nowMs() - this.#wokeMs) < this.#settledMs;
  }

  /** Something that the evaluator said could not be kept. */
  missed(): void {
    if (this.#upSinceMs !== undefined) this.#upSinceMs = this.#nowMs();
  }

  get isUp(): boolean {
    return this.#upSinceMs !== undefined;
  }

  /** Not: it was not asked yet. */
  get isDown(): boolean {
    return this.#isDown;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
  }

  /** The first call afterwards notices that the process was suspended. A changed clock looks the same, and is treated the same. */
  #run(): void {
    const wallMs = this.#wallMs();
    const stoodMs = Math.abs(wallMs - this.#ranMs);
    this.#ranMs = wallMs;
    if (stoodMs <= this.#standstillMs) return;
    this.#wokeMs = this.#nowMs();
    this.missed();
    const seconds = Math.round(stoodMs / 1000);
    const waitSeconds = this.#settledMs / 1000;
    this.#log.warn(
      { event: "notification.process_suspended", seconds, waitSeconds },
      "process was suspended or the clock jumped; not resolving alerts for now",
    );
  }
}

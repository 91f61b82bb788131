// Whether the evaluator works, and since when: what nobody speaks of is over only where somebody would have spoken. Invariant: unknown
// counts as not working.
import { Loop } from "../../agent/common/loop.ts";
import { Outage } from "../../agent/common/outage.ts";
import type { Log } from "../observability/log.ts";

export interface EvaluatorWatchOptions {
  /** Throws when it does not answer. */
  readonly check: () => Promise<void>;
  readonly nowMs: () => number;
  readonly everyMs?: number | undefined;
  /** Between evaluations of a rule. */
  readonly intervalMs: number;
  readonly log: Log;
}

const EVERY_MS = 10_000;
const LEAST_SETTLED_MS = 120_000;
const SETTLED_INTERVALS = 3;
const REMIND_MS = 300_000;
/** So many failures in a row are an outage: it may be starting. */
const FAILURES = 3;

export class EvaluatorWatch implements AsyncDisposable {
  readonly #nowMs: () => number;
  readonly #settledMs: number;
  readonly #loop: Loop;
  #upSinceMs: number | undefined;
  #isDown = false;

  constructor({ check, nowMs, everyMs = EVERY_MS, intervalMs, log }: EvaluatorWatchOptions) {
    this.#nowMs = nowMs;
    this.#settledMs = Math.max(LEAST_SETTLED_MS, SETTLED_INTERVALS * intervalMs);
    const outage = new Outage({
      began: (err) => log.error({ err }, "the evaluator does not answer: no rule is evaluated, and what fires stays as it was"),
      reminded: (err, { seconds }) => log.error({ err, seconds }, "the evaluator still does not answer: no rule is evaluated"),
      ended: ({ seconds }) => log.info({ seconds }, "recovered: the evaluator answers"),
      remindEveryMs: REMIND_MS,
    });
    this.#loop = new Loop({
      step: async () => {
        await check();
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
    return this.#upSinceMs !== undefined && this.#nowMs() - this.#upSinceMs >= this.#settledMs;
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
}

// Tells an outage that requests meet in a few lines instead of one per refused request: when it begins (with its cause), every half minute
// while it lasts, and when no request has met it for that long. Invariant: each request that met it is counted.
import { Outage } from "../../agent/common/outage.ts";
import type { Log } from "../observability/log.ts";

const INTERVAL_MS = 30_000;

interface Failure {
  readonly cause: unknown;
  readonly context: Readonly<Record<string, unknown>>;
}

interface Told {
  readonly outage: Outage<Failure>;
  /** Since the last review. */
  wasMet: boolean;
}

export class OutageLog implements Disposable {
  readonly #log: Log;
  readonly #intervalMs: number;
  readonly #told = new Map<string, Told>();
  readonly #timer: NodeJS.Timeout;

  constructor(log: Log, intervalMs = INTERVAL_MS) {
    this.#log = log;
    this.#intervalMs = intervalMs;
    this.#timer = setInterval(() => this.#review(), intervalMs).unref();
  }

  /** `what` is the message of the answer; failures with the same one are one outage. */
  failed(what: string, cause: unknown, context: Record<string, unknown>): void {
    const told = this.#told.get(what) ?? { outage: this.#outageOf(what), wasMet: true };
    this.#told.set(what, told);
    told.wasMet = true;
    told.outage.failed({ cause, context });
  }

  #outageOf(what: string): Outage<Failure> {
    return new Outage({
      began: ({ cause, context }) => this.#log.error({ ...context, cause: causeOf(cause) }, what),
      reminded: (_, { failures, seconds }) => this.#log.warn({ requests: failures, seconds }, `still: ${what}`),
      ended: ({ failures, seconds }) => this.#log.info({ requests: failures, seconds }, `recovered: ${what}`),
      remindEveryMs: this.#intervalMs,
    });
  }

  #review(): void {
    for (const [what, told] of this.#told) {
      if (!told.wasMet) {
        told.outage.recovered();
        this.#told.delete(what);
      }
      told.wasMet = false;
    }
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}

/** With the error below it, which says what the one above only names. */
function causeOf(error: unknown): string {
  const { message, cause } = error instanceof Error ? error : new Error(String(error));
  return cause instanceof Error ? `${message}: ${cause.message}` : message;
}

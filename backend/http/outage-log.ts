// Logs an outage that requests run into as a few lines instead of one line per failed request: at its beginning (with the cause), every
// 30 s while it lasts, and when no request has failed for that long. Invariant: every failed request is counted.
import { Outage } from "../../common/outage.ts";
import type { Log } from "../operations/log.ts";

const INTERVAL_MS = 30_000;

interface Failure {
  readonly cause: unknown;
  readonly context: Readonly<Record<string, unknown>>;
}

interface LoggedOutage {
  readonly outage: Outage<Failure>;
  failedSinceReview: boolean;
}

export class OutageLog implements Disposable {
  readonly #log: Log;
  readonly #intervalMs: number;
  readonly #outages = new Map<string, LoggedOutage>();
  readonly #timer: NodeJS.Timeout;

  constructor(log: Log, intervalMs = INTERVAL_MS) {
    this.#log = log;
    this.#intervalMs = intervalMs;
    this.#timer = setInterval(() => this.#review(), intervalMs).unref();
  }

  /** `message`: what the client was answered; failures with the same message are one outage. */
  failed(message: string, cause: unknown, context: Record<string, unknown>): void {
    const logged = this.#outages.get(message) ?? { outage: this.#createOutage(message), failedSinceReview: true };
    this.#outages.set(message, logged);
    logged.failedSinceReview = true;
    logged.outage.failed({ cause, context });
  }

  #createOutage(message: string): Outage<Failure> {
    return new Outage({
      began: ({ cause, context }) => this.#log.error({ event: "http.requests_failing", ...context, cause: describeCause(cause) }, message),
      reminded: (_, { failures, seconds }) =>
        this.#log.warn({ event: "http.requests_still_failing", requests: failures, seconds }, `still failing: ${message}`),
      ended: ({ failures, seconds }) =>
        this.#log.info({ event: "http.requests_recovered", requests: failures, seconds }, `recovered: ${message}`),
      remindEveryMs: this.#intervalMs,
    });
  }

  #review(): void {
    for (const [message, logged] of this.#outages) {
      if (!logged.failedSinceReview) {
        logged.outage.recovered();
        this.#outages.delete(message);
      }
      logged.failedSinceReview = false;
    }
  }

  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}

/** Includes the nested cause, which has the details that the outer error only summarises. */
function describeCause(error: unknown): string {
  const { message, cause } = error instanceof Error ? error : new Error(String(error));
  return cause instanceof Error ? `${message}: ${cause.message}` : message;
}

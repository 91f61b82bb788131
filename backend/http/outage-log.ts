// Logs for requests. `OutageLog` logs an outage that requests run into as a few lines instead of one per failed request: at its beginning
// (with the cause), every 30 s while it lasts, and once no request has failed for that long; every failed request is counted. `RequestLog`
// adds the id of the request to its lines; it creates the child logger on first use, because pino serialises its bindings and most requests
// log nothing.
import { Outage } from "../../common/outage.ts";
import type { Log } from "../log.ts";
import type { FastifyBaseLogger } from "fastify";

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

  /** `message`: the message in the response; failures with the same message count as one outage. */
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

type ChildArguments = Parameters<FastifyBaseLogger["child"]>;
type LogArguments = [object, string?];

export class RequestLog {
  readonly #log: FastifyBaseLogger;
  readonly #childArguments: ChildArguments;
  #child: FastifyBaseLogger | undefined;

  constructor(log: FastifyBaseLogger, ...childArguments: ChildArguments) {
    this.#log = log;
    this.#childArguments = childArguments;
  }

  get level(): string {
    return this.#logger().level;
  }

  fatal(...line: LogArguments): void {
    this.#logger().fatal(...line);
  }

  error(...line: LogArguments): void {
    this.#logger().error(...line);
  }

  warn(...line: LogArguments): void {
    this.#logger().warn(...line);
  }

  info(...line: LogArguments): void {
    this.#logger().info(...line);
  }

  debug(...line: LogArguments): void {
    this.#logger().debug(...line);
  }

  trace(...line: LogArguments): void {
    this.#logger().trace(...line);
  }

  silent(): void {}

  child(...childArguments: ChildArguments): FastifyBaseLogger {
    return this.#logger().child(...childArguments);
  }

  #logger(): FastifyBaseLogger {
    return (this.#child ??= this.#log.child(...this.#childArguments));
  }
}

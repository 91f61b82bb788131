// The log of one request, which says whose line it is. Invariant: it is made when the request first has something to tell, which most never
// have: pino would serialise and censor its bindings for each.
import type { FastifyBaseLogger } from "fastify";

type Child = Parameters<FastifyBaseLogger["child"]>;
type Told = [object, string?];

export class RequestLog {
  readonly #log: FastifyBaseLogger;
  readonly #of: Child;
  #made: FastifyBaseLogger | undefined;

  /** `of`: what the lines carry, and how. */
  constructor(log: FastifyBaseLogger, ...of: Child) {
    this.#log = log;
    this.#of = of;
  }

  get level(): string {
    return this.#own().level;
  }

  fatal(...told: Told): void {
    this.#own().fatal(...told);
  }

  error(...told: Told): void {
    this.#own().error(...told);
  }

  warn(...told: Told): void {
    this.#own().warn(...told);
  }

  info(...told: Told): void {
    this.#own().info(...told);
  }

  debug(...told: Told): void {
    this.#own().debug(...told);
  }

  trace(...told: Told): void {
    this.#own().trace(...told);
  }

  silent(): void {}

  child(...of: Child): FastifyBaseLogger {
    return this.#own().child(...of);
  }

  #own(): FastifyBaseLogger {
    return (this.#made ??= this.#log.child(...this.#of));
  }
}

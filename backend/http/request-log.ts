// The logger of one request, whose lines contain the request's id. Invariant: the child logger is created on first use, because pino
// serialises its bindings and most requests log nothing.
import type { FastifyBaseLogger } from "fastify";

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
    return this.#own().level;
  }

  fatal(...line: LogArguments): void {
    this.#own().fatal(...line);
  }

  error(...line: LogArguments): void {
    this.#own().error(...line);
  }

  warn(...line: LogArguments): void {
    this.#own().warn(...line);
  }

  info(...line: LogArguments): void {
    this.#own().info(...line);
  }

  debug(...line: LogArguments): void {
    this.#own().debug(...line);
  }

  trace(...line: LogArguments): void {
    this.#own().trace(...line);
  }

  silent(): void {}

  child(...childArguments: ChildArguments): FastifyBaseLogger {
    return this.#own().child(...childArguments);
  }

  #own(): FastifyBaseLogger {
    return (this.#child ??= this.#log.child(...this.#childArguments));
  }
}

// What keeps an identity from working, said once. Invariant: the same words are written once for each time that the problem comes.
import type { Logger } from "pino";
import { Outage } from "../../common/outage.ts";
import { BackendError } from "../upstream/backend-api.ts";
import type { AgentIdentityStatus } from "./identity.ts";

export type Problem = NonNullable<AgentIdentityStatus["problem"]>;

/** The present problem of an identity is its `cause`. */
export class ProblemReport {
  readonly #outage: Outage<Problem>;

  constructor(log: Logger, whose: "host" | "cluster") {
    this.#outage = new Outage({
      began: ({ code, message }) => log.error({ problem: code }, message),
      ended: (_facts, { code }) => log.info({ was: code }, `the ${whose}'s identity has recovered`),
    });
  }

  get current(): Problem | undefined {
    return this.#outage.cause;
  }

  /** Undefined: there is none any more. */
  report(problem: Problem | undefined): void {
    if (problem) this.#outage.failed(problem, problem.message);
    else this.#outage.recovered();
  }
}

/** What the Kubernetes API or the backend answered says so itself; a connection that there is none of is the API's. */
export function problemWords(error: unknown): string {
  const { code, message } = error as { code?: unknown; message?: unknown };
  const isConnection = !(error instanceof BackendError) && /^(E[A-Z]+|UND_ERR_\w+)$/.test(String(code)) && code !== "ENOENT";
  const text = String(message || code || error);
  return isConnection ? `the Kubernetes API does not answer: ${text}` : text;
}

// Whether the account database answers, as the look-up caches of one process see it, and how many requests were accepted meanwhile by what
// was known before. Only a database that cannot be reached or does not answer in time is an outage; a failing statement is not.
import { Outage } from "../../agent/common/outage.ts";
import { ApiError } from "../errors.ts";
import type { Log } from "../observability/log.ts";

const REMIND_EVERY_MS = 60_000;

export class DatabaseOutage {
  readonly #stale: Outage;
  #cause: unknown;
  #isAway = false;

  constructor(log?: Pick<Log, "info" | "warn">) {
    this.#stale = new Outage({
      began: (err) =>
        log?.warn(
          { event: "auth.stale_keys", err },
          "the account database does not answer: accepting keys, sessions and read tokens as last known, for up to 15 minutes",
        ),
      reminded: (_, { failures, seconds }) =>
        log?.warn(
          { event: "auth.stale_keys", requests: failures, seconds },
          "the account database still does not answer: accepting keys, sessions and read tokens as last known",
        ),
      ended: ({ failures, seconds }) =>
        log?.info(
          { event: "auth.stale_keys_ended", requests: failures, seconds },
          "recovered: the account database answers, revocations are in force",
        ),
      remindEveryMs: REMIND_EVERY_MS,
    });
  }

  /** The last statement that ended found no database. */
  get isAway(): boolean {
    return this.#isAway;
  }

  /** For how long requests have been accepted by what was known before; 0 while they are not. */
  get staleSeconds(): number {
    return (this.#stale.lastsMs ?? 0) / 1000;
  }

  /** A request is accepted by what was known before. */
  used(): void {
    this.#stale.failed(this.#cause);
  }

  /** A statement did not end in time. */
  timedOut(): void {
    this.#cause ??= new Error("the account database does not answer in time");
    this.#isAway = true;
  }

  /** Runs a statement, and learns from how it ends. */
  async ask<T>(statement: () => Promise<T>): Promise<T> {
    try {
      const answer = await statement();
      this.#isAway = false;
      this.#cause = undefined;
      this.#stale.recovered();
      return answer;
    } catch (error) {
      if (isDatabaseAway(error)) [this.#isAway, this.#cause] = [true, error];
      throw error;
    }
  }
}

export function isDatabaseAway(error: unknown): boolean {
  return error instanceof ApiError && (error.code === "storage_unavailable" || error.code === "unavailable");
}

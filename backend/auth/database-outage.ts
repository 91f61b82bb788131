// Tracks whether the account database responds to the lookup caches of this process, and counts the requests that were accepted from cached
// rows during an outage. Only a database that is unreachable or too slow counts as an outage; a failing statement does not.
import { Outage } from "../../common/outage.ts";
import { ApiError } from "../errors.ts";
import type { Log } from "../log.ts";

const REMIND_EVERY_MS = 60_000;

export class DatabaseOutage {
  readonly #stale: Outage;
  #cause: unknown;
  #isUnreachable = false;

  constructor(log?: Pick<Log, "info" | "warn">) {
    this.#stale = new Outage({
      began: (err) => log?.warn({ event: "auth.stale_keys", err }, "account database is unreachable, accepting cached credentials"),
      reminded: (_, { failures, seconds }) =>
        log?.warn(
          { event: "auth.stale_keys", requests: failures, seconds },
          "account database is still unreachable, accepting cached credentials",
        ),
      ended: ({ failures, seconds }) =>
        log?.info({ event: "auth.stale_keys_ended", requests: failures, seconds }, "recovered: account database responds again"),
      remindEveryMs: REMIND_EVERY_MS,
    });
  }

  /** Whether the last statement that ended found the database unreachable. */
  get isUnreachable(): boolean {
    return this.#isUnreachable;
  }

  /** For how long requests have been accepted from cached rows; 0 if they are not. */
  get staleSeconds(): number {
    return (this.#stale.lastsMs ?? 0) / 1000;
  }

  countStaleUse(): void {
    this.#stale.failed(this.#cause);
  }

  statementTimedOut(): void {
    this.#cause ??= new Error("the account database does not respond in time");
    this.#isUnreachable = true;
  }

  /** Runs a statement and records whether the database responded. */
  async run<T>(statement: () => Promise<T>): Promise<T> {
    try {
      const result = await statement();
      this.#isUnreachable = false;
      this.#cause = undefined;
      this.#stale.recovered();
      return result;
    } catch (error) {
      if (isDatabaseUnreachable(error)) [this.#isUnreachable, this.#cause] = [true, error];
      throw error;
    }
  }
}

export function isDatabaseUnreachable(error: unknown): boolean {
  return error instanceof ApiError && (error.code === "storage_unavailable" || error.code === "unavailable");
}

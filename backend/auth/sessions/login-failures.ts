// Counts failed logins of an account from a network in the account database, so that the backoff is the same at every replica and after a
// restart. Invariants: a row contains only a hash of account and network, so neither can be read from it; a row is used for
// FORGET_AFTER_MS.
import { createHash } from "node:crypto";
import { sql } from "kysely";
import type { AccountDb } from "./account-tables.ts";

/** Older failures no longer count. */
export const FORGET_AFTER_MS = 60 * 60_000;
const REMOVE_EVERY_MS = 60_000;

export interface Failures {
  readonly failures: number;
  readonly lastFailureMs: number;
}

const NONE: Failures = { failures: 0, lastFailureMs: 0 };

export class LoginFailures {
  readonly #db: AccountDb;
  readonly #now: () => number;
  #removedAtMs = 0;

  constructor(db: AccountDb, now: () => number = Date.now) {
    this.#db = db;
    this.#now = now;
  }

  /** `pair`: account and network. */
  async read(pair: string): Promise<Failures> {
    const row = await this.#db.selectFrom("login_failures").selectAll().where("pair", "=", hashOf(pair)).executeTakeFirst();
    if (!row || this.#now() - row.failed_at.getTime() > FORGET_AFTER_MS) return NONE;
    return { failures: row.failures, lastFailureMs: row.failed_at.getTime() };
  }

  async add(pair: string): Promise<Failures> {
    const nowMs = this.#now();
    const failed_at = new Date(nowMs);
    // The count of an expired row starts again at 1; otherwise, another replica may have added failures in the meantime.
    const isExpired = sql`login_failures.failed_at < ${new Date(nowMs - FORGET_AFTER_MS)}`;
    const count = sql<number>`CASE WHEN ${isExpired} THEN 1 ELSE login_failures.failures + 1 END`;
    const row = await this.#db
      .insertInto("login_failures")
      .values({ pair: hashOf(pair), failures: 1, failed_at })
      .onConflict((conflict) => conflict.column("pair").doUpdateSet({ failures: count, failed_at }))
      .returning("failures")
      .executeTakeFirstOrThrow();
    if (nowMs - this.#removedAtMs >= REMOVE_EVERY_MS) {
      this.#removedAtMs = nowMs;
      await this.#db
        .deleteFrom("login_failures")
        .where("failed_at", "<", new Date(nowMs - FORGET_AFTER_MS))
        .execute();
    }
    return { failures: row.failures, lastFailureMs: nowMs };
  }

  async clear(pair: string): Promise<void> {
    await this.#db.deleteFrom("login_failures").where("pair", "=", hashOf(pair)).execute();
  }
}

function hashOf(pair: string): string {
  return createHash("sha256").update(pair).digest("hex");
}

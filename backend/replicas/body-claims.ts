// Decides which replica stores a request body of logs or spans if replicas share PostgreSQL and ClickHouse, because a sender that repeats a
// request may reach another replica. Invariants: a body has one claim at a time; the claim of another replica is taken over only if that
// replica is gone or the claim is older than any insert can be; if the database does not respond within `patienceMs`, bodies are stored
// without a claim, because ingest continues while the database is unavailable. Decision: docs/adr/0039-shared-limits-and-claims.md.
import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { type Kysely, sql } from "kysely";
import { Outage } from "../../common/outage.ts";
import { Batcher } from "../engines/batcher.ts";
import { ApiError } from "../errors.ts";
import type { Log } from "../log.ts";
import { MAX_CLAIMS_PER_STATEMENT, MAX_WAITING_CLAIMS } from "../operations/operations-limits.ts";
import { isAlive } from "./replica-set.ts";

/** A body that arrives again after this time is stored again (once-writer.ts). */
const WINDOW_S = 600;
/** Longer than the time limit of an insert. */
const INSERT_S = 75;
const PATIENCE_MS = 1000;
const RETRY_AFTER_S = 2;
const STATEMENTS = 2;
const REMOVE_EVERY_MS = 60_000;

/** Whether this replica alone may store a body, or another replica has claimed it. */
export type Claim = "ours" | "another replica's";

export interface BodyClaimsOptions {
  readonly db: Kysely<unknown>;
  readonly replicaId: string;
  readonly log: Log;
  readonly patienceMs?: number;
}

export class BodyClaims implements AsyncDisposable {
  readonly #options: BodyClaimsOptions;
  readonly #batcher: Batcher<string, Claim>;
  readonly #outage: Outage;
  readonly #timer: NodeJS.Timeout;
  #isAway = false;

  constructor(options: BodyClaimsOptions) {
    const { log } = options;
    this.#options = options;
    this.#batcher = new Batcher({
      write: (bodies) => this.#claimAll(bodies),
      maxItems: MAX_CLAIMS_PER_STATEMENT,
      concurrency: STATEMENTS,
    });
    this.#outage = new Outage({
      began: (err) =>
        log.warn(
          { event: "replicas.claims_unavailable", err },
          "database does not answer; a body that a sender repeats to another replica may be stored twice",
        ),
      ended: ({ failures, seconds }) =>
        log.info(
          { event: "replicas.claims_recovered", bodies: failures, seconds },
          "recovered: repeated bodies are recognised by all replicas",
        ),
    });
    this.#timer = setInterval(() => void this.#removeOld(), REMOVE_EVERY_MS).unref();
  }

  /** `body` identifies sender, content and day. Never throws. */
  async claim(body: string): Promise<Claim> {
    if (this.#batcher.waiting >= MAX_WAITING_CLAIMS) return "ours";
    const claiming = this.#batcher.add(idOf(body));
    if (this.#isAway) {
      // Safe to ignore: the outage is logged, and the next statement succeeds once the database responds again.
      claiming.catch(() => undefined);
      return "ours";
    }
    const sleepStop = new AbortController();
    const { patienceMs = PATIENCE_MS } = this.#options;
    const late = sleep(patienceMs, "late" as const, { signal: sleepStop.signal }).catch(() => "late" as const);
    try {
      const first = await Promise.race([claiming, late]);
      if (first !== "late") return first;
      this.#failed(new Error("the account database does not answer in time"));
      claiming.catch(() => undefined);
    } catch (error) {
      this.#failed(error);
    } finally {
      sleepStop.abort();
    }
    return "ours";
  }

  /** Takes over the claim of another replica, which has not stored the body. Throws ApiError `unavailable` while it may be storing it. */
  async takeOver(body: string): Promise<void> {
    const { db, replicaId } = this.#options;
    const { rows } = await sql`
      UPDATE body_claims SET replica = ${replicaId}::uuid, claimed_at = now()
      WHERE body = ${idOf(body)}::uuid AND (claimed_at < now() - make_interval(secs => ${INSERT_S}) OR NOT ${isAlive("body_claims.replica")})
      RETURNING body`.execute(db);
    if (rows.length > 0) return;
    const message = "another replica may be storing this body; send it again later";
    throw new ApiError("unavailable", message, { retryAfterS: RETRY_AFTER_S });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await this.#batcher.flush();
  }

  /** In a fixed order, which prevents deadlocks between replicas. */
  async #claimAll(bodies: readonly string[]): Promise<Claim[]> {
    const { db, replicaId } = this.#options;
    const ids = [...new Set(bodies)].sort();
    const { rows } = await sql<{ body: string }>`
      INSERT INTO body_claims (body, replica, claimed_at)
      SELECT body, ${replicaId}::uuid, now() FROM unnest(${ids}::uuid[]) WITH ORDINALITY AS given (body, position) ORDER BY position
      ON CONFLICT (body) DO UPDATE SET replica = excluded.replica, claimed_at = excluded.claimed_at
      WHERE body_claims.replica = excluded.replica OR body_claims.claimed_at < now() - make_interval(secs => ${WINDOW_S})
      RETURNING body`.execute(db);
    this.#isAway = false;
    this.#outage.recovered();
    const ours = new Set(rows.map(({ body }) => body));
    return bodies.map((body) => (ours.has(body) ? "ours" : "another replica's"));
  }

  #failed(error: unknown): void {
    this.#isAway = true;
    this.#outage.failed(error);
  }

  async #removeOld(): Promise<void> {
    // Safe to ignore: it is retried after a minute, and other users of the database report the outage.
    await sql`DELETE FROM body_claims WHERE claimed_at < now() - make_interval(secs => ${WINDOW_S})`
      .execute(this.#options.db)
      .catch(() => undefined);
  }
}

function idOf(body: string): string {
  const hex = createHash("sha256").update(body).digest("hex");
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20, 32)].join("-");
}

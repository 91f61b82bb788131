// Decides which insert stores a request body of logs or spans if replicas share PostgreSQL and ClickHouse, because a sender that repeats a
// request may reach another replica. A claim names the deduplication token of its insert. Invariants: a body has one claim at a time; another
// replica's claim is taken over only if that replica is gone or the claim is older than any insert that the replica still waits for; if the
// database does not respond within `patienceMs`, bodies are stored without a claim, because ingest continues while the database is
// unavailable. Decision: docs/adr/0039-shared-limits-and-claims.md.
import { createHash } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { type Kysely, sql } from "kysely";
import { Outage } from "../../common/outage.ts";
import { ApiError } from "../errors.ts";
import type { Log } from "../log.ts";
import { MAX_CLAIMS_PER_STATEMENT } from "../operations/operations-limits.ts";
import { isAlive, type ReplicaSet } from "./replica-set.ts";

/** A body that arrives again after this time is stored again (once-writer.ts). */
const WINDOW_S = 600;
/** Longer than the time limit of an insert. */
const INSERT_S = 75;
/** A busy database may need more than a second; only the first statement of an outage waits this long. */
const PATIENCE_MS = 5000;
const RETRY_AFTER_S = 2;
const REMOVE_EVERY_MS = 60_000;

/** An insert that may store claimed bodies. */
export interface ClaimedInsert<InsertId = string | undefined> {
  /** Its deduplication token; undefined if an earlier version of the backend claimed the body. */
  readonly insertId: InsertId;
  /** When the body's rows were received, in seconds since 1970, by the slowest clock of the replicas that may store them. */
  readonly receivedS: number;
}

/** The claims of one insert. */
export interface Claimed {
  /** For each body, whether this insert may store it; otherwise an earlier insert has claimed it. */
  readonly isOurs: readonly boolean[];
  /** False if another replica may have taken over the claims since. */
  readonly isValid: () => boolean;
}

export interface BodyClaimsOptions {
  readonly db: Kysely<unknown>;
  readonly replicas: Pick<ReplicaSet, "id" | "isSeen">;
  readonly log: Log;
  readonly patienceMs?: number;
}

export class BodyClaims implements AsyncDisposable {
  readonly #options: BodyClaimsOptions;
  readonly #outage: Outage;
  readonly #timer: NodeJS.Timeout;
  readonly #statements = new Set<Promise<unknown>>();
  #isAway = false;

  constructor(options: BodyClaimsOptions) {
    const { log } = options;
    this.#options = options;
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

  /** A body identifies sender, content and day. Never throws. */
  async claim(bodies: readonly string[], insert: ClaimedInsert<string>): Promise<Claimed> {
    const startedMs = performance.now();
    const unclaimed: Claimed = { isOurs: bodies.map(() => true), isValid: () => true };
    // While the database is away, one statement at a time finds out whether it is back.
    if (this.#isAway && this.#statements.size > 0) return unclaimed;
    const claiming = this.#claimAll(bodies.map(idOf), insert);
    this.#statements.add(claiming);
    void claiming.catch((error: unknown) => this.#failed(error)).finally(() => this.#statements.delete(claiming));
    if (this.#isAway) return unclaimed;
    const sleepStop = new AbortController();
    const { patienceMs = PATIENCE_MS, replicas } = this.#options;
    const late = sleep(patienceMs, undefined, { signal: sleepStop.signal }).catch(() => undefined);
    try {
      const isOurs = await Promise.race([claiming, late]);
      if (isOurs) return { isOurs, isValid: () => replicas.isSeen && performance.now() - startedMs < INSERT_S * 1000 };
      this.#failed(new Error("the account database does not answer in time"));
    } catch {
      // Reported above.
    } finally {
      sleepStop.abort();
    }
    return unclaimed;
  }

  /** The insert that has claimed the body. */
  async findInsert(body: string): Promise<string | undefined> {
    const { rows } = await sql<{ insert_id: string | null }>`SELECT insert_id FROM body_claims WHERE body = ${idOf(body)}::uuid`.execute(
      this.#options.db,
    );
    return rows[0]?.insert_id ?? undefined;
  }

  /**
   * Takes over the claim of an earlier insert, under whose token the caller stores rows that it received at `receivedS`. Throws ApiError
   * `unavailable` while another replica may be waiting for that insert.
   */
  async takeOver(body: string, receivedS: number): Promise<ClaimedInsert> {
    const { db, replicas } = this.#options;
    const { rows } = await sql<{ insert_id: string | null; received_s: string }>`
      UPDATE body_claims SET replica = ${replicas.id}::uuid, claimed_at = now(), received_s = least(received_s, ${receivedS}::bigint)
      WHERE body = ${idOf(body)}::uuid AND (replica = ${replicas.id}::uuid
        OR claimed_at < now() - make_interval(secs => ${INSERT_S}) OR NOT ${isAlive("body_claims.replica")})
      RETURNING insert_id, received_s`.execute(db);
    const [claim] = rows;
    if (claim) return { insertId: claim.insert_id ?? undefined, receivedS: Number(claim.received_s) };
    const message = "another replica may be storing this body; send it again later";
    throw new ApiError("unavailable", message, { retryAfterS: RETRY_AFTER_S });
  }

  /** Gives up claims of bodies that are not stored. Never throws: a claim that remains costs the next insert a query. */
  async release(bodies: readonly string[]): Promise<void> {
    if (this.#isAway) return;
    const { db, replicas } = this.#options;
    await sql`DELETE FROM body_claims WHERE body = ANY(${bodies.map(idOf)}::uuid[]) AND replica = ${replicas.id}::uuid`
      .execute(db)
      .catch((error: unknown) => this.#failed(error));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    clearInterval(this.#timer);
    await Promise.allSettled(this.#statements);
  }

  async #claimAll(ids: readonly string[], insert: ClaimedInsert<string>): Promise<readonly boolean[]> {
    const ours = new Set<string>();
    const sorted = [...new Set(ids)].sort();
    for (let at = 0; at < sorted.length; at += MAX_CLAIMS_PER_STATEMENT)
      for (const id of await this.#claimSome(sorted.slice(at, at + MAX_CLAIMS_PER_STATEMENT), insert)) ours.add(id);
    this.#isAway = false;
    this.#outage.recovered();
    return ids.map((id) => ours.has(id));
  }

  /** In a fixed order, which prevents deadlocks between replicas. */
  async #claimSome(ids: readonly string[], { insertId, receivedS }: ClaimedInsert<string>): Promise<string[]> {
    const { db, replicas } = this.#options;
    const { rows } = await sql<{ body: string }>`
      INSERT INTO body_claims (body, replica, claimed_at, insert_id, received_s)
      SELECT body, ${replicas.id}::uuid, now(), ${insertId}, ${receivedS}::bigint FROM unnest(${ids}::uuid[]) WITH ORDINALITY AS given (body, position) ORDER BY position
      ON CONFLICT (body) DO UPDATE SET replica = excluded.replica, claimed_at = excluded.claimed_at, insert_id = excluded.insert_id,
        received_s = excluded.received_s
      WHERE body_claims.claimed_at < now() - make_interval(secs => ${WINDOW_S})
      RETURNING body`.execute(db);
    return rows.map(({ body }) => body);
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

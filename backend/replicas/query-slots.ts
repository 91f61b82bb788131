// Divides the query slots of each organisation between replicas, so that its limit does not depend on the number of replicas. A replica
// takes a slot of an organisation in PostgreSQL when a query waits for one, passes it on to the next query that waits here, and returns it
// when no query does. Invariants: all replicas together use at most the limit, except for queries that are running when a replica is added
// or ends; slots of a replica that is gone are free; while the database does not respond, each replica uses an equal share, at least one
// slot. Decision: docs/adr/0039-shared-limits-and-claims.md.
import { type Kysely, sql } from "kysely";
import { Loop } from "../../common/loop.ts";
import { Outage } from "../../common/outage.ts";
import type { SlotSource } from "../admission/fair-queue.ts";
import type { Log } from "../log.ts";
import { isAlive, type ReplicaSet } from "./replica-set.ts";

/** Pause before a replica tries again to take slots that others use. */
const POLL_MS = 50;
/** A replica with a backlog returns a slot after this time, so that the others get slots, too. */
const TURN_MS = 1000;
const RESPONSE_TIMEOUT_MS = 1000;
const RETRY_MS = 1000;

export interface QuerySlotsOptions {
  readonly db: Kysely<unknown>;
  readonly replicas: Pick<ReplicaSet, "id" | "count">;
  readonly log: Log;
}

interface Owner {
  readonly limit: number;
  /** Slots that this replica holds. */
  readonly slots: Set<number>;
  /** Slots that running and waiting queries can use. */
  wanted: number;
  turnBeganMs: number;
  /** Until this time, the replica takes no slots, so that others can take the one that it returned. */
  restsUntilMs: number;
}

export class QuerySlots implements AsyncDisposable {
  readonly #options: QuerySlotsOptions;
  readonly #loop: Loop;
  readonly #outage: Outage;
  readonly #owners = new Map<string, Owner>();
  readonly #listeners: (() => void)[] = [];
  /** The table may contain slots that no replica uses: at the start, those of replicas that were killed; later, own ones. */
  #mustReturnSlots = true;
  #isUnavailable = false;

  constructor(options: QuerySlotsOptions) {
    this.#options = options;
    const { log } = options;
    this.#outage = new Outage({
      began: (err) =>
        log.warn(
          { event: "replicas.slots_unavailable", err },
          "database does not answer; per organisation, this replica uses its query slots divided by the number of replicas, at least one",
        ),
      ended: ({ seconds }) =>
        log.info({ event: "replicas.slots_recovered", seconds }, "recovered: replicas share the query slots of organisations"),
    });
    this.#loop = new Loop({
      step: () => this.#exchangeInTime(),
      failed: (error) => this.#failed(error),
      backoffMs: [RETRY_MS, RETRY_MS],
    });
  }

  /** `kind`: the kind of queries. `limit`: slots of one organisation in all replicas together. */
  share(kind: string, limit: number): SlotSource {
    const nameOf = (orgId: string): string => `${kind}:${orgId}`;
    return {
      heldBy: (orgId) => this.#usable(nameOf(orgId), limit),
      report: (orgId, running, waiting) => this.#report(nameOf(orgId), limit, { running, waiting }),
      onMore: (listener) => void this.#listeners.push(listener),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
    // Safe to ignore: the slots are free when the replica is gone.
    await sql`DELETE FROM query_slots WHERE replica = ${this.#options.replicas.id}::uuid`.execute(this.#options.db).catch(() => undefined);
  }

  #usable(name: string, limit: number): number {
    const { count } = this.#options.replicas;
    if (count === 1) return limit;
    const held = this.#owners.get(name)?.slots.size ?? 0;
    return this.#isUnavailable ? Math.max(held, 1, Math.floor(limit / count)) : held;
  }

  #report(name: string, limit: number, { running, waiting }: { running: number; waiting: number }): void {
    const nowMs = performance.now();
    const owner = this.#owners.get(name) ?? { limit, slots: new Set<number>(), wanted: 0, turnBeganMs: nowMs, restsUntilMs: 0 };
    owner.wanted = Math.min(limit, running + waiting);
    const isTurnOver = waiting > 0 && running < owner.slots.size && nowMs - owner.turnBeganMs >= TURN_MS;
    if (isTurnOver) [owner.turnBeganMs, owner.restsUntilMs] = [nowMs, nowMs + 2 * POLL_MS];
    const keeps = isTurnOver ? owner.slots.size - 1 : Math.max(owner.wanted, running);
    for (const slot of [...owner.slots].slice(keeps)) {
      owner.slots.delete(slot);
      this.#mustReturnSlots = true;
    }
    if (owner.wanted > 0) this.#owners.set(name, owner);
    else this.#owners.delete(name);
    if (this.#mustReturnSlots || (this.#options.replicas.count > 1 && needsSlots(owner, nowMs))) this.#loop.wake();
  }

  async #exchangeInTime(): Promise<number | undefined> {
    const timeoutError = new Error("the account database does not answer in time");
    const timer = setTimeout(() => this.#failed(timeoutError), RESPONSE_TIMEOUT_MS);
    const isShared = this.#options.replicas.count > 1;
    try {
      if (this.#mustReturnSlots) await this.#returnSlots();
      if (isShared) await this.#takeSlots();
    } catch (error) {
      // A statement whose response was lost may have taken slots.
      this.#mustReturnSlots = true;
      throw error;
    } finally {
      clearTimeout(timer);
    }
    this.#isUnavailable = false;
    this.#outage.recovered();
    this.#notify();
    return isShared && [...this.#owners.values()].some(({ wanted, slots }) => wanted > slots.size) ? POLL_MS : undefined;
  }

  /** Also removes slots of replicas that are gone, which may belong to organisations that are never queried again. */
  async #returnSlots(): Promise<void> {
    const { db, replicas } = this.#options;
    const heldSlots = [...this.#owners].flatMap(([name, { slots }]) => [...slots].map((slot) => [name, slot] as const));
    this.#mustReturnSlots = false;
    await sql`
      DELETE FROM query_slots WHERE (replica = ${replicas.id}::uuid AND (owner, slot) NOT IN (
        SELECT * FROM unnest(${heldSlots.map(([name]) => name)}::text[], ${heldSlots.map(([, slot]) => slot)}::integer[])))
        OR NOT ${isAlive("query_slots.replica")}`.execute(db);
  }

  /** Takes free slots in a random order, so that replicas that try concurrently rarely choose the same slot. */
  async #takeSlots(): Promise<void> {
    const { db, replicas } = this.#options;
    const nowMs = performance.now();
    const waitingOwners = [...this.#owners].filter(([, owner]) => needsSlots(owner, nowMs));
    if (waitingOwners.length === 0) return;
    const missing = waitingOwners.map(([, { wanted, slots }]) => wanted - slots.size);
    const { rows } = await sql<{ owner: string; slot: number }>`
      INSERT INTO query_slots (owner, slot, replica)
      SELECT owner, slot, ${replicas.id}::uuid FROM (
        SELECT asked.owner, free.slot, asked.missing, row_number() OVER (PARTITION BY asked.owner ORDER BY random()) AS place
        FROM unnest(${waitingOwners.map(([name]) => name)}::text[], ${waitingOwners.map(([, { limit }]) => limit)}::integer[], ${missing}::integer[])
          AS asked (owner, slots, missing)
        CROSS JOIN LATERAL generate_series(1, asked.slots) AS free (slot)
        LEFT JOIN query_slots AS used ON used.owner = asked.owner AND used.slot = free.slot
        WHERE used.replica IS NULL OR (used.replica <> ${replicas.id}::uuid AND NOT ${isAlive("used.replica")})
      ) AS candidates WHERE place <= missing ORDER BY owner, slot
      ON CONFLICT (owner, slot) DO UPDATE SET replica = excluded.replica WHERE NOT ${isAlive("query_slots.replica")}
      RETURNING owner, slot`.execute(db);
    for (const { owner: name, slot } of rows) {
      const owner = this.#owners.get(name);
      if (owner?.slots.size === 0) owner.turnBeganMs = performance.now();
      // The owner wants fewer slots now if a client has disconnected since.
      if (owner && owner.slots.size < owner.wanted) owner.slots.add(slot);
      else this.#mustReturnSlots = true;
    }
    if (this.#mustReturnSlots) this.#loop.wake();
  }

  #failed(error: unknown): void {
    this.#isUnavailable = true;
    this.#outage.failed(error);
    this.#notify();
  }

  #notify(): void {
    for (const listener of this.#listeners) listener();
  }
}

function needsSlots({ wanted, slots, restsUntilMs }: Owner, nowMs: number): boolean {
  return wanted > slots.size && nowMs >= restsUntilMs;
}

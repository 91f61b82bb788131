// Computes this replica's share of each limit that applies to the whole installation, among the replicas that share a PostgreSQL. Every two
// seconds, each replica reports the demand of each owner of a limit, and reads the reports of the others. Its share is proportional to its
// demand, so a sender that uses a single replica has nearly the whole limit in that replica. Invariants: the shares of all replicas add up
// to at most the limit; reading a share needs no statement and no wait; while the database is unavailable, the last shares apply. Decision:
// docs/adr/0039-shared-limits-and-claims.md.
import { randomUUID } from "node:crypto";
import { type Kysely, sql } from "kysely";
import { Loop } from "../../common/loop.ts";
import { MAX_REPORTED_OWNERS } from "../operations/operations-limits.ts";

const REPORT_EVERY_MS = 2000;
/** A replica that has not reported for this time counts as gone. */
const GONE_AFTER_S = 10;
const REMOVED_AFTER_S = 60;
/** This part of each limit is divided equally, so that a sender that moves to another replica is served immediately. */
const EQUAL_PART = 0.1;
/** Weight of the current demand in the reported average: a sender that pauses keeps its share for some seconds. */
const SMOOTHING = 0.5;
/** A smaller demand is removed. */
const MIN_DEMAND = 0.01;

/** Owner of a limit → its demand at a replica, in units per second. */
export type Demand = Readonly<Record<string, number>>;

export interface ReplicaSet extends AsyncDisposable {
  readonly id: string;
  /** Number of running replicas, including this one. */
  readonly count: number;
  /** True for one replica, which does the work that a single replica has to do. For a few seconds it may be true for two. */
  readonly isFirst: boolean;
  /** False if this replica may count as gone, because its reports do not arrive. */
  readonly isSeen: boolean;
  /** This replica's share of a limit of the owner: 1 if it runs alone. */
  shareOf(owner: string): number;
  /** Records a demand, whether or not it was granted. */
  recordDemand(owner: string, units: number): void;
}

/** For a backend that shares its database with no other backend. */
export function singleReplica(): ReplicaSet {
  return {
    id: randomUUID(),
    count: 1,
    isFirst: true,
    isSeen: true,
    shareOf: () => 1,
    recordDemand: () => undefined,
    [Symbol.asyncDispose]: async () => undefined,
  };
}

/** This replica's share, computed from the demand at each replica. */
export function shareOf(owner: string, own: Demand, others: readonly Demand[]): number {
  const count = others.length + 1;
  const ownDemand = own[owner] ?? 0;
  const total = others.reduce((sum, demand) => sum + (demand[owner] ?? 0), ownDemand);
  return EQUAL_PART / count + (1 - EQUAL_PART) * (total > 0 ? ownDemand / total : 1 / count);
}

/** A condition: the replica whose id is in `column` is running. */
export function isAlive(column: string) {
  return sql`EXISTS (SELECT FROM replicas WHERE id = ${sql.ref(column)} AND seen_at > now() - make_interval(secs => ${GONE_AFTER_S}))`;
}

export interface SharedReplicasOptions {
  readonly db: Kysely<unknown>;
  readonly reportEveryMs?: number;
}

export class SharedReplicas implements ReplicaSet {
  readonly id = randomUUID();
  readonly #db: Kysely<unknown>;
  readonly #reportEveryMs: number;
  readonly #loop: Loop;
  /** Demanded units since the last report, by owner. */
  #units = new Map<string, number>();
  #reportedAtMs = performance.now();
  /** This replica's demand as last reported, so that all replicas compute with the same numbers. */
  #own: Demand = {};
  #others: readonly Demand[] = [];
  #isFirst = false;
  /** Not later than the newest report that arrived. */
  #seenAtMs = Number.NEGATIVE_INFINITY;

  private constructor({ db, reportEveryMs = REPORT_EVERY_MS }: SharedReplicasOptions) {
    this.#db = db;
    this.#reportEveryMs = reportEveryMs;
    this.#loop = new Loop({
      step: async () => {
        await this.#report();
        return reportEveryMs;
      },
      // Safe to ignore: the last shares apply, and other users of the database report the outage.
      failed: () => undefined,
      backoffMs: [reportEveryMs, reportEveryMs],
      firstAfterMs: reportEveryMs,
    });
  }

  /** Resolves when this replica has reported once and knows the others. */
  static async open(options: SharedReplicasOptions): Promise<SharedReplicas> {
    const replicas = new SharedReplicas(options);
    try {
      await replicas.#report();
    } catch (error) {
      await replicas.#loop[Symbol.asyncDispose]();
      throw error;
    }
    return replicas;
  }

  get isFirst(): boolean {
    return this.#isFirst;
  }

  get isSeen(): boolean {
    return performance.now() - this.#seenAtMs < GONE_AFTER_S * 1000;
  }

  get count(): number {
    return this.#others.length + 1;
  }

  shareOf(owner: string): number {
    return this.#others.length === 0 ? 1 : shareOf(owner, this.#own, this.#others);
  }

  recordDemand(owner: string, units: number): void {
    this.#units.set(owner, (this.#units.get(owner) ?? 0) + units);
  }

  /** The other replicas notice immediately that this one is gone. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#loop[Symbol.asyncDispose]();
    // Safe to ignore: they notice after GONE_AFTER_S.
    await sql`DELETE FROM replicas WHERE id = ${this.id}::uuid`.execute(this.#db).catch(() => undefined);
  }

  async #report(): Promise<void> {
    const own = this.#averageDemand();
    const startedMs = performance.now();
    await sql`
      INSERT INTO replicas (id, seen_at, demand) VALUES (${this.id}::uuid, now(), ${JSON.stringify(own)})
      ON CONFLICT (id) DO UPDATE SET seen_at = excluded.seen_at, demand = excluded.demand`.execute(this.#db);
    this.#seenAtMs = startedMs;
    const { rows } = await sql<{ id: string; demand: string }>`
      SELECT id, demand FROM replicas WHERE id <> ${this.id}::uuid AND seen_at > now() - make_interval(secs => ${GONE_AFTER_S})`.execute(
      this.#db,
    );
    this.#isFirst = rows.every(({ id }) => this.id < id);
    this.#own = own;
    this.#others = rows.map(({ demand }) => JSON.parse(demand) as Demand);
    await sql`DELETE FROM replicas WHERE seen_at < now() - make_interval(secs => ${REMOVED_AFTER_S})`.execute(this.#db);
  }

  /** Units per second since the last report, averaged with earlier reports. */
  #averageDemand(): Demand {
    const nowMs = performance.now();
    const seconds = Math.max(this.#reportEveryMs, nowMs - this.#reportedAtMs) / 1000;
    const units = this.#units;
    this.#units = new Map();
    this.#reportedAtMs = nowMs;
    const owners = new Set([...units.keys(), ...Object.keys(this.#own)]);
    const averages = [...owners].map((owner): [string, number] => {
      const current = (units.get(owner) ?? 0) / seconds;
      const earlier = this.#own[owner] ?? current;
      return [owner, Number((SMOOTHING * current + (1 - SMOOTHING) * earlier).toPrecision(4))];
    });
    const reported = averages.filter(([, average]) => average >= MIN_DEMAND);
    if (reported.length > MAX_REPORTED_OWNERS) reported.sort(([, first], [, second]) => second - first);
    return Object.fromEntries(reported.slice(0, MAX_REPORTED_OWNERS));
  }
}

// Combines many small inserts of a table into few large ones. Large request bodies have their own queue, so small ones never wait for them.
// Invariant: `add` resolves after the commit.
import { randomUUID } from "node:crypto";
import type { ClickHouse } from "../../engines/clickhouse/clickhouse-client.ts";
import type { NativeColumns } from "../../engines/clickhouse/native-block.ts";
import { firstRow } from "../../engines/clickhouse/row-journal.ts";
import { ApiError } from "../../errors.ts";
import type { BodyClaims } from "../../replicas/body-claims.ts";
import { type InsertBodies, InsertQueue, type InsertQueueOptions, type QueuedBody } from "./insert-queue.ts";

const MIB = 1024 * 1024;
/** The insert of a larger body takes up to a second, and batching it would not make a row cheaper. */
const LARGE_BYTES = 8 * MIB;

/**
 * A row costs 6 µs of CPU in inserts of 4,000 rows, 4 µs in 16,000 and 2.5 µs in 64,000, merges included. The upper limit protects other
 * senders: an insert of 100,000 rows takes a third of a second. It is well below the settings at which the engine would split an insert
 * into blocks (statement-settings.ts).
 */
const SMALL: InsertQueueOptions = {
  maxBytes: 32 * MIB,
  maxRows: 100_000,
  fullBytes: 8 * MIB,
  batchWindowMs: 20,
  smallBatchRows: 1000,
  extendByMs: 5,
  maxBatchWindowMs: 40,
  insertIntervalMs: 0,
  acknowledgedWindowMs: 1000,
  acknowledgedFullBytes: 16 * MIB,
  flushIntervalMs: 20,
};
const LARGE: InsertQueueOptions = { ...SMALL, maxBytes: 0, maxRows: 0, fullBytes: 0, acknowledgedFullBytes: 0 };

/** Tables of ClickHouse, and what decides which insert stores a body if replicas share them. */
export interface CommitTarget {
  readonly clickhouse: Pick<ClickHouse, "insert" | "insertIntervalMs">;
  readonly table: string;
  readonly columns: NativeColumns;
  readonly shard?: number;
  readonly claims?: Pick<BodyClaims, "claim" | "release"> | undefined;
}

export class GroupCommit implements AsyncDisposable {
  readonly #small: InsertQueue;
  readonly #large: InsertQueue;

  constructor(target: CommitTarget) {
    const { clickhouse } = target;
    const insert = insertInto(target);
    this.#small = new InsertQueue({ ...SMALL, insertIntervalMs: clickhouse.insertIntervalMs ?? 0 }, insert);
    this.#large = new InsertQueue(LARGE, insert);
  }

  /**
   * Resolves with true when the rows are committed, or with false if another insert has claimed them. Throws ApiError storage_unavailable or
   * unstorable. `isAcknowledged`: no client waits for the rows, so they accumulate for up to a second.
   */
  add(orgId: string, body: QueuedBody, isAcknowledged = false): Promise<boolean> {
    return (body.rows.bytes.byteLength > LARGE_BYTES ? this.#large : this.#small).add(orgId, body, isAcknowledged);
  }

  /** Commits the acknowledged rows of an organisation (of all, if unset) now. Resolves when they are committed or have failed. */
  async flush(orgId?: string): Promise<void> {
    await Promise.all([this.#small.flush(orgId), this.#large.flush(orgId)]);
  }

  /** Commits queued rows. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#small[Symbol.asyncDispose](), this.#large[Symbol.asyncDispose]()]);
  }
}

/** Claims the bodies under the deduplication token of their insert, and inserts those that are not claimed yet. */
function insertInto({ clickhouse, table, columns, shard = 0, claims }: CommitTarget): InsertBodies {
  return async (bodies) => {
    const claimed = claims ? bodies.filter(({ claim }) => claim !== undefined) : [];
    if (!claims || claimed.length === 0) {
      await clickhouse.insert({ table, columns, rows: bodies.map(({ rows }) => rows), shard });
      return bodies.map(() => true);
    }
    const deduplicationToken = withShard(randomUUID(), shard);
    const receivedS = Math.min(...claimed.map(({ rows }) => firstRow(columns, rows).receivedS));
    const keys = claimed.map(({ claim }) => claim as string);
    const { isOurs, isValid } = await claims.claim(keys, { insertId: deduplicationToken, receivedS });
    const others = new Set(claimed.filter((_, index) => !isOurs[index]));
    const ours = bodies.filter((body) => !others.has(body));
    if (ours.length > 0) {
      try {
        await clickhouse.insert({ table, columns, rows: ours.map(({ rows }) => rows), shard, deduplicationToken });
      } catch (error) {
        if (isNotStored(error)) await claims.release(keys.filter((_, index) => isOurs[index]));
        throw error;
      }
      // A replica that takes over stores under the same token, so that the engine drops this insert without an error.
      if (!isValid()) throw new ApiError("storage_unavailable", "this insert took too long; another replica may have replaced it");
    }
    return bodies.map((body) => !others.has(body));
  };
}

/** Names an insert by its deduplication token and its shard, for a replica that takes it over and may know more shards. */
export function withShard(token: string, shard: number): string {
  return `${token}@${shard}`;
}

/** Undefined if an earlier version of the backend named the insert. */
export function shardOfInsert(insertId: string): number | undefined {
  const shard = /@(\d+)$/.exec(insertId)?.[1];
  return shard === undefined ? undefined : Number(shard);
}

const NOT_CONNECTED = new Set(["ECONNREFUSED", "ENOTFOUND", "EHOSTUNREACH", "ENETUNREACH"]);

/** Whether the engine has certainly stored nothing. After other errors, the insert may still be under way. */
function isNotStored(error: unknown): boolean {
  if (!(error instanceof ApiError)) return false;
  return error.code === "unstorable" || NOT_CONNECTED.has(String((error.cause as { code?: unknown } | undefined)?.code));
}

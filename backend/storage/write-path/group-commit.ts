// Combines many small inserts of a table into few large ones. Large request bodies have their own queue, so small ones never wait for them.
// Invariant: `add` resolves after the commit.
import type { ClickHouse } from "../../engines/clickhouse/clickhouse-client.ts";
import type { NativeColumns, NativeRows } from "../../engines/clickhouse/native-block.ts";
import { InsertQueue, type InsertQueueOptions } from "./insert-queue.ts";

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

export class GroupCommit implements AsyncDisposable {
  readonly #small: InsertQueue;
  readonly #large: InsertQueue;

  constructor(clickhouse: ClickHouse, table: string, columns: NativeColumns, shard = 0) {
    const insert = (rows: readonly NativeRows[]) => clickhouse.insert({ table, columns, rows, shard });
    this.#small = new InsertQueue({ ...SMALL, insertIntervalMs: clickhouse.insertIntervalMs ?? 0 }, insert);
    this.#large = new InsertQueue(LARGE, insert);
  }

  /**
   * Resolves when the rows are committed. Throws ApiError storage_unavailable or unstorable. `isAcknowledged`: no client waits for the rows,
   * so they accumulate for up to a second.
   */
  add(orgId: string, rows: NativeRows, isAcknowledged = false): Promise<void> {
    return (rows.bytes.byteLength > LARGE_BYTES ? this.#large : this.#small).add(orgId, rows, isAcknowledged);
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

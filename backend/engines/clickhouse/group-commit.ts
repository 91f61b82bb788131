// Turns many small inserts into few large ones: one insert of a table at a time, and the next takes all that came meanwhile. Invariant:
// what `add` resolved is committed. Rows of a large body go beside, one body at a time, so that small ones never wait for them.
import type { ClickHouse } from "./client.ts";
import { InsertLane, type LaneOptions } from "./insert-lane.ts";
import type { NativeColumns, NativeRows } from "./native-block.ts";

const MIB = 1024 * 1024;
/** A body with more is large: its insert takes the better part of a second, and grows no cheaper with company. */
const LARGE_BYTES = 8 * MIB;

/**
 * A row costs 6 µs of CPU in inserts of 4,000 rows, 4 in those of 16,000 and 2.5 in those of 64,000, merges included. Without an end it
 * would be the others that wait: of 100,000 rows an insert takes a third of a second. Well below the settings that would cut it into
 * blocks (statement-settings.ts).
 */
const GROUPS: LaneOptions = {
  mostBytes: 32 * MIB,
  mostRows: 100_000,
  fullBytes: 8 * MIB,
  lingerMs: 20,
  fewRows: 1000,
  goesOnMs: 5,
  mostLingerMs: 40,
  // Whoever follows an organisation's logs sees them twice a second.
  gatherMs: 400,
  readersMs: 20,
};
const LARGE: LaneOptions = { ...GROUPS, mostBytes: 0, mostRows: 0, fullBytes: 0 };

export class GroupCommit implements AsyncDisposable {
  readonly #groups: InsertLane;
  readonly #large: InsertLane;

  constructor(clickhouse: ClickHouse, table: string, columns: NativeColumns) {
    const insert = (rows: readonly NativeRows[]) => clickhouse.insert({ table, columns, rows });
    this.#groups = new InsertLane(GROUPS, insert);
    this.#large = new InsertLane(LARGE, insert);
  }

  /**
   * Resolves when the rows are committed. Throws ApiError storage_unavailable or unstorable. `isAnswered`: nobody waits for it, so they
   * gather for a while first.
   */
  add(orgId: string, rows: NativeRows, isAnswered = false): Promise<void> {
    return (rows.bytes.byteLength > LARGE_BYTES ? this.#large : this.#groups).add(orgId, rows, isAnswered);
  }

  /** Resolves when answered rows of an organisation (unset: of all) are committed, or have failed; they gather no longer. Never rejects. */
  async flush(orgId?: string): Promise<void> {
    await Promise.all([this.#groups.flush(orgId), this.#large.flush(orgId)]);
  }

  /** Commits what was added. */
  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#groups[Symbol.asyncDispose](), this.#large[Symbol.asyncDispose]()]);
  }
}

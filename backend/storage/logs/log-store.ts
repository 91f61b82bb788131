// Stores and queries log records in ClickHouse, embedded or a server. Invariants: an organisation never sees rows of another; rows are
// stored exactly once when `insert` resolves.
import type { Ask, ClickHouse } from "../../engines/clickhouse/clickhouse-client.ts";
import type { BodyClaims } from "../../replicas/body-claims.ts";
import { OnceWriter, type WriterBatch } from "../write-path/once-writer.ts";
import { sql } from "../../engines/clickhouse/sql.ts";
import { type QueryOptions, UNLIMITED } from "../../admission/query-queue.ts";
import { readPageRows } from "../found-page.ts";
import type { ComparedRanges, PageResult, Page } from "../page.ts";
import { fields, histogram, type RangeFilter } from "./counts.ts";
import { LOG_COLUMNS } from "../table-columns.ts";
import { matchingIn, recordConditions, type RecordFilter, refusePattern } from "./filter.ts";
import { findPatterns } from "./message-patterns.ts";
import { mayBeDense } from "./minute-counts.ts";
import { type ComparedPatterns, comparePatterns } from "./pattern-points.ts";
import { type Arrived, Tail } from "./tail.ts";

export interface LogFilter extends Page, RecordFilter {}

/** An element of GET /query/logs. */
export interface LogRow {
  readonly timestamp: string;
  readonly level: string;
  readonly source: string;
  readonly message: string;
  readonly labels: Record<string, string>;
  readonly host_id: string;
  readonly node: string;
  readonly trace_id: string;
  readonly span_id: string;
  /** 1 to 24; 0: unspecified. */
  readonly severity_number: number;
  readonly scope: string;
}

interface LogTail {
  /** True: other processes may store records without a notification here. */
  readonly isShared: boolean;
  /** Calls `notify` after this process has stored records of the organisation. */
  readonly listen: (notify: () => void) => Disposable;
  /** Throws as `query` does. */
  readonly next: (options: QueryOptions, nowMs: number) => Promise<Arrived>;
}

const LOG_FIELDS = sql`time AS timestamp, level, source, message, labels, host_id, node, trace_id, span_id, severity_number, scope_name AS scope`;
const LOG_SIZES = sql`level, source, message, labels, host_id, node, scope_name`;

export type LogStore = Omit<ClickHouseLogStore, typeof Symbol.asyncDispose>;

export class ClickHouseLogStore implements AsyncDisposable {
  readonly #clickhouse: ClickHouse;
  readonly #writer: OnceWriter;
  readonly #arrivals: Arrivals;

  private constructor(clickhouse: ClickHouse, writer: OnceWriter, arrivals: Arrivals) {
    this.#clickhouse = clickhouse;
    this.#writer = writer;
    this.#arrivals = arrivals;
  }

  /** Call after migrate(). */
  static async open(clickhouse: ClickHouse, claims?: BodyClaims): Promise<ClickHouseLogStore> {
    const arrivals = new Arrivals();
    const writer = await OnceWriter.open(clickhouse, "logs", LOG_COLUMNS, { onStored: (orgId) => arrivals.notify(orgId), claims });
    return new ClickHouseLogStore(clickhouse, writer, arrivals);
  }

  /** Resolves when every row is stored. Throws ApiError storage_unavailable or unstorable. */
  async insert(batch: WriterBatch): Promise<void> {
    await this.#writer.write(batch);
  }

  /** LogRows, newest first. Throws ApiError as ClickHouse.read does, and invalid_parameter that names an invalid regular expression. */
  async query(orgId: string, filter: LogFilter, options: QueryOptions = UNLIMITED): Promise<PageResult> {
    const { from, blockRows } = matchingIn(filter);
    const conditions = recordConditions(filter);
    const selection = {
      table: "logs" as const,
      columns: LOG_FIELDS,
      sizes: LOG_SIZES,
      conditions,
      from,
      blockRows,
      isDense: mayBeDense(conditions),
    };
    return await this.#read(orgId, filter, options, (ask) => readPageRows(ask, orgId, { ...selection, page: filter }));
  }

  /** JSON with the number of records by time and level. Throws as `query` does. */
  histogram(orgId: string, filter: RangeFilter, buckets: number, options: QueryOptions = UNLIMITED): Promise<Buffer> {
    return this.#read(orgId, filter, options, (ask) => histogram(ask, orgId, filter, buckets));
  }

  /** JSON with the patterns of messages and the number of records of each. Throws as `query` does. */
  patterns(orgId: string, filter: RangeFilter, limit: number, options: QueryOptions = UNLIMITED): Promise<Buffer> {
    return this.#read(orgId, filter, options, async (ask) => {
      const { range } = filter;
      if (range.end < range.start) return Buffer.from(JSON.stringify({ records: 0, sampled_one_of: 1, patterns: [] }));
      const question = { orgId, conditions: recordConditions(filter), matching: matchingIn(filter), range };
      const found = await findPatterns(ask, { ...question, stepNs: range.end - range.start + 1n });
      const patterns = found.patterns.slice(0, limit).map(({ pattern, example, total }) => ({ pattern, count: total, example }));
      return Buffer.from(JSON.stringify({ records: found.records, sampled_one_of: found.sampledOneOf, patterns }));
    });
  }

  /** Patterns by source in two ranges (pattern-points.ts). Throws as `query` does. */
  comparePatterns(orgId: string, ranges: ComparedRanges, points: number, options: QueryOptions = UNLIMITED): Promise<ComparedPatterns> {
    return this.#clickhouse.read(orgId, options, (ask) => comparePatterns(ask, orgId, ranges, points));
  }

  /** JSON with the fields and values of the newest records. Throws as `query` does. */
  fields(orgId: string, filter: RangeFilter, options: QueryOptions = UNLIMITED): Promise<Buffer> {
    return this.#read(orgId, filter, options, (ask) => fields(ask, orgId, filter));
  }

  /** Follows records that arrive after the record with the id `after`; undefined: from now on. */
  async tail(orgId: string, filter: RecordFilter, after: bigint | undefined, nowMs: number): Promise<LogTail> {
    const tail = new Tail(orgId, filter, LOG_FIELDS, after, nowMs);
    return {
      isShared: this.#clickhouse.shared,
      listen: (notify) => this.#arrivals.listen(orgId, notify),
      next: (options, atMs) => this.#read(orgId, filter, options, (ask) => tail.next(ask, atMs)),
    };
  }

  async #read<T>(orgId: string, filter: RecordFilter, options: QueryOptions, work: (ask: Ask) => Promise<T>): Promise<T> {
    return await this.#clickhouse.read(orgId, options, work).catch((error: unknown) => refusePattern(error, filter));
  }

  /** Commits pending rows. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#writer[Symbol.asyncDispose]();
  }
}

/** Notifies the tails of an organisation that this process has stored records. An organisation without tails takes no memory. */
class Arrivals {
  readonly #listeners = new Map<string, Set<() => void>>();

  /** Calls `notify` after each insert, until the result is disposed. */
  listen(orgId: string, notify: () => void): Disposable {
    const listeners = this.#listeners.get(orgId) ?? new Set();
    this.#listeners.set(orgId, listeners.add(notify));
    return {
      [Symbol.dispose]: () => {
        listeners.delete(notify);
        if (listeners.size === 0 && this.#listeners.get(orgId) === listeners) this.#listeners.delete(orgId);
      },
    };
  }

  notify(orgId: string): void {
    for (const listener of this.#listeners.get(orgId) ?? []) listener();
  }
}

// Where log records live. Invariant: rows of one organisation are never seen by another; what `insert` resolved is stored, once.
// LogStore is the role; ClickHouseLogStore the engine, embedded or a server.
import type { ClickHouse } from "../engines/clickhouse/client.ts";
import { OnceWriter } from "../engines/clickhouse/once-writer.ts";
import { and, type Sql, sql } from "../engines/clickhouse/sql.ts";
import type { OtlpBatch } from "../ingest/otlp-ingest.ts";
import { type Cursor, formatTime, type Page, pageConditions } from "../query/time-and-cursor.ts";
import { LOG_COLUMNS } from "./decode.ts";

/** Unset fields do not filter. */
export interface LogFilter extends Page {
  readonly source?: string;
  readonly level?: string;
  /** Substring of the message, any case. */
  readonly q?: string;
  readonly hostId?: string;
  readonly node?: string;
  /** Each key has this value. */
  readonly labels: readonly (readonly [key: string, value: string])[];
}

/** An element of GET /query/logs. */
export interface LogRow {
  readonly timestamp: string;
  readonly level: string;
  readonly source: string;
  readonly message: string;
  readonly labels: Record<string, string>;
  readonly host_id: string;
  readonly node: string;
}

export interface Found<Row> {
  readonly rows: Row[];
  /** The last row's position, when there are more. */
  readonly next: Cursor | undefined;
}

export interface LogStore {
  /** Resolves when every row is stored. Throws ApiError storage_unavailable or unstorable. */
  insert(batch: OtlpBatch): Promise<void>;
  /** Newest first. Throws ApiError storage_unavailable. */
  query(orgId: string, filter: LogFilter): Promise<Found<LogRow>>;
}

interface StoredLog extends Omit<LogRow, "timestamp"> {
  time_ns: string;
  id: string;
}

export class ClickHouseLogStore implements LogStore, AsyncDisposable {
  readonly #clickhouse: ClickHouse;
  readonly #writer: OnceWriter;

  private constructor(clickhouse: ClickHouse, writer: OnceWriter) {
    this.#clickhouse = clickhouse;
    this.#writer = writer;
  }

  /** After migrate(). */
  static async open(clickhouse: ClickHouse): Promise<ClickHouseLogStore> {
    return new ClickHouseLogStore(clickhouse, await OnceWriter.open(clickhouse, "logs", LOG_COLUMNS));
  }

  async insert(batch: OtlpBatch): Promise<void> {
    await this.#writer.write(batch);
  }

  async query(orgId: string, filter: LogFilter): Promise<Found<LogRow>> {
    const rows = await this.#clickhouse.query<StoredLog>(
      sql`SELECT toUnixTimestamp64Nano(time) AS time_ns, id, level, source, message, labels, host_id, node FROM logs
          WHERE ${and([sql`org_id = ${orgId}`, ...pageConditions(filter), ...logConditions(filter)])}
          ORDER BY time DESC, id DESC LIMIT ${filter.limit + 1}`,
    );
    return foundPage(rows, filter.limit, toLogRow);
  }

  /** Commits what is under way. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#writer[Symbol.asyncDispose]();
  }
}

/** `rows` holds one more than `limit` when there is a next page. */
export function foundPage<Stored extends { time_ns: string; id: string }, Row>(
  rows: readonly Stored[],
  limit: number,
  toRow: (stored: Stored) => Row,
): Found<Row> {
  const page = rows.slice(0, limit);
  const last = rows.length > limit ? page.at(-1) : undefined;
  return { rows: page.map(toRow), next: last && { time: BigInt(last.time_ns), id: BigInt(last.id) } };
}

function toLogRow({ time_ns, level, source, message, labels, host_id, node }: StoredLog): LogRow {
  return { timestamp: formatTime(BigInt(time_ns)), level, source, message, labels, host_id, node };
}

function logConditions(filter: LogFilter): Sql[] {
  const conditions: Sql[] = [];
  if (filter.source !== undefined) conditions.push(sql`source = ${filter.source}`);
  if (filter.level !== undefined) conditions.push(sql`level = ${filter.level.toLowerCase()}`);
  if (filter.hostId !== undefined) conditions.push(sql`host_id = ${filter.hostId}`);
  if (filter.node !== undefined) conditions.push(sql`node = ${filter.node}`);
  if (filter.q) conditions.push(sql`positionCaseInsensitiveUTF8(message, ${filter.q}) > 0`);
  for (const [key, value] of filter.labels) conditions.push(sql`mapContains(labels, ${key}) AND labels[${key}] = ${value}`);
  return conditions;
}

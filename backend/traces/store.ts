// Where spans live. Invariant: rows of one organisation are never seen by another; what `insert` resolved is stored, once. SpanStore is
// the role; ClickHouseSpanStore the engine, embedded or a server.
import type { ClickHouse } from "../engines/clickhouse/client.ts";
import { OnceWriter } from "../engines/clickhouse/once-writer.ts";
import { and, type Sql, sql } from "../engines/clickhouse/sql.ts";
import type { OtlpBatch } from "../ingest/otlp-ingest.ts";
import { type Found, foundPage } from "../logs/store.ts";
import { formatTime, type Page, pageConditions } from "../query/time-and-cursor.ts";
import { SPAN_COLUMNS } from "./decode.ts";

/** Unset fields do not filter. */
export interface SpanFilter extends Page {
  readonly service?: string;
  readonly error?: boolean;
  /** Lowercase hex. */
  readonly traceId?: string;
}

/** An element of GET /query/traces. */
export interface SpanRow {
  readonly Timestamp: string;
  readonly TraceID: string;
  readonly SpanID: string;
  readonly ParentSpanID: string;
  readonly Service: string;
  readonly Operation: string;
  readonly DurationMs: number;
  readonly StatusCode: "UNSET" | "OK" | "ERROR";
  readonly Error: boolean;
  readonly Attributes: Record<string, string>;
}

export interface SpanStore {
  /** Resolves when every row is stored. Throws ApiError storage_unavailable or unstorable. */
  insert(batch: OtlpBatch): Promise<void>;
  /** Newest first. Throws ApiError storage_unavailable. */
  query(orgId: string, filter: SpanFilter): Promise<Found<SpanRow>>;
}

interface StoredSpan {
  time_ns: string;
  id: string;
  trace_id: string;
  span_id: string;
  parent_span_id: string;
  service: string;
  operation: string;
  duration_ns: string;
  status_code: SpanRow["StatusCode"];
  attributes: Record<string, string>;
}

export class ClickHouseSpanStore implements SpanStore, AsyncDisposable {
  readonly #clickhouse: ClickHouse;
  readonly #writer: OnceWriter;

  private constructor(clickhouse: ClickHouse, writer: OnceWriter) {
    this.#clickhouse = clickhouse;
    this.#writer = writer;
  }

  /** After migrate(). */
  static async open(clickhouse: ClickHouse): Promise<ClickHouseSpanStore> {
    return new ClickHouseSpanStore(clickhouse, await OnceWriter.open(clickhouse, "spans", SPAN_COLUMNS));
  }

  async insert(batch: OtlpBatch): Promise<void> {
    await this.#writer.write(batch);
  }

  async query(orgId: string, filter: SpanFilter): Promise<Found<SpanRow>> {
    const rows = await this.#clickhouse.query<StoredSpan>(
      sql`SELECT toUnixTimestamp64Nano(time) AS time_ns, id, trace_id, span_id, parent_span_id, service, operation, duration_ns,
                 status_code, attributes
          FROM spans WHERE ${and([sql`org_id = ${orgId}`, ...pageConditions(filter), ...spanConditions(filter)])}
          ORDER BY time DESC, id DESC LIMIT ${filter.limit + 1}`,
    );
    return foundPage(rows, filter.limit, toSpanRow);
  }

  /** Commits what is under way. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#writer[Symbol.asyncDispose]();
  }
}

function spanConditions(filter: SpanFilter): Sql[] {
  const conditions: Sql[] = [];
  if (filter.traceId !== undefined) conditions.push(sql`trace_id = ${filter.traceId}`);
  if (filter.service !== undefined) conditions.push(sql`service = ${filter.service}`);
  if (filter.error) conditions.push(sql`status_code = 'ERROR'`);
  return conditions;
}

function toSpanRow(span: StoredSpan): SpanRow {
  return {
    Timestamp: formatTime(BigInt(span.time_ns)),
    TraceID: span.trace_id,
    SpanID: span.span_id,
    ParentSpanID: span.parent_span_id,
    Service: span.service,
    Operation: span.operation,
    DurationMs: Number(span.duration_ns) / 1e6,
    StatusCode: span.status_code,
    Error: span.status_code === "ERROR",
    Attributes: span.attributes,
  };
}

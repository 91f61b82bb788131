// Where log records live. Invariant: rows of one organisation are never seen by another; what `insert` resolved is stored, once.
// LogStore is the role; ClickHouseLogStore the engine, embedded or a server.
import type { ClickHouse } from "../engines/clickhouse/client.ts";
import { OnceWriter } from "../engines/clickhouse/once-writer.ts";
import { type Sql, sql } from "../engines/clickhouse/sql.ts";
import type { OtlpBatch } from "../otlp/rows.ts";
import type { QueryOptions } from "../admission/in-turn.ts";
import { foundPage } from "../query/found-page.ts";
import type { Found, Page } from "../query/page.ts";
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

export interface LogStore {
  /** Resolves when every row is stored. Throws ApiError storage_unavailable or unstorable. */
  insert(batch: OtlpBatch): Promise<void>;
  /** LogRows, newest first. Throws ApiError as ClickHouse.read does. */
  query(orgId: string, filter: LogFilter, options?: QueryOptions): Promise<Found>;
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

  query(orgId: string, filter: LogFilter, options: QueryOptions = {}): Promise<Found> {
    return foundPage(this.#clickhouse, orgId, {
      table: "logs",
      columns: sql`time AS timestamp, level, source, message, labels, host_id, node`,
      sizes: sql`level, source, message, labels, host_id, node`,
      conditions: logConditions(filter),
      page: filter,
      options,
    });
  }

  /** Commits what is under way. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.#writer[Symbol.asyncDispose]();
  }
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

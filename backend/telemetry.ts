// Provides the stores of logs and spans and their engine. If nothing was ever stored, the first request that needs the engine opens it.
// Invariants: it is opened once; if that fails, requests fail as with any unavailable engine, and opening is retried after a pause; after
// disposal, it is not opened any more.
import type { ClickHouse, Shard } from "./engines/clickhouse/clickhouse-client.ts";
import { Sql } from "./engines/clickhouse/sql.ts";
import { ApiError } from "./errors.ts";
import type { LogStore } from "./storage/logs/log-store.ts";
import type { SpanStore } from "./storage/traces/span-store.ts";

export interface Telemetry {
  readonly clickhouse: ClickHouse;
  readonly logStore: LogStore;
  readonly spanStore: SpanStore;
  /** True while nothing was ever stored, so the engine is not loaded. */
  readonly isUnused?: boolean;
}

export interface OpenTelemetry extends Telemetry, AsyncDisposable {}

const RETRY_AFTER_S = 5;
const NONE = { running: 0, waiting: 0 };

export class TelemetryAtFirstUse implements Telemetry, AsyncDisposable {
  readonly #open: () => Promise<OpenTelemetry>;
  readonly #nowMs: () => number;
  #opening: Promise<OpenTelemetry> | undefined;
  #opened: OpenTelemetry | undefined;
  #failed: { readonly error: ApiError; readonly untilMs: number } | undefined;
  #closed = false;

  /** `open` must clean up before it rejects. */
  constructor(open: () => Promise<OpenTelemetry>, nowMs: () => number = () => performance.now()) {
    this.#open = open;
    this.#nowMs = nowMs;
  }

  get isUnused(): boolean {
    return !this.#opened && !this.#opening;
  }

  readonly logStore: LogStore = {
    insert: async (batch) => (await this.#get()).logStore.insert(batch),
    query: async (...asked) => (await this.#get()).logStore.query(...asked),
    histogram: async (...asked) => (await this.#get()).logStore.histogram(...asked),
    patterns: async (...asked) => (await this.#get()).logStore.patterns(...asked),
    fields: async (...asked) => (await this.#get()).logStore.fields(...asked),
    comparePatterns: async (...asked) => (await this.#get()).logStore.comparePatterns(...asked),
    tail: async (...asked) => (await this.#get()).logStore.tail(...asked),
  };

  readonly spanStore: SpanStore = {
    insert: async (batch) => (await this.#get()).spanStore.insert(batch),
    query: async (...asked) => (await this.#get()).spanStore.query(...asked),
    trace: async (...asked) => (await this.#get()).spanStore.trace(...asked),
    search: async (...asked) => (await this.#get()).spanStore.search(...asked),
    red: async (...asked) => (await this.#get()).spanStore.red(...asked),
    operationPoints: async (...asked) => (await this.#get()).spanStore.operationPoints(...asked),
    // Objectives are counted every minute.
    events: async (...asked) => (this.isUnused ? [] : (await this.#get()).spanStore.events(...asked)),
    statistics: async (...asked) => (await this.#get()).spanStore.statistics(...asked),
    versionCounts: async (...asked) => (await this.#get()).spanStore.versionCounts(...asked),
    graph: async (...asked) => (await this.#get()).spanStore.graph(...asked),
    insertExemplars: async (batch) => (await this.#get()).spanStore.insertExemplars(batch),
    // Dashboards request exemplars for every panel, which must not load an unused engine.
    exemplars: async (...asked) => (this.isUnused ? Buffer.from("[]") : (await this.#get()).spanStore.exemplars(...asked)),
    serviceNames: async (...asked) => (await this.#get()).spanStore.serviceNames(...asked),
    operationNames: async (...asked) => (await this.#get()).spanStore.operationNames(...asked),
    jaegerTrace: async (...asked) => (await this.#get()).spanStore.jaegerTrace(...asked),
    jaegerSearch: async (...asked) => (await this.#get()).spanStore.jaegerSearch(...asked),
    operationKinds: async (...asked) => (await this.#get()).spanStore.operationKinds(...asked),
    jaegerSummaries: async (...asked) => (await this.#get()).spanStore.jaegerSummaries(...asked),
    metricFamily: async (...asked) => (await this.#get()).spanStore.metricFamily(...asked),
  };

  readonly clickhouse: ClickHouse = this.#clickhouse();

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    await this.#opening?.catch(() => undefined);
    await this.#opened?.[Symbol.asyncDispose]();
  }

  #clickhouse(): ClickHouse {
    const reads = (): ClickHouse["reads"] => this.#opened?.clickhouse.reads ?? NONE;
    const pending = (): ClickHouse["pending"] => this.#opened?.clickhouse.pending;
    const shard: Shard = {
      shared: false,
      cluster: undefined,
      database: "default",
      query: async (statement) => (await this.#get()).clickhouse.query(statement),
      command: async (statement) => (await this.#get()).clickhouse.command(statement),
    };
    return {
      ...shard,
      shards: [shard],
      shardOf: () => 0,
      everyReplica: (table) => new Sql(table),
      get reads() {
        return reads();
      },
      get pending() {
        return pending();
      },
      isFull: (orgId) => this.#opened?.clickhouse.isFull(orgId) ?? false,
      // An engine that is not loaded has no pending rows.
      settle: async () => await this.#opened?.clickhouse.settle(),
      read: async (...asked) => (await this.#get()).clickhouse.read(...asked),
      insert: async (insert) => (await this.#get()).clickhouse.insert(insert),
      // An engine that was never needed counts as available. One that failed to open does not, until it opens.
      ping: async () => {
        if (this.#opened || this.#failed) await (await this.#get()).clickhouse.ping();
      },
      // The engine is disposed together with this object.
      [Symbol.asyncDispose]: async () => undefined,
    };
  }

  async #get(): Promise<OpenTelemetry> {
    if (this.#opened) return this.#opened;
    if (this.#closed) throw new ApiError("unavailable", "the backend is stopping", { retryAfterS: RETRY_AFTER_S });
    if (this.#failed && this.#nowMs() < this.#failed.untilMs) throw this.#failed.error;
    this.#opening ??= this.#begin();
    return await this.#opening;
  }

  async #begin(): Promise<OpenTelemetry> {
    try {
      this.#opened = await this.#open();
      this.#failed = undefined;
      return this.#opened;
    } catch (cause) {
      const error = cause instanceof ApiError ? cause : cannotBeOpened(cause);
      this.#failed = { error, untilMs: this.#nowMs() + RETRY_AFTER_S * 1000 };
      throw error;
    } finally {
      this.#opening = undefined;
    }
  }
}

function cannotBeOpened(cause: unknown): ApiError {
  return new ApiError("storage_unavailable", "the log and trace store did not answer; try again", { cause, retryAfterS: RETRY_AFTER_S });
}

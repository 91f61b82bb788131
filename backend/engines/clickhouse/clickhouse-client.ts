// Runs statements on ClickHouse, embedded (chDB in this process, under dataDir) or a server (url); callers do not see the difference.
// Invariants: each failure is an ApiError that distinguishes "unreachable" (502, retry) from "content refused" and "query too expensive"
// (400, do not retry); queries of one tenant delay neither those of others nor inserts.
import { addAbortListener } from "node:events";
import { join } from "node:path";
import { ApiError, TOO_EXPENSIVE, TooLargeError } from "../../errors.ts";
import { FairQueue, type ShareSlots } from "../../admission/fair-queue.ts";
import { type QueryOptions, runQueued } from "../../admission/query-queue.ts";
import type { Log } from "../../log.ts";
import { MAX_FAILING_S, MAX_READ_S, MAX_READS_PER_ORG, MAX_WAITING_READS_PER_ORG } from "../engine-limits.ts";
import { openEmbedded } from "./embedded-clickhouse.ts";
import { type Engine, type Insert, maxEnding, type ReadLimits } from "./engine.ts";
import { reportLeftRows } from "./left-rows.ts";
import { PendingRows } from "./pending-rows.ts";
import { databaseOf, openRemote, type RemoteOptions } from "./remote.ts";
import { chooseShard, quoteName, type Sender } from "./clickhouse-shards.ts";
import { commaList, Sql } from "./sql.ts";
import { requireFiltered } from "./tenant-filter.ts";

/** Runs the backend's own statements; in a cluster, on the tables of one shard. */
export interface Shard {
  /** True when other processes may write to the same tables. */
  readonly shared: boolean;
  /** If set, tables are Replicated and DDL runs ON CLUSTER. */
  readonly cluster: string | undefined;
  /** The database that contains its tables. */
  readonly database: string;
  /** The rows of a SELECT without FORMAT; 64-bit integers are strings. */
  query<Row>(statement: Sql): Promise<Row[]>;
  /** Runs DDL and other statements without a result. */
  command(statement: Sql): Promise<void>;
}

/** `query` reads all shards, `command` runs on the first. */
export interface ClickHouse extends Shard, AsyncDisposable {
  /** At least one. */
  readonly shards: readonly Shard[];
  /** The index of the shard that stores the bodies of this sender. */
  shardOf(sender: Sender): number;
  /** Returns a table expression with the rows of all replicas, so that a row that only one of them has is found; rows may repeat. */
  everyReplica(table: string): Sql;
  /**
   * Runs a tenant's queries one after the other in one slot. Throws ApiError query_too_expensive, too_many_queries, storage_unavailable,
   * and the signal's reason once it aborts. `work` must end when its own signal aborts, because the slot was taken back.
   */
  read<T>(orgId: string, options: QueryOptions, work: (ask: Ask, signal: AbortSignal) => Promise<T>): Promise<T>;
  /** Commits acknowledged rows. Throws storage_unavailable if the engine does not accept them. */
  settle(): Promise<void>;
  insert(insert: Insert): Promise<void>;
  /** Minimum time between two small inserts into a table of a shard. Undefined for the embedded engine. */
  readonly insertIntervalMs?: number | undefined;
  /** The current queries of all tenants. */
  readonly reads: { readonly running: number; readonly waiting: number };
  /** Whether another query of this tenant would have to wait for its own queries. */
  isFull(orgId: string): boolean;
  /** Only for the embedded engine: the journals, and rows that are not committed yet; queries commit them first. */
  readonly pending?: PendingRows | undefined;
  /** Resolves when the engine responds. */
  ping(): Promise<void>;
}

/**
 * Runs a SELECT without FORMAT and SETTINGS (tenant-filter.ts refuses others); returns its rows as lines of JSON. Throws TooLargeError if
 * they exceed `maxResultBytes`. `blockRows`: for conditions that cost much per row, the rows between two checks of the time limit.
 * `groupLimit`: GROUP BY stops with more groups than that, so a result with more is incomplete.
 */
export type Ask = (statement: Sql, maxResultBytes?: number, blockRows?: number, groupLimit?: number) => Promise<Buffer>;

export interface ClickHouseOptions extends Omit<RemoteOptions, "urls"> {
  /** `http(s)://user:password@host:port/database`, for several shards separated by commas; unset: embedded. */
  url?: string;
  /** Only used with an external server. */
  insertIntervalMs?: number;
  /** Queries whose caller can report missing rows leave out unavailable shards instead of failing. */
  partialAnswers?: boolean;
  /** Organisations whose bodies are distributed over all shards. */
  spread?: readonly string[];
  /** The folder of the embedded engine, e.g. `DATA_DIR/clickhouse`. */
  dataDir: string;
  /** Set if there are other replicas: their queries count, too. */
  shareSlots?: ShareSlots | undefined;
  /** The size of libuv's thread pool (UV_THREADPOOL_SIZE), which limits the concurrent statements of the embedded engine. */
  threads?: number;
  log: Log;
  /** Aborts when the process begins to stop: waiting queries of tenants are refused. */
  stopping?: AbortSignal;
}

/** Opens the engine. An unreachable server is not an error here; the first statement will report it. */
export async function openClickHouse(options: ClickHouseOptions): Promise<ClickHouse> {
  const { url, dataDir, cluster, threads, shareSlots, spread, partialAnswers, log, stopping } = options;
  const urls = url?.split(",");
  const engine = urls ? openRemote({ ...options, urls }) : await openEmbedded(dataDir, threads);
  log.debug({ event: "clickhouse.opened", embedded: url === undefined, cluster, shards: engine.shardCount }, "log and trace store opened");
  const queue = createQueue(engine.reads, shareSlots);
  const closing = new AbortController();
  const journals = join(dataDir, "journal");
  const pending = url === undefined ? new PendingRows(journals, log) : undefined;
  if (!pending) await reportLeftRows(journals, log);
  const spreadOrgs = new Set(spread);
  const unavailableShard = { untilMs: 0 };
  const database = urls ? databaseOf(urls[0] ?? "") : "default";
  const shardAt = (shard?: number): Shard => ({
    shared: url !== undefined,
    cluster,
    database,
    async query<Row>(statement: Sql) {
      await pending?.flushFor(statement.text);
      return (await withApiError(engine.query(statement.text, shard))) as Row[];
    },
    command: (statement) => withApiError(engine.command(statement.text, shard)),
  });
  return {
    ...shardAt(),
    shards: Array.from({ length: engine.shardCount }, (_, shard) => shardAt(shard)),
    shardOf: (sender) => chooseShard(sender, engine.shardCount, spreadOrgs),
    everyReplica: (table) =>
      new Sql(cluster === undefined ? table : `clusterAllReplicas(${commaList([cluster, database, table].map(quoteName)).text})`),
    pending,
    read: (orgId, options, work) =>
      runQueued({ queue, stopping }, orgId, options, (ending) => {
        const signal = AbortSignal.any([closing.signal, ending]);
        const partial = partialAnswers && options.onPartial ? { onPartial: options.onPartial, unavailableShard } : undefined;
        const ask = createAsk(engine, { orgId, labelLimits: options.labelLimits }, signal, partial);
        return work(pending ? afterCommit(ask, { orgId, pending, signal }) : ask, signal);
      }),
    async settle() {
      await pending?.flush();
      if (pending?.failingSeconds !== undefined) throw unavailable(new Error("acknowledged rows are not committed yet"));
    },
    reads: queue,
    isFull: (orgId) => queue.isFull(orgId),
    insert: (insert) => withApiError(engine.insert(insert)),
    insertIntervalMs: url === undefined ? undefined : options.insertIntervalMs,
    async ping() {
      await withApiError(engine.ping());
      if ((pending?.failingSeconds ?? 0) >= MAX_FAILING_S) throw unavailable(new Error("it does not accept acknowledged rows"));
    },
    async [Symbol.asyncDispose]() {
      closing.abort(new ApiError("unavailable", "the backend is stopping", { retryAfterS: RETRY_AFTER_S }));
      await pending?.[Symbol.asyncDispose]();
      await engine[Symbol.asyncDispose]();
    },
  };
}

function createQueue(running: number, shareSlots: ShareSlots | undefined): FairQueue {
  const perOrg = Math.max(1, Math.min(MAX_READS_PER_ORG, running - 1));
  const slots = shareSlots?.("logs", perOrg);
  return new FairQueue({ running, perOrg, slots, waitingPerOrg: MAX_WAITING_READS_PER_ORG, takesBack: maxEnding(running) });
}

/** Commits acknowledged rows before the first statement that may read them. Throws storage_unavailable if that outlasts the query. */
function afterCommit(ask: Ask, { orgId, pending, signal }: { orgId: string; pending: PendingRows; signal: AbortSignal }): Ask {
  const end = performance.now() + MAX_READ_S * 1000;
  const committed = new Set<string>();
  return async (statement, ...limits) => {
    const aborted = Promise.withResolvers<never>();
    using _listening = addAbortListener(signal, () => aborted.reject(signal.reason));
    const onTimeout = () => aborted.reject(unavailable(new Error("acknowledged rows are not committed in time")));
    const timer = setTimeout(onTimeout, Math.max(0, end - performance.now()));
    try {
      await Promise.race([pending.flushFor(statement.text, orgId, committed), aborted.promise]);
    } finally {
      clearTimeout(timer);
    }
    return await ask(statement, ...limits);
  };
}

const PAGE = /\sLIMIT \d+\s*$/;
/** Conditions whose skip indexes take bytes for every row. */
const LARGE_INDEX = /\bhasToken\(|\btrace_id = /;

/** For this time after a failure, queries that may leave out a shard do not try all shards first. */
const SKIP_MS = 5000;

interface PartialAnswers {
  readonly onPartial: () => void;
  /** When queries try all shards again. */
  readonly unavailableShard: { untilMs: number };
}

/** The queries of one slot, which share its time limit. The engine adds the conditions of the reader to each. */
function createAsk(engine: Engine, reader: Pick<ReadLimits, "orgId" | "labelLimits">, signal: AbortSignal, partial?: PartialAnswers): Ask {
  const end = performance.now() + MAX_READ_S * 1000;
  return async (statement, maxResultBytes = 0, blockRows?, groupLimit?) => {
    requireFiltered(reader.orgId, statement);
    const isPage = PAGE.test(statement.text);
    const readsLargeIndex = LARGE_INDEX.test(statement.text);
    const read = async (skipsShards: boolean): Promise<Buffer> => {
      const maxSeconds = Math.max(1, Math.ceil((end - performance.now()) / 1000));
      try {
        const limits = { ...reader, maxSeconds, maxResultBytes, blockRows, groupLimit, isPage, readsLargeIndex, skipsShards };
        return await engine.read(statement.text, limits, signal);
      } catch (error) {
        signal.throwIfAborted();
        throw readFailure(error);
      }
    };
    const skipsAtOnce = partial !== undefined && performance.now() < partial.unavailableShard.untilMs;
    for (let attempt = skipsAtOnce ? 1 : 0; ; attempt += 1) {
      try {
        const lines = await read(attempt > 0);
        if (attempt > 0) partial?.onPartial();
        return lines;
      } catch (error) {
        // The next attempt uses another server.
        const isOver = attempt === engine.shardCount || performance.now() >= end;
        if (!partial || isOver || !(error instanceof ApiError) || error.code !== "storage_unavailable") throw error;
        if (attempt === 0) partial.unavailableShard.untilMs = performance.now() + SKIP_MS;
      }
    }
  };
}

/** Limits of a query, in rows, bytes, time (src/Common/ErrorCodes.cpp). */
const LIMIT_CODES = new Set(["158", "159", "160", "307"]);

const TOO_LONG = "this query has too many filters and values; use fewer";
/** Limits of the text of a query: nesting and number of elements. */
const LENGTH_CODES = new Set(["167", "168"]);

function readFailure(cause: unknown): ApiError {
  const { code, message } = cause as { code?: unknown; message?: string };
  // The memory of the whole engine is exhausted, which the query did not cause.
  if (code === "396" || (code === "241" && !/\btotal\b/i.test(message ?? ""))) return new TooLargeError(cause);
  if (LIMIT_CODES.has(String(code))) return new ApiError("query_too_expensive", TOO_EXPENSIVE, { cause });
  // A text above max_query_size is cut, so it causes a syntax error.
  const isTooLong = LENGTH_CODES.has(String(code)) || (String(code) === "62" && /max query size/i.test(message ?? ""));
  if (isTooLong) return new ApiError("query_too_expensive", TOO_LONG, { cause });
  return unavailable(cause);
}

/** The engine's codes for errors in the content of an insert; any other failure may be temporary (src/Common/ErrorCodes.cpp). */
const CONTENT_CODES = new Set(["6", "25", "26", "27", "33", "38", "41", "53", "69", "72", "117", "128", "131", "441"]);

/** Seconds after which the engine may be available again. */
const RETRY_AFTER_S = 5;

/** Throws ApiError `unstorable` or `storage_unavailable` instead of the engine's error. */
async function withApiError<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    // Not `instanceof ClickHouseError`: chDB throws the class of another copy of the package.
    if (CONTENT_CODES.has(String((cause as { code?: unknown }).code))) {
      throw new ApiError("unstorable", "the log and trace store refuses this content; sending it again will not help", { cause });
    }
    throw unavailable(cause);
  }
}

function unavailable(cause: unknown): ApiError {
  return new ApiError("storage_unavailable", "the log and trace store did not answer; try again", { cause, retryAfterS: RETRY_AFTER_S });
}

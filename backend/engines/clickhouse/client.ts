// One ClickHouse, embedded (chDB in this process, under dataDir) or a server (url); everything above this file is the same code for
// both. Invariant: every failure leaves as an ApiError that tells "cannot be reached" (502, try again) from "refuses this content"
// (400, trying again is useless). Opened by serve.ts; used by the stores of logs and traces and by migrate.ts.
import { ApiError } from "../../errors.ts";
import type { Log } from "../../log.ts";
import { openEmbedded } from "./embedded.ts";
import { openRemote } from "./remote.ts";
import type { NativeColumns, NativeRows } from "./native-block.ts";
import type { Sql } from "./sql.ts";

export interface Insert {
  readonly table: string;
  readonly columns: NativeColumns;
  /** They become one block: per partition, all of them are stored or none. */
  readonly rows: readonly NativeRows[];
  /** The engine stores rows under one token once per partition, also across replicas. */
  readonly deduplicationToken?: string;
}

/** What an engine can do; embedded.ts and remote.ts. Failures are the engine's own. */
export interface Engine extends AsyncDisposable {
  query(statement: string): Promise<unknown[]>;
  command(statement: string): Promise<void>;
  insert(insert: Insert): Promise<void>;
}

export interface ClickHouse extends AsyncDisposable {
  /** True when other processes may write to the same tables. */
  readonly shared: boolean;
  /** Set: tables are Replicated and DDL goes ON CLUSTER. */
  readonly cluster: string | undefined;
  /** Rows of a SELECT without FORMAT; 64-bit integers are strings. */
  query<Row>(statement: Sql): Promise<Row[]>;
  /** DDL and the like. */
  command(statement: Sql): Promise<void>;
  insert(insert: Insert): Promise<void>;
  /** Resolves when the engine answers. */
  ping(): Promise<void>;
}

export interface ClickHouseOptions {
  /** `http(s)://user:password@host:port/database`; unset: embedded. */
  url?: string;
  /** The folder of the embedded engine, e.g. `DATA_DIR/clickhouse`. */
  dataDir: string;
  cluster?: string;
  /** The size of libuv's thread pool (UV_THREADPOOL_SIZE), which bounds what the embedded engine does at once. */
  threads?: number;
  log: Log;
}

/** Opens the engine. A server that cannot be reached is not an error here: the first statement will say so. */
export async function openClickHouse({ url, dataDir, cluster, threads, log }: ClickHouseOptions): Promise<ClickHouse> {
  const engine = url === undefined ? await openEmbedded(dataDir, threads) : openRemote(url);
  log.debug({ embedded: url === undefined, cluster }, "log and trace store opened");
  return {
    shared: url !== undefined,
    cluster,
    query: async <Row>(statement: Sql) => (await classified(engine.query(statement.text))) as Row[],
    command: (statement) => classified(engine.command(statement.text)),
    insert: (insert) => classified(engine.insert(insert)),
    ping: async () => void (await classified(engine.query("SELECT 1"))),
    [Symbol.asyncDispose]: () => engine[Symbol.asyncDispose](),
  };
}

/** The engine's codes that blame the content of an insert; any other failure may pass by itself (src/Common/ErrorCodes.cpp). */
const CONTENT_CODES = new Set(["6", "25", "26", "27", "33", "38", "41", "53", "69", "72", "117", "128", "131", "441"]);

/** Seconds after which a client may find the engine back. */
const RETRY_AFTER_S = 5;

async function classified<T>(work: Promise<T>): Promise<T> {
  try {
    return await work;
  } catch (cause) {
    // Not `instanceof ClickHouseError`: chDB throws the class of another copy of the package.
    if (CONTENT_CODES.has(String((cause as { code?: unknown }).code))) {
      throw new ApiError("unstorable", "the log and trace store refuses this content; sending it again will not help", { cause });
    }
    throw new ApiError("storage_unavailable", "the log and trace store did not answer; try again", { cause, retryAfterS: RETRY_AFTER_S });
  }
}

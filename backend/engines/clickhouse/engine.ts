// What embedded ClickHouse and a server share. Invariant: failures are the engine's own errors, which clickhouse-client.ts classifies.
import type { LabelLimits } from "../../admission/limited-labels.ts";
import type { NativeColumns, NativeRows } from "./native-block.ts";

export interface Insert {
  readonly table: string;
  /** Default: the first shard. */
  readonly shard?: number;
  readonly columns: NativeColumns;
  /** The rows become one block: per partition, either all of them are stored or none. */
  readonly rows: readonly NativeRows[];
  /** The engine stores rows with the same token once per partition, also across replicas. */
  readonly deduplicationToken?: string;
}

export interface ReadLimits {
  /** Only rows of this organisation are read. */
  readonly orgId: string;
  /** Only rows that a reader with these limits may see. */
  readonly labelLimits: LabelLimits | undefined;
  /** A whole number. */
  readonly maxSeconds: number;
  /** Maximum size of the rows in the engine's memory; 0: no limit. */
  readonly maxResultBytes: number;
  /** Rows between two checks of the time limit; unset: the engine's default. */
  readonly blockRows?: number | undefined;
  /** GROUP BY stops when it exceeds this number of groups. */
  readonly groupLimit?: number | undefined;
  /** The statement ends with LIMIT. */
  readonly isPage?: boolean;
  /** The statement reads skip indexes with many bytes, so several threads read the indexes of a page. */
  readonly readsLargeIndex?: boolean;
  /** Leaves out the rows of unavailable shards. */
  readonly skipsShards?: boolean;
}

export interface Engine extends AsyncDisposable {
  /** Maximum number of concurrent tenants' queries. */
  readonly reads: number;
  /** 1 unless the engine is a cluster. */
  readonly shardCount: number;
  /** The rows of all shards, or of one if `shard` is set. */
  query(statement: string, shard?: number): Promise<unknown[]>;
  /** Lines of JSON. Settles only when the engine has released the query, even if `signal` aborts. */
  read(statement: string, limits: ReadLimits, signal: AbortSignal): Promise<Buffer>;
  ping(): Promise<void>;
  /** Runs on the tables of one shard; default: the first. */
  command(statement: string, shard?: number): Promise<void>;
  insert(insert: Insert): Promise<void>;
}

/** Connections for statements that still run after their slot was taken back. */
export function maxEnding(reads: number): number {
  return Math.max(1, Math.floor(reads / 2));
}

const CANNOT_COMPILE_REGEXP = "427";

/** The engine's message and its reason, if a statement failed because a regular expression is not one of RE2. */
export function refusedExpression(error: unknown): { message: string; reason: string } | undefined {
  const { code, message = "" } = ((error as Error).cause ?? {}) as { code?: unknown; message?: string };
  if (String(code) !== CANNOT_COMPILE_REGEXP) return undefined;
  return { message, reason: /, error: (.{0,200}?)\. Look at/s.exec(message)?.[1] ?? "it cannot be read" };
}

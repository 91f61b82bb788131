// What embedded ClickHouse and a server of it have in common. Invariant: failures are the engine's own, and are classified in client.ts.
import type { NativeColumns, NativeRows } from "./native-block.ts";

export interface Insert {
  readonly table: string;
  /** The first one if unset. */
  readonly shard?: number;
  readonly columns: NativeColumns;
  /** They become one block: per partition, all of them are stored or none. */
  readonly rows: readonly NativeRows[];
  /** The engine stores rows under one token once per partition, also across replicas. */
  readonly deduplicationToken?: string;
}

export interface ReadLimits {
  /** Only rows of this organisation are read. */
  readonly orgId: string;
  /** A whole number. */
  readonly maxSeconds: number;
  /** Size of the rows in the engine's memory; 0: no limit. */
  readonly maxResultBytes: number;
  /** Rows between two looks at the clock; unset: as many as the engine likes. */
  readonly blockRows?: number | undefined;
  /** GROUP BY stops with more groups. */
  readonly groupLimit?: number | undefined;
  /** The statement ends with LIMIT. */
  readonly isPage?: boolean;
  /** Leaves out the rows of unavailable shards. */
  readonly skipsShards?: boolean;
}

/** What an engine can do. */
export interface Engine extends AsyncDisposable {
  /** Tenants' queries that can run at once. */
  readonly reads: number;
  /** 1, unless it is a cluster. */
  readonly shardCount: number;
  /** The rows of all shards, or of the tables of one. */
  query(statement: string, shard?: number): Promise<unknown[]>;
  /** Lines of JSON. Settles only when the engine has let go of the query, also when `signal` aborts. */
  read(statement: string, limits: ReadLimits, signal: AbortSignal): Promise<Buffer>;
  ping(): Promise<void>;
  /** On the tables of one shard, the first one if unset. */
  command(statement: string, shard?: number): Promise<void>;
  insert(insert: Insert): Promise<void>;
}

// What embedded ClickHouse and a server of it have in common. Invariant: failures are the engine's own, and are classified in client.ts.
import type { NativeColumns, NativeRows } from "./native-block.ts";

export interface Insert {
  readonly table: string;
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
}

/** What an engine can do. */
export interface Engine extends AsyncDisposable {
  /** Tenants' queries that can run at once. */
  readonly reads: number;
  query(statement: string): Promise<unknown[]>;
  /** Lines of JSON. Settles only when the engine has let go of the query, also when `signal` aborts. */
  read(statement: string, limits: ReadLimits, signal: AbortSignal): Promise<Buffer>;
  ping(): Promise<void>;
  command(statement: string): Promise<void>;
  insert(insert: Insert): Promise<void>;
}

// Connects Kysely to SQLite on its thread. Invariants: there is one connection, so the statements of a transaction run together, and other
// statements wait for its end (relational/fair-driver.ts); what PostgreSQL accepts is accepted here, but row locks are left out.
import {
  CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type QueryResult,
  type SelectModifierNode,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from "kysely";
import type { RunningThread, StoreThread } from "./store-thread.ts";

export const SQLITE_CONNECTIONS = 1;

export function sqliteThreadDialect(thread: StoreThread): Dialect {
  return {
    createDriver: () => new ThreadDriver(thread),
    createAdapter: () => new OneTurnAdapter(),
    createQueryCompiler: () => new LocklessCompiler(),
    createIntrospector: (db) => new SqliteIntrospector(db),
  };
}

/** The queue of fair-driver.ts is fair and has a time limit; Kysely's is neither. */
class OneTurnAdapter extends SqliteAdapter {
  override get supportsMultipleConnections(): boolean {
    return true;
  }
  override get supportsTransactionalDdl(): boolean {
    return true;
  }
}

class LocklessCompiler extends SqliteQueryCompiler {
  protected override visitSelectModifier(node: SelectModifierNode): void {
    if (node.modifier === "Distinct") super.visitSelectModifier(node);
  }
}

class ThreadDriver implements Driver {
  readonly #thread: StoreThread;

  constructor(thread: StoreThread) {
    this.#thread = thread;
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    return new ThreadConnection(await this.#thread.running());
  }

  async releaseConnection(): Promise<void> {}

  async beginTransaction(connection: DatabaseConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw("begin immediate"));
  }

  async commitTransaction(connection: DatabaseConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw("commit"));
  }

  async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    try {
      await connection.executeQuery(CompiledQuery.raw("rollback"));
    } catch (error) {
      (connection as ThreadConnection).abandon();
      throw error;
    }
  }

  async destroy(): Promise<void> {}
}

class ThreadConnection implements DatabaseConnection {
  readonly #running: RunningThread;
  constructor(running: RunningThread) {
    this.#running = running;
  }

  async executeQuery<R>({ sql, parameters }: CompiledQuery): Promise<QueryResult<R>> {
    const result = await this.#running.run(sql, parameters);
    return "rows" in result ? { rows: result.rows as R[] } : { rows: [], numAffectedRows: result.changes };
  }

  /** Ends the thread, and with it a transaction that could not be rolled back: otherwise later statements would become part of it. */
  abandon(): void {
    this.#running.end("a transaction could not be rolled back");
  }

  // oxlint-disable-next-line require-yield -- kysely's own signature
  async *streamQuery(): AsyncIterableIterator<never> {
    throw new Error("the accounts store has no streams");
  }
}

// Connects Kysely to SQLite on its thread. Invariants: the statements of a transaction run together; other statements wait for its end, for
// at most as long as for a connection of PostgreSQL; a statement that PostgreSQL accepts is accepted here, except for row locks, which a
// single connection does not need.
import {
  CompiledQuery,
  type DatabaseConnection,
  type Dialect,
  type Driver,
  type Kysely,
  type QueryResult,
  type SelectModifierNode,
  SqliteAdapter,
  SqliteIntrospector,
  SqliteQueryCompiler,
} from "kysely";
import { type RunningThread, NO_TURN, SqliteFailure, type StoreThread } from "./store-thread.ts";

const TURN_TIMEOUT_MS = 5_000;

export class SqliteThreadDialect implements Dialect {
  readonly #thread: StoreThread;
  readonly #turnTimeoutMs: number;
  constructor(thread: StoreThread, turnTimeoutMs = TURN_TIMEOUT_MS) {
    this.#thread = thread;
    this.#turnTimeoutMs = turnTimeoutMs;
  }
  createDriver(): Driver {
    return new ThreadDriver(this.#thread, this.#turnTimeoutMs);
  }
  createAdapter() {
    return new OneTurnAdapter();
  }
  createQueryCompiler() {
    return new LocklessCompiler();
  }
  // oxlint-disable-next-line typescript/no-explicit-any -- kysely's own signature
  createIntrospector(db: Kysely<any>) {
    return new SqliteIntrospector(db);
  }
}

/** The driver's own queue has a time limit; Kysely's has none. */
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
  readonly #turns: Turns;

  constructor(thread: StoreThread, turnTimeoutMs: number) {
    this.#thread = thread;
    this.#turns = new Turns(turnTimeoutMs);
  }

  async init(): Promise<void> {}

  async acquireConnection(): Promise<DatabaseConnection> {
    await this.#turns.take();
    try {
      return new ThreadConnection(await this.#thread.running());
    } catch (error) {
      this.#turns.give();
      throw error;
    }
  }

  async releaseConnection(): Promise<void> {
    this.#turns.give();
  }

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

/** A first-in, first-out queue for one transaction at a time. A caller that waits too long gets an error. */
class Turns {
  readonly #timeoutMs: number;
  readonly #waiting = new Set<() => void>();
  #taken = false;

  constructor(timeoutMs: number) {
    this.#timeoutMs = timeoutMs;
  }

  async take(): Promise<void> {
    if (!this.#taken) {
      this.#taken = true;
      return;
    }
    await new Promise<void>((resolve, reject) => {
      const mine = (): void => {
        clearTimeout(timer);
        resolve();
      };
      const timer = setTimeout(() => {
        this.#waiting.delete(mine);
        reject(new SqliteFailure("the accounts store was busy for too long", NO_TURN));
      }, this.#timeoutMs);
      this.#waiting.add(mine);
    });
  }

  give(): void {
    const [next] = this.#waiting;
    if (!next) {
      this.#taken = false;
      return;
    }
    this.#waiting.delete(next);
    next();
  }
}

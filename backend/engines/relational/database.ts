// Opens the relational store: PostgreSQL through a connection pool if a URL is set, else SQLite under DATA_DIR; one code path for both.
// Invariant: it has no knowledge of tables, and an unreachable store always becomes ApiError `storage_unavailable`, so that no route has to
// distinguish a lost connection from a wrong statement.
import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { type Dialect, Kysely, sql, type Transaction } from "kysely";
import type { Log } from "../../log.ts";
import type { PoolOptions } from "../postgres/dialect.ts";
import { SQLITE_CONNECTIONS, sqliteThreadDialect } from "../sqlite/dialect.ts";
import { ACCOUNTS_FILE, ACCOUNTS_MADE, openSqlite, requireNewFolder } from "../sqlite/open.ts";
import { reportingDialect } from "./unreachable.ts";

export interface Database extends AsyncDisposable {
  readonly engine: "sqlite" | "postgresql";
  /** Embedded store only: a file that exists once the store has contained accounts. */
  readonly madeFile?: string;
  /** The same connections, typed with the tables of a domain. */
  tables<T>(): Kysely<T>;
}

export interface DatabaseOptions extends PoolOptions {
  /** `postgres://…`; unset: embedded. May contain a password, so it is never logged. */
  url?: string | undefined;
  /** The embedded store is `<dataDir>/accounts.sqlite`. */
  dataDir: string;
}

/** Opens the store. The embedded one is opened immediately; with PostgreSQL, statements connect and reconnect by themselves. */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  if (options.url) {
    // Imported only if it is used, because the driver consists of a hundred files.
    const { POOL_SIZE, postgresDialect } = await import("../postgres/dialect.ts");
    return databaseOf("postgresql", postgresDialect(options.url, options), options.poolSize ?? POOL_SIZE);
  }
  const { dataDir, log } = options;
  const file = join(dataDir, ACCOUNTS_FILE);
  if (!existsSync(file)) requireNewFolder(dataDir);
  return { ...(await openAccountsFile(file, log)), madeFile: join(dataDir, ACCOUNTS_MADE) };
}

/** Opens the embedded store in one file, which is created if it does not exist. */
export async function openAccountsFile(file: string, log: Log): Promise<Database> {
  const thread = await openSqlite(file, log);
  return databaseOf("sqlite", sqliteThreadDialect(thread), SQLITE_CONNECTIONS, thread);
}

function databaseOf(engine: Database["engine"], dialect: Dialect, connections: number, opened?: AsyncDisposable): Database {
  const db = new Kysely<unknown>({ dialect: reportingDialect(dialect, { connections }) });
  return {
    engine,
    tables: <T>() => db as Kysely<T>,
    async [Symbol.asyncDispose]() {
      await db.destroy();
      await opened?.[Symbol.asyncDispose]();
    },
  };
}

/**
 * Waits for the advisory lock `name`, for work that one replica does at a time. The lock ends with the transaction, so a killed replica
 * never keeps it. SQLite needs none, because it runs one transaction at a time.
 */
export async function advisoryLock<T>({ engine }: { readonly engine: string }, trx: Transaction<T>, name: string): Promise<void> {
  if (engine === "sqlite") return;
  const id = createHash("sha256").update(`atherops:${name}`).digest().readBigInt64BE(0);
  await sql`SELECT pg_advisory_xact_lock(${id.toString()}::bigint)`.execute(trx);
}

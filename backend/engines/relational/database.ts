// Opens the relational store: SQLite under DATA_DIR when no URL is set, else PostgreSQL through a connection pool; one code path
// for both. Invariant: it knows no domain's tables, and a store that cannot be reached is always ApiError `storage_unavailable`, so
// that no route has to tell a lost connection from a wrong statement.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { Kysely, type Dialect } from "kysely";
import type { Log } from "../../operations/log.ts";
import type { PoolOptions } from "../postgres/dialect.ts";
import { SqliteThreadDialect } from "../sqlite/dialect.ts";
import { ACCOUNTS_FILE, ACCOUNTS_MADE, openSqlite, requireNewFolder } from "../sqlite/open.ts";
import { ReportingDialect } from "./unreachable.ts";

export interface Database extends AsyncDisposable {
  readonly engine: "sqlite" | "postgresql";
  /** Of the embedded store: the file that is there once it has held accounts. */
  readonly madeFile?: string;
  /** The same connections, seen with a domain's tables. */
  tables<T>(): Kysely<T>;
}

export interface DatabaseOptions extends PoolOptions {
  /** `postgres://…`; unset: embedded. May hold a password: never logged. */
  url?: string | undefined;
  /** The embedded store is `<dataDir>/accounts.sqlite`. */
  dataDir: string;
}

/** Opens the store. The embedded one is opened here and now; PostgreSQL connects, and connects again, with each statement. */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  if (options.url) {
    // Imported only where it is used: its driver is a hundred files.
    const { postgresDialect } = await import("../postgres/dialect.ts");
    return databaseOf("postgresql", postgresDialect(options.url, options));
  }
  const { dataDir, log } = options;
  const file = join(dataDir, ACCOUNTS_FILE);
  if (!existsSync(file)) requireNewFolder(dataDir);
  return { ...(await openAccountsFile(file, log)), madeFile: join(dataDir, ACCOUNTS_MADE) };
}

/** The embedded store of one file, which is made where there is none. */
export async function openAccountsFile(file: string, log: Log): Promise<Database> {
  const thread = await openSqlite(file, log);
  return databaseOf("sqlite", new SqliteThreadDialect(thread), thread);
}

function databaseOf(engine: Database["engine"], dialect: Dialect, opened?: AsyncDisposable): Database {
  const db = new Kysely<unknown>({ dialect: new ReportingDialect(dialect) });
  return {
    engine,
    tables: <T>() => db as Kysely<T>,
    async [Symbol.asyncDispose]() {
      await db.destroy();
      await opened?.[Symbol.asyncDispose]();
    },
  };
}

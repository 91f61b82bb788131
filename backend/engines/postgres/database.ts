// Opens the relational store: PGlite under DATA_DIR when no URL is set, else PostgreSQL through a connection pool; one code path
// for both. Invariant: it knows no domain's tables, and a store that cannot be reached is always ApiError `storage_unavailable`, so
// that no route has to tell a lost connection from a wrong statement. Opened by serve.ts and by tests.
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { Kysely, PGliteDialect, PostgresDialect, type Dialect } from "kysely";
import { Pool } from "pg";
import { Outage } from "../../../agent/common/outage.ts";
import type { Log } from "../../observability/log.ts";
import { SqliteThreadDialect } from "../sqlite/dialect.ts";
import { openSqlite } from "../sqlite/open.ts";
import { ReportingDialect } from "./unreachable.ts";

export interface Database extends AsyncDisposable {
  readonly engine: "sqlite" | "pglite" | "postgresql";
  /** The same connections, seen with a domain's tables. */
  tables<T>(): Kysely<T>;
}

export interface DatabaseOptions {
  /** `postgres://…`; unset: embedded. May hold a password: never logged. */
  url?: string | undefined;
  /** The embedded store lives in `<dataDir>/postgres`, or with SQLite in `<dataDir>/accounts.sqlite`. */
  dataDir: string;
  /** Which one is embedded. */
  embedded?: "pglite" | "sqlite";
  log: Log;
  /** Connections of one replica; further statements wait for one. */
  poolSize?: number;
}

const CONNECT_TIMEOUT_MS = 5_000;
const STATEMENT_TIMEOUT_MS = 30_000;
/** Accounts, keys and rules are small. PostgreSQL's own 128 MB are resident from the start, and zeroing them is a fifth of it. */
const SHARED_BUFFERS = "16MB";

/** Opens the store. The embedded one is opened here and now; PostgreSQL connects, and connects again, with each statement. */
export async function openDatabase(options: DatabaseOptions): Promise<Database> {
  if (options.url) return databaseOf("postgresql", postgresql(options.url, options));
  if (options.embedded !== "sqlite") return databaseOf("pglite", await pglite(options.dataDir));
  const thread = await openSqlite(options.dataDir, options.log);
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

/** Imported only where it is used: the lean image has no PGlite. */
async function pglite(dataDir: string): Promise<Dialect> {
  const { PGlite } = await import("@electric-sql/pglite");
  const folder = join(dataDir, "postgres");
  await mkdir(folder, { recursive: true, mode: 0o700 });
  const opened = await PGlite.create(folder, { startParams: [...PGlite.defaultStartParams, "-c", `shared_buffers=${SHARED_BUFFERS}`] });
  return new PGliteDialect({ pglite: opened });
}

function postgresql(url: string, { log, poolSize = 10 }: DatabaseOptions): Dialect {
  const pool = new Pool({
    connectionString: url,
    max: poolSize,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    statement_timeout: STATEMENT_TIMEOUT_MS,
    query_timeout: STATEMENT_TIMEOUT_MS + 5_000,
    keepAlive: true,
    application_name: "atherops-backend",
  });
  // A connection that breaks is replaced by the next statement; without listeners it would end the process: the pool's for one that
  // idles, the client's own for one that is lent out, between the statements of a transaction too.
  const outage = new Outage<NodeJS.ErrnoException>({
    began: ({ code }) => log.warn({ code }, "a database connection was lost; retrying with the next statement"),
    ended: ({ failures, seconds }) => log.info({ connections: failures, seconds }, "recovered: connected to the database"),
  });
  const lost = (error: Error) => outage.failed(error);
  pool.on("error", lost);
  pool.on("connect", (client) => {
    outage.recovered();
    client.on("error", lost);
  });
  return new PostgresDialect({ pool });
}

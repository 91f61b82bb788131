// A pool of connections to an external PostgreSQL, for Kysely. Invariants: statements connect and reconnect by themselves; a broken
// connection, in use or idle, never ends the process; if there are several hosts, the one that accepts writes is used.
import { PostgresDialect, type PostgresPool } from "kysely";
import { Pool, type PoolClient } from "pg";
import { hostUrls } from "../../../common/ip-networks.ts";
import { Outage } from "../../../common/outage.ts";
import type { Log } from "../../log.ts";

export interface PoolOptions {
  log: Log;
  /** Connections of one replica; when all are in use, statements wait (relational/fair-driver.ts). */
  poolSize?: number;
  /** The name under which PostgreSQL lists the connections. */
  applicationName?: string;
}

/** The name under which PostgreSQL lists the connections of a running backend. */
export const APPLICATION_NAME = "atherops-backend";
export const POOL_SIZE = 10;
const CONNECT_TIMEOUT_MS = 5_000;
const STATEMENT_TIMEOUT_MS = 30_000;

/** `url` may contain a password, so it is never logged. */
export function postgresDialect(url: string, options: PoolOptions): PostgresDialect {
  const urls = hostUrls(url);
  const pools = urls.map((hostUrl) => openPool(hostUrl, options, urls.length > 1));
  return new PostgresDialect({ pool: primaryOf(pools) });
}

function openPool(
  url: string,
  { log, poolSize = POOL_SIZE, applicationName = APPLICATION_NAME }: PoolOptions,
  mustBePrimary: boolean,
): Pool {
  const pool = new Pool({
    ...(mustBePrimary && { verify: refuseReadOnly }),
    connectionString: url,
    max: poolSize,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    statement_timeout: STATEMENT_TIMEOUT_MS,
    query_timeout: STATEMENT_TIMEOUT_MS + 5_000,
    keepAlive: true,
    application_name: applicationName,
  });
  // The next statement replaces a broken connection. Without listeners the error would end the process: the pool reports it for idle
  // connections, the client itself for connections in use, also between the statements of a transaction.
  const outage = new Outage<NodeJS.ErrnoException>({
    began: ({ code }) =>
      log.warn({ event: "database.connection_lost", code }, "database connection was lost; reconnecting with the next statement"),
    ended: ({ failures, seconds }) =>
      log.info({ event: "database.reconnected", connections: failures, seconds }, "recovered: connected to the database"),
  });
  const lost = (error: Error) => outage.failed(error);
  pool.on("error", lost);
  pool.on("connect", (client) => {
    outage.recovered();
    client.on("error", lost);
  });
  return pool;
}

// Handles several PostgreSQL hosts, a primary and its standbys. Invariant: a statement goes to a host that accepts writes; after a
// failover, the next statement finds the new primary without a restart.

/** A pool that uses the last known primary; while that does not respond or is read-only, it tries the others. */
function primaryOf(pools: readonly PostgresPool[]): PostgresPool {
  const [only] = pools;
  if (only && pools.length === 1) return only;
  let primary = 0;
  return {
    get options() {
      return (pools[primary] as PostgresPool).options;
    },
    async connect() {
      for (let attempt = 1; ; attempt += 1) {
        const tried = primary;
        try {
          return await (pools[tried] as PostgresPool).connect();
        } catch (error) {
          if (primary === tried) primary = (tried + 1) % pools.length;
          if (attempt === pools.length) throw error;
        }
      }
    },
    end: async () => void (await Promise.all(pools.map((pool) => pool.end()))),
  };
}

/** For `verify` of a pool: a standby, or a demoted primary, counts as unreachable. */
function refuseReadOnly(client: PoolClient, done: (error?: Error) => void): void {
  client.query<{ transaction_read_only: string }>("SHOW transaction_read_only", (error: Error | undefined, result) => {
    if (error) return done(error);
    const isReadOnly = result.rows[0]?.transaction_read_only === "on";
    done(isReadOnly ? Object.assign(new Error("this PostgreSQL accepts no writes"), { code: "08006" }) : undefined);
  });
}

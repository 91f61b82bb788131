// A pool of connections to an external PostgreSQL, for Kysely. Invariants: it connects and reconnects with each statement; a broken connection,
// in use or idle, never ends the process; of several hosts, the one that accepts writes is used.
import { PostgresDialect, type PostgresPool } from "kysely";
import { Pool, type PoolClient } from "pg";
import { hostUrls } from "../../../common/ip-networks.ts";
import { Outage } from "../../../common/outage.ts";
import type { Log } from "../../operations/log.ts";

export interface PoolOptions {
  log: Log;
  /** Connections of one replica; further statements wait for one. */
  poolSize?: number;
  /** As PostgreSQL lists its connections. */
  applicationName?: string;
}

/** What PostgreSQL lists the connections of a running backend as. */
export const APPLICATION_NAME = "atherops-backend";
const CONNECT_TIMEOUT_MS = 5_000;
const STATEMENT_TIMEOUT_MS = 30_000;

/** `url` may hold a password: never logged. */
export function postgresDialect(url: string, options: PoolOptions): PostgresDialect {
  const urls = hostUrls(url);
  const pools = urls.map((hostUrl) => openPool(hostUrl, options, urls.length > 1));
  return new PostgresDialect({ pool: primaryOf(pools) });
}

function openPool(url: string, { log, poolSize = 10, applicationName = APPLICATION_NAME }: PoolOptions, mustBePrimary: boolean): Pool {
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
  // A connection that breaks is replaced by the next statement; without listeners it would end the process: the pool's for one that
  // idles, the client's own for one that is lent out, between the statements of a transaction too.
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

// Several PostgreSQL hosts, a primary and its standbys. Invariant: a statement goes to a host that accepts writes; when the
// primary changes, the next statement finds it, without a restart.

/** The pool of the host that was the primary last; while it does not answer or is read-only, the others are tried. */
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

/** For `verify` of a pool: a standby, or a primary that was demoted, counts as unreachable. */
function refuseReadOnly(client: PoolClient, done: (error?: Error) => void): void {
  client.query<{ transaction_read_only: string }>("SHOW transaction_read_only", (error: Error | undefined, result) => {
    if (error) return done(error);
    const isReadOnly = result.rows[0]?.transaction_read_only === "on";
    done(isReadOnly ? Object.assign(new Error("this PostgreSQL accepts no writes"), { code: "08006" }) : undefined);
  });
}

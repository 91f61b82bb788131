// Several PostgreSQL hosts, a primary and its standbys. Invariant: a statement goes to a host that accepts writes; when the
// primary changes, the next statement finds it, without a restart.
import type { PostgresPool } from "kysely";
import type { PoolClient } from "pg";

/** The pool of the host that was the primary last; while it does not answer or is read-only, the others are tried. */
export function primaryOf(pools: readonly PostgresPool[]): PostgresPool {
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
export function refuseReadOnly(client: PoolClient, done: (error?: Error) => void): void {
  client.query<{ transaction_read_only: string }>("SHOW transaction_read_only", (error: Error | undefined, result) => {
    if (error) return done(error);
    const isReadOnly = result.rows[0]?.transaction_read_only === "on";
    done(isReadOnly ? Object.assign(new Error("this PostgreSQL accepts no writes"), { code: "08006" }) : undefined);
  });
}

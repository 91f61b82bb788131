// Prepares ClickHouse for this version of the backend: tables on every shard and, if there are several shards, Distributed tables in a
// second database, which queries read. Invariant: a Distributed table has the columns of its local table, so a statement means the same on
// one server and on a cluster. Decision: docs/adr/0041-clickhouse-shards.md.
import { StartError } from "../../errors.ts";
import type { Log } from "../../log.ts";
import type { ClickHouse, Shard } from "./clickhouse-client.ts";
import { applyMergeSync, definitionOf, migrate, modify, ttlOf } from "./migrate.ts";
import { distributedDatabase, onCluster, quoteName } from "./clickhouse-shards.ts";
import { Sql, sql } from "./sql.ts";
import { TENANT_TABLES } from "./tenant-filter.ts";

/** The oldest long-term release with every setting and index that the statements name. */
const OLDEST_VERSION = [25, 8] as const;

/** Throws StartError if a server is too old or a URL is missing, and storage_unavailable if a server does not respond. */
export async function prepare(clickhouse: ClickHouse, log: Log, tier?: Tier): Promise<void> {
  for (const shard of clickhouse.shards) {
    if (shard.shared) await requireVersion(shard);
    await migrate(shard, log);
    await applyMergeSync(shard, ["logs", "spans"], log);
    if (tier) await applyTier(shard, tier, log);
  }
  const [first, second] = clickhouse.shards;
  if (first?.shared && !second) await requireNoOtherShards(first);
  if (!second) return;
  for (const shard of clickhouse.shards) await createDistributedTables(shard, log);
}

async function requireVersion(shard: Shard): Promise<void> {
  const [{ version = "" } = {}] = await shard.query<{ version?: string }>(sql`SELECT version() AS version`);
  const [major = 0, minor = 0] = version.split(".").map(Number);
  const [oldestMajor, oldestMinor] = OLDEST_VERSION;
  if (major > oldestMajor || (major === oldestMajor && minor >= oldestMinor)) return;
  throw new StartError(
    `CLICKHOUSE_URL: the server is ClickHouse ${version}; this version of the backend needs ${OLDEST_VERSION.join(".")} or newer`,
  );
}

/**
 * With one URL, queries read the tables of that server only. Throws StartError if it belongs to a cluster that once had Distributed tables,
 * and other shards of that cluster have rows, or do not confirm that they have none.
 */
async function requireNoOtherShards(shard: Shard): Promise<void> {
  const tables = await shard.query<{ database: string; engine: string; isFilled: number }>(
    sql`SELECT database, engine_full AS engine, total_rows > 0 AS isFilled FROM system.tables
        WHERE database IN (${shard.database}, ${distributedDatabase(shard.database)}) AND name IN (${TENANT_TABLES})`,
  );
  const cluster = tables.map(({ engine }) => /^Distributed\('([^']+)'/.exec(engine)?.[1]).find((name) => name !== undefined);
  if (cluster === undefined) return;
  const shards = await shard.query<{ shard: number; hosts: string[]; isLocal: number }>(
    sql`SELECT shard_num AS shard, groupArray(host_name) AS hosts, max(is_local) AS isLocal
        FROM system.clusters WHERE cluster = ${cluster} GROUP BY shard ORDER BY shard`,
  );
  const empty = await shard
    .query<{ shard: number }>(
      sql`SELECT _shard_num AS shard FROM cluster(${quoteName(cluster)}, system, tables)
          WHERE database = ${shard.database} AND name IN (${TENANT_TABLES}) GROUP BY shard HAVING sum(total_rows) = 0`,
    )
    // Reported below: then no shard is known to be empty.
    .catch(() => []);
  const filled = shards.filter((listed) => !empty.some((found) => found.shard === listed.shard));
  const isFilled = tables.some((table) => table.database === shard.database && table.isFilled === 1);
  if (filled.length <= (isFilled ? 1 : 0)) return;
  const others = filled.some(({ isLocal }) => !isLocal) ? filled.filter(({ isLocal }) => !isLocal) : filled;
  const names = others.map((other) => `shard ${other.shard} (${other.hosts.join(", ")})`).join(", ");
  throw new StartError(
    `CLICKHOUSE_URL: has one URL, but the cluster ${cluster} has other shards, which have rows or do not respond: ${names}. Queries would not read them. List the URLs of all shards again, in their former order; to give up the rows of a shard, first remove it from remote_servers of ClickHouse`,
  );
}

/** Creates those that are missing, or whose local table got other columns in a migration. */
async function createDistributedTables(shard: Shard, log: Log): Promise<void> {
  const [database, all] = [quoteName(shard.database), quoteName(distributedDatabase(shard.database))];
  const cluster = onCluster(shard.cluster);
  const outdated = await shard.query<{ table: (typeof TENANT_TABLES)[number] }>(
    sql`SELECT DISTINCT table FROM (SELECT table FROM system.columns
        WHERE database IN (${shard.database}, ${distributedDatabase(shard.database)}) AND table IN (${TENANT_TABLES})
        GROUP BY table, name, type HAVING count() = 1) ORDER BY table`,
  );
  if (outdated.length === 0) return;
  await shard.command(sql`CREATE DATABASE IF NOT EXISTS ${all} ${cluster}`);
  for (const { table } of outdated) {
    const local = sql`${database}.${new Sql(table)}`;
    await shard.command(
      sql`CREATE OR REPLACE TABLE ${all}.${new Sql(table)} ${cluster} AS ${local}
        ENGINE = Distributed(${shard.cluster ?? ""}, ${shard.database}, ${table})`,
    );
  }
  log.info({ event: "clickhouse.distributed_tables", tables: outdated.map(({ table }) => table) }, "Distributed tables created");
}

// Moves older parts of logs and spans to another volume, such as object storage, if the settings name one. Invariant: without the settings
// nothing is changed, so an operator's own policy and TTL are kept; a volume is added to a TTL and never removed.

interface Tier {
  /** A policy of the server's `storage_configuration` that contains the disks of the current policy. */
  readonly policy: string;
  readonly volume: string;
  /** Rows older than this are moved. */
  readonly afterDays: number;
}

const TIERED_TABLES = ["logs", "spans"] as const;

/** Does nothing if the tables are set already. Parts move in the background. */
async function applyTier(shard: Shard, { policy, volume, afterDays }: Tier, log: Log): Promise<void> {
  const moves = sql`toDateTime(time) + toIntervalDay(${afterDays}) TO VOLUME ${volume}`.text;
  for (const table of TIERED_TABLES) {
    const definition = await definitionOf(shard, table);
    const setting = sql`storage_policy = ${policy}`.text;
    if (!definition.includes(setting)) await modify(shard, table, `SETTING ${setting}`);
    const current = ttlOf(definition);
    const others = current
      .split(/, (?=toDateTime\(time\) \+)/)
      .filter((part) => part !== "" && !part.endsWith(sql` TO VOLUME ${volume}`.text));
    const ttl = [...others, moves].join(", ");
    if (ttl !== current) await modify(shard, table, `TTL ${ttl} SETTINGS materialize_ttl_after_modify = 0`);
    if (ttl !== current || !definition.includes(setting))
      log.info({ event: "clickhouse.tier_set", table, policy, volume, days: afterDays }, "older parts move to another volume");
  }
}

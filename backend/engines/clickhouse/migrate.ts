// Migrates the schema to the newest number of migrations/, and sets the retention of each table. Invariant: a migration is recorded after
// it ran, and runs once however many replicas start together. If a replica is killed during a migration, the next one runs it again, so
// every migration has to be repeatable (IF NOT EXISTS).
import { readdir, readFile } from "node:fs/promises";
import { pause } from "../../../common/loop.ts";
import type { Log } from "../../log.ts";
import type { Shard } from "./clickhouse-client.ts";
import { onCluster } from "./clickhouse-shards.ts";
import { sql, Sql } from "./sql.ts";

const MIGRATIONS = new URL("./migrations/", import.meta.url);

/** The lock expires if its holder has not finished by then. */
const LOCK_EXPIRY_S = 60;
const LOCK_POLL_MS = 250;

/** Applies missing migrations in order. Throws storage_unavailable if the engine cannot be reached. */
export async function migrate(clickhouse: Shard, log: Log, { lockExpiryS = LOCK_EXPIRY_S } = {}): Promise<void> {
  await clickhouse.command(
    fillTemplate(
      clickhouse,
      `CREATE TABLE IF NOT EXISTS schema_migrations {{on_cluster}} (number UInt32, name String, applied_at DateTime64(3, 'UTC'))
       ENGINE = {{engine}} ORDER BY number`,
    ),
  );
  while ((await pending(clickhouse)).length > 0) {
    if (await takeLock(clickhouse)) {
      try {
        for (const name of await pending(clickhouse)) await apply(clickhouse, name, log);
      } finally {
        await dropLock(clickhouse);
      }
    } else {
      await breakExpiredLock(clickhouse, lockExpiryS);
      await pause(LOCK_POLL_MS);
    }
  }
}

const DELETES = /toDateTime\(time\) \+ toIntervalDay\((\d+)\)(?=,|$)/;

/** Parts get new times of expiry without being rewritten. */
const RECALCULATED = "materialize_ttl_recalculate_only = 1";

/**
 * Sets the retention of each table (table → days) by the rows' own time. Does nothing if it is set already. Other parts of the TTL that an
 * operator added, such as TO VOLUME, are kept. Existing parts get the new retention, too: each part records when it expires, and would
 * otherwise be dropped by the retention under which it was written. `isDue` can leave out tables by their current days.
 */
export async function applyRetention(
  clickhouse: Shard,
  daysOf: Readonly<Record<string, number>>,
  log: Log,
  isDue: (current: number | undefined, wanted: number) => boolean = () => true,
): Promise<void> {
  for (const [table, days] of Object.entries(daysOf)) {
    const wanted = `toDateTime(time) + toIntervalDay(${days})`;
    const definition = await definitionOf(clickhouse, table);
    const current = ttlOf(definition);
    const ttl = DELETES.test(current) ? current.replace(DELETES, wanted) : [wanted, current].filter(Boolean).join(", ");
    if (ttl === current || !isDue(daysOfTtl(current), days)) continue;
    if (!definition.includes(RECALCULATED)) await modify(clickhouse, table, `SETTING ${RECALCULATED}`);
    await modify(clickhouse, table, `TTL ${ttl} SETTINGS materialize_ttl_after_modify = 1`);
    log.info({ event: "clickhouse.retention_set", table, days }, "retention set");
  }
}

/** Days after which rows are deleted; undefined if they are kept for ever. */
export async function deletionDaysOf(clickhouse: Shard, table: string): Promise<number | undefined> {
  return daysOfTtl(ttlOf(await definitionOf(clickhouse, table)));
}

function daysOfTtl(ttl: string): number | undefined {
  const days = DELETES.exec(ttl)?.[1];
  return days === undefined ? undefined : Number(days);
}

const MERGES_SYNCED = "min_rows_to_fsync_after_merge = 1, min_compressed_bytes_to_fsync_after_merge = 1";

/** Makes ClickHouse fsync merged parts. Does nothing if that is set already. */
export async function applyMergeSync(clickhouse: Shard, tables: readonly string[], log: Log): Promise<void> {
  for (const table of tables) {
    if ((await definitionOf(clickhouse, table)).includes(MERGES_SYNCED)) continue;
    await modify(clickhouse, table, `SETTING ${MERGES_SYNCED}`);
    log.info({ event: "clickhouse.merge_sync_set", table }, "merges are fsynced from now on");
  }
}

/** Engine, keys, TTL and settings of a table, in the engine's format. */
export async function definitionOf(clickhouse: Shard, table: string): Promise<string> {
  const rows = await clickhouse.query<{ engine_full: string }>(
    sql`SELECT engine_full FROM system.tables WHERE database = currentDatabase() AND name = ${table}`,
  );
  return rows[0]?.engine_full ?? "";
}

export function ttlOf(definition: string): string {
  return / TTL (.*) SETTINGS /.exec(definition)?.[1] ?? "";
}

export async function modify(clickhouse: Shard, table: string, change: string): Promise<void> {
  await clickhouse.command(fillTemplate(clickhouse, `ALTER TABLE ${table} {{on_cluster}} MODIFY ${change}`));
}

async function pending(clickhouse: Shard): Promise<string[]> {
  const names = (await readdir(MIGRATIONS)).filter((name) => /^\d{3}-.*\.sql$/.test(name)).sort();
  const applied = await clickhouse.query<{ number: number }>(sql`SELECT DISTINCT number FROM schema_migrations`);
  const numbers = new Set(applied.map((row) => row.number));
  return names.filter((name) => !numbers.has(Number(name.slice(0, 3))));
}

async function apply(clickhouse: Shard, name: string, log: Log): Promise<void> {
  const text = (await readFile(new URL(name, MIGRATIONS), "utf8")).replace(/^--.*$/gm, "");
  for (const statement of text.split(/;\s*$/m)) if (statement.trim()) await clickhouse.command(fillTemplate(clickhouse, statement));
  await clickhouse.command(sql`INSERT INTO schema_migrations SELECT ${Number(name.slice(0, 3))}, ${name}, now64(3)`);
  log.info({ event: "clickhouse.schema_migrated", migration: name }, "schema migrated");
}

/** CREATE without IF NOT EXISTS succeeds for one replica only. The comment has the time, which the engine does not record here. */
async function takeLock(clickhouse: Shard): Promise<boolean> {
  const [{ now = 0 } = {}] = await clickhouse.query<{ now?: number }>(sql`SELECT toUnixTimestamp(now()) AS now`);
  try {
    await clickhouse.command(
      fillTemplate(clickhouse, `CREATE TABLE schema_migration_lock {{on_cluster}} (held UInt8) ENGINE = Memory COMMENT '${now}'`),
    );
    return true;
  } catch (error) {
    if (/TABLE_ALREADY_EXISTS|already exists/i.test(String((error as Error).cause))) return false;
    throw error;
  }
}

async function dropLock(clickhouse: Shard): Promise<void> {
  await clickhouse.command(fillTemplate(clickhouse, `DROP TABLE IF EXISTS schema_migration_lock {{on_cluster}}`));
}

async function breakExpiredLock(clickhouse: Shard, expiryS: number): Promise<void> {
  const expired = await clickhouse.query(
    sql`SELECT name FROM system.tables WHERE database = currentDatabase() AND name = 'schema_migration_lock'
        AND toUInt64OrZero(comment) < toUnixTimestamp(now()) - ${expiryS}`,
  );
  if (expired.length > 0) await dropLock(clickhouse);
}

/**
 * The engine creates column statistics by default, which cost a twentieth of the insert of a row and which no query here needs. A server of
 * another version may not know the setting.
 */
const NO_STATISTICS = "auto_statistics_types = '', ";

/** Fills in a migration for the embedded engine, a server, or a replicated cluster. */
function fillTemplate(clickhouse: Shard, text: string): Sql {
  const { cluster } = clickhouse;
  return new Sql(
    text
      .replaceAll("{{on_cluster}}", onCluster(cluster).text)
      .replaceAll("{{replacing_engine}}", cluster === undefined ? "ReplacingMergeTree" : "ReplicatedReplacingMergeTree")
      .replaceAll("{{engine}}", cluster === undefined ? "MergeTree" : "ReplicatedMergeTree")
      .replaceAll("{{statistics}}", clickhouse.shared ? "" : NO_STATISTICS)
      .replaceAll("{{codec}}", clickhouse.shared ? "ZSTD(1)" : "Default")
      .replaceAll("{{deduplication_window}}", deduplicationWindow(clickhouse)),
  );
}

/** How many insert tokens a table remembers. The embedded engine has a single writer, which remembers them itself (once-writer.ts). */
function deduplicationWindow({ cluster, shared }: Shard): string {
  if (cluster !== undefined) return "replicated_deduplication_window = 10000, replicated_deduplication_window_seconds = 1200";
  return `non_replicated_deduplication_window = ${shared ? 10_000 : 0}`;
}

// Removes rows of logs, spans and exemplars that are older than the retention of their organisation, and all rows of a deleted
// organisation. Tables have one partition per day for all organisations; the TTL of the table removes the last rows of a day, and mutations
// delete rows that expire earlier, one partition at a time. Invariants: a pass may be repeated at any time and on any replica; a table
// never has two unfinished deletions; a pass starts a limited number of deletions, because each rewrites the parts of a day.
import type { ClickHouse, Shard } from "../../engines/clickhouse/clickhouse-client.ts";
import { and, or, Sql, sql } from "../../engines/clickhouse/sql.ts";
import { TENANT_TABLES } from "../../engines/clickhouse/tenant-filter.ts";

/** Log records with a shorter retention; a missing field matches every record. */
export interface LogRule {
  readonly source?: string;
  readonly level?: string;
  readonly days: number;
}

/** The retention of one table; the table's own TTL is at least the longest of these. */
export interface TableRetention {
  readonly table: "logs" | "spans" | "exemplars";
  /** Retention of organisations that are not in `organisations`. */
  readonly defaultDays: number;
  readonly organisations: ReadonlyMap<string, { readonly days: number; readonly rules: readonly LogRule[] }>;
}

const DAY_MS = 86_400_000;
/** Expired spans are kept this much longer, because their figures are copied once they are 25 hours old (traces/keep-minutes.ts). */
const SLACK_MS = 3 * 3_600_000;
/** Rows that were received later, by the clock of any replica, may have been admitted by a longer retention than the pass has read. */
const RECENT_MS = 600_000;
/** Partitions of a table that one pass handles. */
const MAX_PARTITIONS = 4;

/**
 * Starts the deletion of expired rows, oldest day first. `nowMs`: a time before `retention` was read. Returns the days. Throws ApiError
 * storage_unavailable.
 */
export async function purgeExpired(clickhouse: Shard, retention: TableRetention, nowMs: number): Promise<string[]> {
  const { table } = retention;
  if (await isDeleting(clickhouse, table)) return [];
  const parts = await clickhouse.query<{ day: string }>(
    sql`SELECT DISTINCT partition AS day FROM system.parts WHERE active AND database = currentDatabase() AND table = ${table} ORDER BY day`,
  );
  const purged: string[] = [];
  for (const { day } of parts) {
    if (purged.length === MAX_PARTITIONS) break;
    const ageMs = nowMs - SLACK_MS - (Date.parse(`${day}T00:00:00Z`) + DAY_MS);
    const due = expiredRows(retention, ageMs);
    if (!due) continue;
    const expired = and([sql`received_at < toDateTime(${Math.floor((nowMs - RECENT_MS) / 1000)})`, due]);
    const next = new Date(Date.parse(`${day}T00:00:00Z`) + DAY_MS).toISOString().slice(0, 10);
    const ofDay = sql`time >= toDateTime64(${day}, 9, 'UTC') AND time < toDateTime64(${next}, 9, 'UTC')`;
    const found = await clickhouse.query(sql`SELECT 1 FROM ${new Sql(table)} WHERE ${and([ofDay, expired])} LIMIT 1`);
    if (found.length === 0) continue;
    await clickhouse.command(sql`ALTER TABLE ${new Sql(table)} DELETE IN PARTITION ${day} WHERE ${expired}`);
    purged.push(day);
  }
  return purged;
}

/** Undefined if no row of this age has expired. */
function expiredRows({ defaultDays, organisations }: TableRetention, ageMs: number): Sql | undefined {
  const isDue = ({ days }: { days: number }): boolean => ageMs >= days * DAY_MS;
  const due = [...organisations].filter(([, retention]) => isDue(retention)).map(([orgId]) => orgId);
  const conditions: Sql[] = due.length > 0 ? [sql`org_id IN (${due})`] : [];
  // While every organisation has the default retention, the TTL of the table removes the rows.
  const isLonger = [...organisations.values()].some(({ days }) => days > defaultDays);
  if (isLonger && isDue({ days: defaultDays })) conditions.push(sql`org_id NOT IN (${[...organisations.keys()]})`);
  for (const [orgId, { rules }] of organisations) {
    for (const rule of rules.filter(isDue)) {
      const matches = [sql`org_id = ${orgId}`];
      if (rule.source !== undefined) matches.push(sql`source = ${rule.source}`);
      if (rule.level !== undefined) matches.push(sql`level = ${rule.level}`);
      conditions.push(and(matches));
    }
  }
  return conditions.length === 0 ? undefined : or(conditions);
}

/** Rows by table, without tables that have none. */
export type RowCounts = Record<string, number>;

/**
 * Starts the deletion of all rows of organisations in every table: one mutation for all of them, because each rewrites the parts that have
 * their rows. Returns the remaining rows of each organisation. Throws ApiError storage_unavailable.
 */
export async function eraseOrganisations(clickhouse: ClickHouse, orgIds: readonly string[]): Promise<Map<string, RowCounts>> {
  await clickhouse.settle();
  const remaining = new Map(orgIds.map((orgId): [string, RowCounts] => [orgId, {}]));
  for (const shard of clickhouse.shards) {
    for (const table of TENANT_TABLES) {
      const found = await countRows(shard, new Sql(table), orgIds);
      for (const [orgId, rows] of found) addRows(remaining, orgId, table, rows);
      if (found.size === 0 || (await isDeleting(shard, table))) continue;
      await shard.command(sql`ALTER TABLE ${new Sql(table)} DELETE WHERE org_id IN (${[...found.keys()]})`);
    }
  }
  return remaining;
}

/**
 * Counts the rows of organisations on all replicas of a cluster: one that was unavailable may still have rows. Throws ApiError
 * storage_unavailable while a replica is unavailable.
 */
export async function countOnEveryReplica(clickhouse: ClickHouse, orgIds: readonly string[]): Promise<Map<string, RowCounts>> {
  const remaining = new Map(orgIds.map((orgId): [string, RowCounts] => [orgId, {}]));
  if (clickhouse.cluster === undefined || orgIds.length === 0) return remaining;
  for (const table of TENANT_TABLES)
    for (const [orgId, rows] of await countRows(clickhouse, clickhouse.everyReplica(table), orgIds)) addRows(remaining, orgId, table, rows);
  return remaining;
}

async function countRows(clickhouse: Pick<Shard, "query">, source: Sql, orgIds: readonly string[]): Promise<Map<string, number>> {
  const counts = await clickhouse.query<{ org_id: string; rows: string }>(
    sql`SELECT org_id, count() AS rows FROM ${source} WHERE org_id IN (${orgIds}) GROUP BY org_id`,
  );
  return new Map(counts.map(({ org_id: orgId, rows }) => [orgId, Number(rows)]));
}

function addRows(counts: ReadonlyMap<string, RowCounts>, orgId: string, table: string, rows: number): void {
  const tables = counts.get(orgId);
  if (tables) tables[table] = (tables[table] ?? 0) + rows;
}

/** Throws if a deletion fails, so that the failure is logged. */
async function isDeleting(clickhouse: Shard, table: string): Promise<boolean> {
  const unfinished = await clickhouse.query<{ reason: string }>(
    sql`SELECT latest_fail_reason AS reason FROM system.mutations
      WHERE NOT is_done AND position(command, 'DELETE') > 0 AND database = currentDatabase() AND table = ${table}`,
  );
  const failed = unfinished.find(({ reason }) => reason !== "");
  if (failed) throw new Error(`ClickHouse cannot delete rows of ${table}: ${failed.reason}`);
  return unfinished.length > 0;
}

// Copies the calls, errors and durations of each minute from a projection of `spans` to `span_minutes`, which keeps them longer than the
// spans. Invariants: a copy may be repeated at any time, because the table keeps the copy with most calls; each hour is copied again shortly
// before queries read it from `span_minutes`.
import type { Shard } from "../../engines/clickhouse/clickhouse-client.ts";
import { type Sql, sql } from "../../engines/clickhouse/sql.ts";
import { DURATION_BUCKETS, DURATION_SUM } from "./span-histogram.ts";
import { ENTRY, MINUTE, timeOf } from "./red.ts";

/** Retention of the copies: a year, and another month to compare it with. */
export const MINUTES_DAYS = 395;
const HOUR_S = 3600;
const DAY_S = 24 * HOUR_S;
/** By this age, spans have usually all arrived. Spans with a shorter retention expire after this copy (storage/removal). */
const FIRST_COPY_S = 25 * HOUR_S;
/** This long before spans expire, their minutes are copied again, and read from the copies from then on. */
const LAST_COPY_S = 12 * HOUR_S;

/** Minutes before this, in seconds since 1970, are read from copies because their spans are about to expire. */
export function copiesUntilS(retentionDays: number, nowMs = Date.now()): number {
  return Math.floor(nowMs / 1000 / HOUR_S) * HOUR_S - retentionDays * DAY_S + LAST_COPY_S;
}

/** Longer names are cut in copies, so that a few long names cannot exceed the memory of a statement. */
const MAX_NAME_CHARACTERS = 256;
/** Maximum number of rows per organisation and minute; those with the most calls are copied. */
const MAX_ROWS_PER_MINUTE = 10_000;

/**
 * Copies the spans of each organisation by the hour: all whole hours older than 25 hours that have no copy yet, and, to include spans that
 * arrived late, the two hours around `copiesUntilS`. Safe to run at any time, on several replicas; each shard copies the minutes of its own
 * spans. If a copy fails, the others are still made, and a later pass retries it before its spans expire. Throws the first failure, ApiError
 * storage_unavailable.
 */
export async function keepMinutes(clickhouse: Shard, retentionDays: number, signal: AbortSignal, nowMs = Date.now()): Promise<number> {
  const untilS = Math.floor((nowMs / 1000 - FIRST_COPY_S) / HOUR_S) * HOUR_S;
  const lastCopyS = copiesUntilS(retentionDays, nowMs) - HOUR_S;
  const [copied] = await clickhouse.query<{ until: number }>(sql`SELECT toUnixTimestamp(max(time)) AS until FROM span_minutes
    WHERE time < toDateTime(${untilS})`);
  // Starts with the newest copied hour, because a crash may have interrupted it.
  const sinceS = Math.max(Math.floor((copied?.until ?? 0) / HOUR_S) * HOUR_S, lastCopyS - DAY_S);
  const hours = await clickhouse.query<{ org_id: string; hour_s: number }>(
    sql`SELECT org_id, toUInt32(intDiv(toUnixTimestamp(${MINUTE}), ${HOUR_S}) * ${HOUR_S}) AS hour_s FROM spans
      WHERE (${MINUTE} >= ${timeOf(sinceS)} AND ${MINUTE} < ${timeOf(untilS)})
        OR (${MINUTE} >= ${timeOf(lastCopyS)} AND ${MINUTE} < ${timeOf(lastCopyS + 2 * HOUR_S)})
      GROUP BY org_id, hour_s ORDER BY hour_s, org_id`,
  );
  const failures: unknown[] = [];
  for (const { org_id: orgId, hour_s: hourS } of hours) {
    signal.throwIfAborted();
    await clickhouse
      .command(sql`INSERT INTO span_minutes (org_id, time, service, operation, kind, status_code, entry, calls, duration_ns, buckets)
        ${minutesOfHour(orgId, hourS)}
        SETTINGS max_memory_usage = 1000000000, max_bytes_before_external_group_by = 300000000,
          max_bytes_before_external_sort = 300000000, max_execution_time = 30`)
      .catch((error: unknown) => failures.push(error));
  }
  if (failures.length > 0) throw failures[0];
  return hours.length;
}

/** The rows to copy for one organisation and hour. */
export function minutesOfHour(orgId: string, hourS: number): Sql {
  const service = sql`substringUTF8(service, 1, ${MAX_NAME_CHARACTERS})`;
  const operation = sql`substringUTF8(operation, 1, ${MAX_NAME_CHARACTERS})`;
  return sql`SELECT org_id, toDateTime(${MINUTE}, 'UTC') AS minute, ${service} AS service_name, ${operation} AS operation_name,
      kind, status_code, ${ENTRY} AS is_entry, count() AS calls, ${DURATION_SUM} AS total_ns, ${DURATION_BUCKETS} AS histogram
    FROM spans WHERE org_id = ${orgId} AND ${MINUTE} >= ${timeOf(hourS)} AND ${MINUTE} < ${timeOf(hourS + HOUR_S)}
    GROUP BY org_id, ${MINUTE}, service_name, operation_name, kind, status_code, is_entry
    ORDER BY calls DESC, service_name, operation_name LIMIT ${MAX_ROWS_PER_MINUTE} BY minute`;
}

// Builds queries for rates, errors and durations (RED) of services and operations by minute. They read the projections `minutes` and
// `services` of the spans and, for minutes older than the retention of spans, the copies of `minutes` in `span_minutes`. Invariant: ranges
// are whole minutes, and each minute is read either from spans or from copies, so every span counts once.
import type { LabelLimits } from "../../admission/limited-labels.ts";
import { and, type Sql, sql, unionAll } from "../../engines/clickhouse/sql.ts";
import { nanoseconds } from "../page.ts";
import { DURATION_BUCKETS, DURATION_SUM, MAX_PACKED_S, packedBuckets } from "./span-histogram.ts";

export const MINUTE_S = 60;
/** Defined once, because the engine recognises the projection only by exactly this expression. */
export const MINUTE = sql`toStartOfInterval(time, toIntervalMillisecond(60000))`;
export const ENTRY = sql`(kind IN ('SERVER', 'CONSUMER')) OR (parent_span_id IN (''))`;

export const KINDS = ["server", "consumer", "client", "producer", "internal"] as const;
/** `entry`: server and consumer spans, and root spans. */
export type RedKind = (typeof KINDS)[number] | "entry" | "all";

/** Whole minutes, in seconds since 1970; the end is exclusive. */
export interface MinuteRange {
  readonly startS: number;
  readonly endS: number;
}

export interface RedFilter extends MinuteRange {
  readonly kind: RedKind;
  readonly service?: string;
  readonly operation?: string;
  /** Maximum number of points of a series. */
  readonly points: number;
  readonly labelLimits?: LabelLimits | undefined;
}

/** All minutes that a range touches. */
export function minutesOf(startNs: bigint, endNs: bigint): MinuteRange {
  const minuteNs = BigInt(MINUTE_S) * 1_000_000_000n;
  const startS = Number(startNs / minuteNs) * MINUTE_S;
  return { startS, endS: Math.max(startS, Number(endNs / minuteNs) * MINUTE_S) + MINUTE_S };
}

/** The column `point`: the number of the point that a minute belongs to. */
export function pointOf(minuteS: Sql, filter: Pick<RedFilter, "startS" | "endS" | "points">): Sql {
  return sql`toUInt32(intDiv(${minuteS} - ${filter.startS}, ${pointWidthS(filter)})) AS point`;
}

/** The width of a point: a whole number of minutes, so that no minute is split. */
export function pointWidthS({ startS, endS, points }: Pick<RedFilter, "startS" | "endS" | "points">): number {
  return Math.ceil((endS - startS) / MINUTE_S / points) * MINUTE_S;
}

interface Grouping extends MinuteRange {
  /** What to select and group by in addition to the status: expressions with aliases, over the minute and the columns of a span's name. */
  readonly keys: (minuteS: Sql) => Sql;
  readonly groupBy: Sql;
  readonly conditions: (isEntry: Sql) => readonly Sql[];
  /** Earlier minutes are read from their copies. */
  readonly copiesUntilS: number;
}

/** A SELECT of groups: the keys, status_code, n, total_ns and histogram; a group may have several rows. */
export function minuteGroups(orgId: string, { keys, groupBy, conditions, startS, endS, copiesUntilS }: Grouping): Sql {
  const fromSpansS = Math.min(Math.max(startS, copiesUntilS), endS);
  const parts: Sql[] = [];
  if (fromSpansS < endS) {
    const range = [sql`${MINUTE} >= ${timeOf(fromSpansS)}`, sql`${MINUTE} < ${timeOf(endS)}`];
    parts.push(sql`SELECT ${keys(sql`toUnixTimestamp(${MINUTE})`)}, status_code, count() AS n, ${DURATION_SUM} AS total_ns,
      ${DURATION_BUCKETS} AS histogram FROM spans WHERE ${and([sql`org_id = ${orgId}`, ...range, ...conditions(ENTRY)])}
      GROUP BY ${groupBy}, status_code`);
  }
  if (startS < fromSpansS) {
    const range = [sql`time >= toDateTime(${startS})`, sql`time < toDateTime(${fromSpansS})`];
    parts.push(sql`SELECT ${keys(sql`toUnixTimestamp(time)`)}, status_code, sum(calls) AS n, sum(duration_ns) AS total_ns,
      sumMap(buckets) AS histogram FROM span_minutes FINAL WHERE ${and([sql`org_id = ${orgId}`, ...range, ...conditions(sql`entry`)])}
      GROUP BY ${groupBy}, status_code`);
  }
  return unionAll(parts);
}

/** Must equal the expressions of the projection `services`. */
export const SERVICE_FIGURES = sql`countIf(${ENTRY}) AS calls, countIf((${ENTRY}) AND (status_code = 'ERROR')) AS errors,
  ${packedBuckets(ENTRY)} AS packed`;

/** Whether the projection `services` has all that the query needs; otherwise only `minutes` has. */
export function isPacked(filter: RedFilter, copiesUntilS: number): boolean {
  const { startS, kind, operation } = filter;
  return kind === "entry" && operation === undefined && startS >= copiesUntilS && pointWidthS(filter) <= MAX_PACKED_S;
}

/** A SELECT of `keys`, calls, errors and packed buckets of entry spans by service, from the projection `services`. */
export function packedPoints(orgId: string, filter: RedFilter, keys: (point: Sql) => Sql, groupBy: Sql): Sql {
  const { startS, endS, service } = filter;
  const range = [sql`${MINUTE} >= ${timeOf(startS)}`, sql`${MINUTE} < ${timeOf(endS)}`];
  const conditions = [sql`org_id = ${orgId}`, ...range, ...(service === undefined ? [] : [sql`service = ${service}`])];
  return sql`SELECT ${keys(pointOf(sql`toUnixTimestamp(${MINUTE})`, filter))}, ${SERVICE_FIGURES} FROM spans WHERE ${and(conditions)} GROUP BY ${groupBy}`;
}

/** The filter as conditions on span names and kinds. */
export function conditionsOf({ kind, service, operation }: Pick<RedFilter, "kind" | "service" | "operation">): (isEntry: Sql) => Sql[] {
  return (isEntry) => [
    ...(kind === "entry" ? [isEntry] : []),
    ...(kind === "entry" || kind === "all" ? [] : [sql`kind = ${kind.toUpperCase()}`]),
    ...(service === undefined ? [] : [sql`service = ${service}`]),
    ...(operation === undefined ? [] : [sql`operation = ${operation}`]),
  ];
}

/** A time that can be compared with MINUTE. */
export function timeOf(seconds: number): Sql {
  return nanoseconds(BigInt(seconds) * 1_000_000_000n);
}

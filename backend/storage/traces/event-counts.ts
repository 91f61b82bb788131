// Counts the good and all calls of a service or operation over time, for service level objectives. Invariants: it reads only the summaries
// by minute, so 90 days cost the same whatever the number of spans; whole minutes; late spans are counted.
import type { Ask } from "../../engines/clickhouse/clickhouse-client.ts";
import { type Sql, sql } from "../../engines/clickhouse/sql.ts";
import { parseLines } from "../found-page.ts";
import { conditionsOf, MINUTE_S, minuteGroups, type MinuteRange } from "./red.ts";

export interface EventFilter extends MinuteRange {
  readonly service: string;
  readonly operation?: string | undefined;
  /** Calls are good up to this bucket of durations (span-histogram.ts); undefined: calls without an error are good. */
  readonly lastBucket?: number | undefined;
  /** Width of a point: whole minutes. */
  readonly stepS: number;
  /** Count the minutes with calls from then on; unset: `minutes` is 1. */
  readonly minutesFromS?: number | undefined;
}

export interface EventCount {
  readonly point: number;
  readonly good: number;
  readonly total: number;
  /** Minutes of the point that have calls, if they are counted. */
  readonly minutes: number;
}

/** Points with calls, oldest first. */
export async function countEvents(ask: Ask, orgId: string, filter: EventFilter, copiesUntilS: number): Promise<EventCount[]> {
  const { service, operation, lastBucket, startS, stepS, minutesFromS } = filter;
  const point = (minuteS: Sql) => sql`toUInt32(intDiv(${minuteS} - ${startS}, ${stepS})) AS point`;
  // One row a point instead of one a minute, unless minutes are counted.
  const byMinute = minutesFromS !== undefined && stepS > MINUTE_S;
  const groups = minuteGroups(orgId, {
    ...filter,
    copiesUntilS,
    keys: (minuteS) => (byMinute ? sql`toUInt32(${minuteS}) AS minute_s` : point(minuteS)),
    groupBy: byMinute ? sql`minute_s` : sql`point`,
    conditions: conditionsOf({ kind: "entry", service, ...(operation !== undefined && { operation }) }),
  });
  const minutes = byMinute ? sql`toUInt32(uniqExactIf(minute_s, minute_s >= ${minutesFromS}))` : sql`1`;
  return parseLines(
    await ask(sql`SELECT ${byMinute ? point(sql`minute_s`) : sql`point`}, toFloat64(sum(${goodOf(lastBucket)})) AS good,
      toFloat64(sum(n)) AS total, ${minutes} AS minutes FROM (${groups}) GROUP BY point ORDER BY point`),
  );
}

function goodOf(lastBucket: number | undefined): Sql {
  if (lastBucket === undefined) return sql`if(status_code = 'ERROR', 0, n)`;
  return sql`arraySum((bucket, calls) -> if(bucket <= ${lastBucket}, calls, 0), mapKeys(histogram), mapValues(histogram))`;
}

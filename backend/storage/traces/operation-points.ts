// Reads calls, errors and durations of all operations of an organisation over time in one statement, to compare two ranges. Invariant:
// figures come from the summaries by minute, so the cost depends on the number of operations and minutes, not on the number of spans.
import type { Ask } from "../../engines/clickhouse/clickhouse-client.ts";
import { type Sql, sql, unionAll } from "../../engines/clickhouse/sql.ts";
import { parseLines } from "../found-page.ts";
import { MAX_COMPARED_NAME_CHARACTERS, MAX_COMPARED_OPERATIONS } from "../storage-limits.ts";
import { conditionsOf, minuteGroups, type MinuteRange, pointOf, type RedKind } from "./red.ts";

/** Calls, errors, and the buckets of durations (span-histogram.ts) with their counts, of one point. */
export type OperationPoint = readonly [point: number, calls: number, errors: number, buckets: readonly number[], counts: readonly number[]];

export interface OperationPoints {
  readonly service: string;
  readonly operation: string;
  /** Upper case, such as SERVER. */
  readonly kind: string;
  /** Points without calls are missing. */
  readonly points: readonly OperationPoint[];
}

/** The answers to all questions together. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

const cut = (name: Sql): Sql => sql`substringUTF8(${name}, 1, ${MAX_COMPARED_NAME_CHARACTERS})`;

export interface OperationQuestion {
  readonly kinds: readonly RedKind[];
  readonly ranges: readonly MinuteRange[];
  /** Points of each range; those of the second range follow those of the first. */
  readonly points: number;
}

/** For each kind, its operations, those with most calls first. One statement: each would cost the engine its planning. */
export async function listOperationPoints(
  ask: Ask,
  orgId: string,
  { kinds, ranges, points }: OperationQuestion,
  copiesUntilS: number,
): Promise<OperationPoints[][]> {
  const partOf = (kind: RedKind, range: MinuteRange, at: number): Sql => {
    const groups = minuteGroups(orgId, {
      ...range,
      copiesUntilS,
      keys: (minuteS) => sql`service, operation, kind, ${pointOf(minuteS, { ...range, points })}`,
      groupBy: sql`service, operation, kind, point`,
      conditions: conditionsOf({ kind }),
    });
    return sql`SELECT ${kinds.indexOf(kind)} AS question, ${cut(sql`service`)} AS service_name, ${cut(sql`operation`)} AS operation_name, kind,
      toUInt32(point + ${at * points}) AS point_of_all, sum(n) AS calls, sumIf(n, status_code = 'ERROR') AS errors, sumMap(histogram) AS buckets
      FROM (${groups}) GROUP BY service_name, operation_name, kind, point`;
  };
  const parts = kinds.flatMap((kind) => ranges.map((range, at) => partOf(kind, range, at)));
  const lines = await ask(
    sql`SELECT question, service_name AS service, operation_name AS operation, kind, CAST(groupArray((point_of_all, toFloat64(calls), toFloat64(errors), mapKeys(buckets),
        arrayMap(n -> toFloat64(n), mapValues(buckets)))), 'Array(Tuple(UInt32, Float64, Float64, Array(Int16), Array(Float64)))') AS points
      FROM (${unionAll(parts)}) GROUP BY question, service_name, operation_name, kind
      ORDER BY sum(calls) DESC, service_name, operation_name LIMIT ${MAX_COMPARED_OPERATIONS} BY question`,
    MAX_ANSWER_BYTES,
  );
  const found = parseLines<OperationPoints & { question: number }>(lines);
  return kinds.map((_, at) => found.filter(({ question }) => question === at));
}

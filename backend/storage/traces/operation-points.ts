// Reads calls, errors and durations of all operations of an organisation over time in one statement, to compare two ranges. Invariant:
// figures come from the summaries by minute, so the cost depends on the number of operations and minutes, not on the number of spans.
import type { Ask } from "../../engines/clickhouse/clickhouse-client.ts";
import { type Sql, sql } from "../../engines/clickhouse/sql.ts";
import { arrayOfLines } from "../found-page.ts";
import { MAX_COMPARED_NAME_CHARACTERS, MAX_COMPARED_OPERATIONS } from "../storage-limits.ts";
import { conditionsOf, minuteGroups, pointOf, type RedFilter } from "./red.ts";

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

const MAX_ANSWER_BYTES = 32 * 1024 * 1024;

const cut = (name: Sql): Sql => sql`substringUTF8(${name}, 1, ${MAX_COMPARED_NAME_CHARACTERS})`;

/** OperationPoints as JSON, those with most calls first. */
export async function listOperationPoints(ask: Ask, orgId: string, filter: RedFilter, copiesUntilS: number): Promise<Buffer> {
  const groups = minuteGroups(orgId, {
    ...filter,
    copiesUntilS,
    keys: (minuteS) => sql`service, operation, kind, ${pointOf(minuteS, filter)}`,
    groupBy: sql`service, operation, kind, point`,
    conditions: conditionsOf(filter),
  });
  return arrayOfLines(
    await ask(
      sql`SELECT service_name AS service, operation_name AS operation, kind, CAST(groupArray((point, toFloat64(calls), toFloat64(errors), mapKeys(buckets),
          arrayMap(n -> toFloat64(n), mapValues(buckets)))), 'Array(Tuple(UInt32, Float64, Float64, Array(Int16), Array(Float64)))') AS points FROM (
          SELECT ${cut(sql`service`)} AS service_name, ${cut(sql`operation`)} AS operation_name, kind, point, sum(n) AS calls, sumIf(n, status_code = 'ERROR') AS errors, sumMap(histogram) AS buckets
          FROM (${groups}) GROUP BY service_name, operation_name, kind, point)
        GROUP BY service_name, operation_name, kind ORDER BY sum(calls) DESC, service_name, operation_name LIMIT ${MAX_COMPARED_OPERATIONS}`,
      MAX_ANSWER_BYTES,
    ),
  );
}

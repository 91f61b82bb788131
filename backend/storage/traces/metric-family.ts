// Reads calls, errors and latency over time as JSON for the page "Monitor" of Jaeger (service performance monitoring). Invariant: as in
// services.ts, every figure covers whole minutes; the time of a value is the end of its minutes.
import type { Ask } from "../../engines/clickhouse/clickhouse-client.ts";
import { Sql, sql } from "../../engines/clickhouse/sql.ts";
import { arrayOfLines } from "../found-page.ts";
import { histogramColumns, quantileMs } from "./span-histogram.ts";
import { minuteGroups, type MinuteRange, pointOf, pointWidthS } from "./red.ts";

/** All services of one filter count as one. */
export interface FamilyFilter extends MinuteRange {
  readonly services: readonly string[];
  /** SERVER, CLIENT, … */
  readonly kinds: readonly string[];
  readonly isByOperation: boolean;
  /** Maximum number of values of one series. */
  readonly points: number;
  readonly question: FamilyQuestion;
}

export type FamilyQuestion = "calls" | "errors" | { readonly quantile: number };

/** Maximum number of series in one response; those with the most calls are returned. */
const MAX_SERIES = 1000;
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;
/** Marks the latency and the share of errors of points without calls, which are left out. */
const NO_VALUE = -1;

/** The elements of `metrics`, most calls first. */
export async function metricFamily(ask: Ask, orgId: string, filter: FamilyFilter, copiesUntilS: number): Promise<Buffer> {
  const { startS, endS, services, kinds, isByOperation, question } = filter;
  const widthS = pointWidthS(filter);
  const pointCount = Math.ceil((endS - startS) / widthS);
  const groups = minuteGroups(orgId, {
    startS,
    endS,
    copiesUntilS,
    keys: (minuteS) => sql`service, ${isByOperation ? sql`operation` : sql`''`} AS name, ${pointOf(minuteS, filter)}`,
    groupBy: sql`service, name, point`,
    conditions: () => [sql`service IN ${services}`, sql`kind IN ${kinds}`],
  });
  const endOf = sql`least(${endS}, ${startS} + point * ${widthS} + ${widthS})`;
  const seconds = sql`(${endOf} - ${startS} - point * ${widthS})`;
  const points = sql`SELECT service, name, point, sum(n) AS calls, sumIf(n, status_code = 'ERROR') AS failed, sumMap(histogram) AS buckets,
    ${histogramColumns(sql`buckets`)}, toFloat64(${valueOf(question, seconds)}) AS value FROM (${groups}) GROUP BY service, name, point`;
  const none = new Sql(question === "calls" ? "0." : `${NO_VALUE}.`);
  const values = sql`arrayFilter(each -> each.2 != ${NO_VALUE}, arrayZip(range(${pointCount}), groupArrayInsertAt(${none}, ${pointCount})(value, point)))`;
  const metricPoints = sql`arrayMap((point, value) -> (tuple(value), formatDateTime(toDateTime(${endOf}, 'UTC'), '%Y-%m-%dT%H:%i:%SZ')), ${values})`;
  const labels = sql`arrayConcat([('service_name', toString(service))], ${isByOperation ? sql`[('operation', name)]` : sql`[]`})`;
  return arrayOfLines(
    await ask(
      sql`SELECT CAST(${labels}, 'Array(Tuple(name String, value String))') AS labels,
          CAST(${metricPoints}, 'Array(Tuple(gaugeValue Tuple(doubleValue Float64), timestamp String))') AS metricPoints
        FROM (${points}) GROUP BY service, name ORDER BY sum(calls) DESC, service, name LIMIT ${MAX_SERIES}`,
      MAX_ANSWER_BYTES,
    ),
  );
}

function valueOf(question: FamilyQuestion, seconds: Sql): Sql {
  if (question === "calls") return sql`calls / ${seconds}`;
  if (question === "errors") return sql`failed / calls`;
  return sql`ifNull(${quantileMs(question.quantile)}, ${NO_VALUE})`;
}

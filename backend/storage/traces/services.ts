// Reads what the API returns about services: the list with rate, errors and latency, the operations of a service, and its series over time.
// Invariant: every figure covers whole minutes of the range; calls and errors are exact, quantiles as accurate as span-histogram.ts describes.
import type { Ask } from "../../engines/clickhouse/clickhouse-client.ts";
import { Sql, sql } from "../../engines/clickhouse/sql.ts";
import { arrayOfLines } from "../found-page.ts";
import { operationRows } from "./operation-rows.ts";
import { BUCKETS_OF_HALVES, histogramColumns, packedQuantileMs, quantileMs, unpackedHalves } from "./span-histogram.ts";
import { conditionsOf, minuteGroups, pointOf, isPacked, packedPoints, pointWidthS, type RedFilter } from "./red.ts";

const MAX_OPERATIONS = 1000;
/** 1,000 services with 1,500 points each take half of it; larger queries fail before that on the memory limit of a read. */
const MAX_ANSWER_BYTES = 64 * 1024 * 1024;

/** Columns computed from `calls`, `errors` (UInt64) and a Map `buckets`; `seconds` is the time over which the rate is averaged. */
function figures(seconds: Sql): Sql {
  return sql`toFloat64(calls) AS calls, toFloat64(errors) AS errors, toFloat64(calls) / ${seconds} AS rate,
    if(calls = 0, 0, errors / calls) AS error_ratio, ${histogramColumns(sql`buckets`)},
    ${quantileMs(0.5)} AS p50_ms, ${quantileMs(0.95)} AS p95_ms, ${quantileMs(0.99)} AS p99_ms`;
}

const FIGURE_NAMES = sql`calls, errors, rate, error_ratio, p50_ms, p95_ms, p99_ms`;
const MERGED = sql`sum(n) AS calls, sumIf(n, status_code = 'ERROR') AS errors, sumMap(histogram) AS buckets`;

/** Services by name, including those without calls in the range. */
export async function listServices(ask: Ask, orgId: string, filter: RedFilter, copiesUntilS: number): Promise<Buffer> {
  const { startS, endS } = filter;
  const pointCount = Math.ceil((endS - startS) / pointWidthS(filter));
  const named = sql`SELECT service, CAST(arraySort(groupArray((operation, kinds))), 'Array(Tuple(operation String, kinds Array(String)))') AS operations
    FROM (SELECT service, operation, arraySort(groupUniqArray(toString(kind))) AS kinds FROM ${operationRows(orgId, filter.labelLimits, filter)} WHERE org_id = ${orgId}
      GROUP BY service, operation) GROUP BY service`;
  const services = isPacked(filter, copiesUntilS)
    ? packedServices(orgId, filter, pointCount)
    : minuteServices(orgId, filter, copiesUntilS, pointCount);
  // arrayResize fills in the points of a service without calls.
  const series = sql`CAST((arrayResize(all_calls, ${pointCount}), arrayResize(all_errors, ${pointCount}),
    arrayMap(ms -> nullIf(ms, -1), arrayResize(all_p95, ${pointCount}, toFloat32(-1)))),
    'Tuple(calls Array(Float64), errors Array(Float64), p95_ms Array(Nullable(Float32)))') AS series`;
  return arrayOfLines(
    await ask(
      sql`SELECT service, operations, ${FIGURE_NAMES}, series FROM
        (SELECT service, operations, ${figures(sql`${endS - startS}`)}, ${series}
        FROM (${named}) AS named LEFT JOIN (${services}) AS figured USING (service)) ORDER BY service`,
      MAX_ANSWER_BYTES,
    ),
  );
}

/** Arrays with all points of a service: looking up each point in a map would copy the map each time. */
function seriesColumns(pointCount: number): Sql {
  const values = (type: string, value: string, none: number) =>
    new Sql(`groupArrayInsertAt(to${type}(${none}), ${pointCount})(to${type}(${value}), point)`);
  return sql`${values("Float64", "points.calls", 0)} AS all_calls, ${values("Float64", "points.errors", 0)} AS all_errors,
    ${values("Float32", "ms", -1)} AS all_p95`;
}

/** The services' calls, errors, `buckets` and arrays of points, from packed buckets. */
function packedServices(orgId: string, filter: RedFilter, pointCount: number): Sql {
  const packed = packedPoints(orgId, filter, (point) => sql`service, ${point}`, sql`service, point`);
  return sql`SELECT service, calls, errors, all_calls, all_errors, all_p95, ${BUCKETS_OF_HALVES} FROM
    (SELECT service, sum(calls) AS calls, sum(errors) AS errors, ${unpackedHalves((halves) => sql`sumForEach(${halves})`)},
      ${seriesColumns(pointCount)} FROM (SELECT service, point, calls, errors, packed, ${packedQuantileMs(0.95)} FROM (${packed})) AS points
    GROUP BY service)`;
}

/** The same from the histograms of minutes. */
function minuteServices(orgId: string, filter: RedFilter, copiesUntilS: number, pointCount: number): Sql {
  const groups = minuteGroups(orgId, {
    ...filter,
    copiesUntilS,
    keys: (minuteS) => sql`service, ${pointOf(minuteS, filter)}`,
    groupBy: sql`service, point`,
    conditions: conditionsOf(filter),
  });
  const points = sql`SELECT service, point, calls, errors, buckets, ${histogramColumns(sql`buckets`)}, ifNull(${quantileMs(0.95)}, -1) AS ms FROM
    (SELECT service, point, ${MERGED} FROM (${groups}) GROUP BY service, point)`;
  return sql`SELECT service, sum(calls) AS calls, sum(errors) AS errors, sumMap(buckets) AS buckets, ${seriesColumns(pointCount)}
    FROM (${points}) AS points GROUP BY service`;
}

/** Operations with calls in the range, most calls first. */
export async function listOperations(ask: Ask, orgId: string, filter: RedFilter, copiesUntilS: number): Promise<Buffer> {
  const groups = minuteGroups(orgId, {
    ...filter,
    copiesUntilS,
    keys: () => sql`operation, kind`,
    groupBy: sql`operation, kind`,
    conditions: conditionsOf(filter),
  });
  return arrayOfLines(
    await ask(
      sql`SELECT operation, kind, ${FIGURE_NAMES} FROM (SELECT operation, kind, ${figures(sql`${filter.endS - filter.startS}`)} FROM
        (SELECT operation, kind, ${MERGED} FROM (${groups}) GROUP BY operation, kind))
        ORDER BY calls DESC, operation, kind LIMIT ${MAX_OPERATIONS}`,
      MAX_ANSWER_BYTES,
    ),
  );
}

/** All points of the range, oldest first. */
export async function readSeries(ask: Ask, orgId: string, filter: RedFilter, copiesUntilS: number): Promise<Buffer> {
  const { startS, endS } = filter;
  const widthS = pointWidthS(filter);
  const groups = minuteGroups(orgId, {
    ...filter,
    copiesUntilS,
    keys: (minuteS) => pointOf(minuteS, filter),
    groupBy: sql`point`,
    conditions: conditionsOf(filter),
  });
  const startOf = sql`(${startS} + point * ${widthS})`;
  const endOf = sql`least(${endS}, ${startS} + (point + 1) * ${widthS})`;
  const merged = isPacked(filter, copiesUntilS)
    ? sql`SELECT point, calls, errors, ${unpackedHalves((halves) => halves)}, ${BUCKETS_OF_HALVES}
        FROM (${packedPoints(orgId, filter, (point) => point, sql`point`)})`
    : sql`SELECT point, ${MERGED} FROM (${groups}) GROUP BY point`;
  return arrayOfLines(
    await ask(
      sql`SELECT toDateTime(${startOf}, 'UTC') AS start, toDateTime(${endOf}, 'UTC') AS end, ${FIGURE_NAMES} FROM
        (SELECT point, ${figures(sql`(${endOf} - ${startOf})`)} FROM
          (SELECT toUInt32(number) AS point FROM numbers(${Math.ceil((endS - startS) / widthS)})) AS all_points
          LEFT JOIN (${merged}) AS merged USING (point)) ORDER BY point`,
      MAX_ANSWER_BYTES,
    ),
  );
}

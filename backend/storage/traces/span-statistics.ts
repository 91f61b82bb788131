// Computes statistics over many spans: field values with counts (facets), durations over time (heatmap), and the attributes in which slow
// or failed spans differ from the others. Invariants: facets and comparisons read a bounded sample, the newest spans; responses are small.
import type { Ask } from "../../engines/clickhouse/clickhouse-client.ts";
import { and, type Sql, sql } from "../../engines/clickhouse/sql.ts";
import { arrayOfLines } from "../found-page.ts";
import { nanoseconds, pageConditions, type TimeSpan } from "../page.ts";
import { DURATION_BUCKETS } from "./span-histogram.ts";
import { MINUTE_S, minutesOf, pointWidthS } from "./red.ts";
import { spanConditions, type SpanConditions } from "./search.ts";

export interface StatisticsFilter {
  readonly span: SpanConditions;
  readonly range: TimeSpan;
  /** Time buckets of a heatmap. */
  readonly points: number;
  /** The spans that are compared with all others: those with an error, with at least this duration, or since this time. */
  readonly compared: "errors" | { readonly minNs: bigint } | { readonly sinceNs: bigint };
}

/** Facets and comparisons use this many of the newest matching spans. */
const SAMPLED_SPANS = 20_000;
const MAX_FACETS = 100;
const MAX_VALUES = 20;
/** Longer names and values are left out of facets. */
const MAX_CHARACTERS = 256;
const MAX_DIFFERENCES = 50;
const MAX_ANSWER_BYTES = 16 * 1024 * 1024;

const FIELDS = sql`arrayConcat([('service', toString(service)), ('operation', operation), ('kind', toString(kind)), ('status', toString(status_code))],
  arrayMap((key, value) -> (concat('attribute.', toString(key)), value), mapKeys(attributes), mapValues(attributes)))`;

function matching(orgId: string, { span, range }: StatisticsFilter): Sql {
  return and([sql`org_id = ${orgId}`, ...pageConditions({ range }), ...spanConditions(span)]);
}

/** `[{name, spans, values: [{value, count}]}]`: `spans` of the sample have the field; the fields that most spans have come first. */
export async function spanFacets(ask: Ask, orgId: string, filter: StatisticsFilter): Promise<Buffer> {
  const sample = sql`SELECT service, operation, kind, status_code, attributes FROM spans WHERE ${matching(orgId, filter)}
    ORDER BY time DESC, id DESC LIMIT ${SAMPLED_SPANS}`;
  return arrayOfLines(
    await ask(
      sql`SELECT name, toUInt32(any(having)) AS spans, CAST(groupArray((value, n)), 'Array(Tuple(value String, count UInt32))') AS values FROM (
          SELECT name, assumeNotNull(short) AS value, n, having FROM (
            SELECT pair.1 AS name, if(length(pair.2) <= ${MAX_CHARACTERS}, pair.2, NULL) AS short, count() AS n,
              sum(n) OVER (PARTITION BY name) AS having FROM (SELECT arrayJoin(${FIELDS}) AS pair FROM (${sample}))
            WHERE length(name) <= ${MAX_CHARACTERS} GROUP BY name, short)
          WHERE short IS NOT NULL ORDER BY n DESC, value LIMIT ${MAX_VALUES} BY name)
        GROUP BY name ORDER BY startsWith(name, 'attribute.'), spans DESC, name LIMIT ${MAX_FACETS}`,
      MAX_ANSWER_BYTES,
    ),
  );
}

/** `[{start, end, spans, errors, buckets: [{max_ms, count}]}]`, oldest first, without gaps. Counts all matching spans, not a sample. */
export async function durationHeatmap(ask: Ask, orgId: string, filter: StatisticsFilter): Promise<Buffer> {
  const { startS, endS } = minutesOf(filter.range.start, filter.range.end);
  const widthS = pointWidthS({ startS, endS, points: filter.points });
  const point = sql`toUInt32(intDiv(intDiv(toUnixTimestamp(time), ${MINUTE_S}) * ${MINUTE_S} - ${startS}, ${widthS}))`;
  const start = sql`(${startS} + point * ${widthS})`;
  return arrayOfLines(
    await ask(
      sql`SELECT toDateTime(${start}, 'UTC') AS start, toDateTime(least(${endS}, ${start} + ${widthS}), 'UTC') AS end,
          toFloat64(n) AS spans, toFloat64(failed) AS errors,
          CAST(arrayMap((bucket, count) -> (exp2(bucket / 4), count), mapKeys(histogram), mapValues(histogram)),
            'Array(Tuple(max_ms Float64, count Float64))') AS buckets
        FROM (SELECT toUInt32(number) AS point FROM numbers(${Math.ceil((endS - startS) / widthS)})) AS all_points
        LEFT JOIN (SELECT ${point} AS point, count() AS n, countIf(status_code = 'ERROR') AS failed, ${DURATION_BUCKETS} AS histogram
          FROM spans WHERE ${matching(orgId, filter)} GROUP BY point) AS found USING (point) ORDER BY point`,
      MAX_ANSWER_BYTES,
    ),
  );
}

/**
 * `[{name, value, compared, compared_share, others, others_share, difference}]`: how many of the compared spans and of the others have the
 * value; the largest difference of shares comes first.
 */
export async function spanDifferences(ask: Ask, orgId: string, filter: StatisticsFilter): Promise<Buffer> {
  const isCompared = comparedCondition(filter.compared);
  const half = (
    condition: Sql,
  ): Sql => sql`SELECT service, operation, kind, status_code, attributes, ${isCompared} AS is_compared FROM spans
    WHERE ${and([matching(orgId, filter), condition])} ORDER BY time DESC, id DESC LIMIT ${SAMPLED_SPANS / 2}`;
  const sample = sql`SELECT * FROM (${half(isCompared)}) UNION ALL SELECT * FROM (${half(sql`NOT (${isCompared})`)})`;
  return arrayOfLines(
    await ask(
      sql`SELECT name, value, toFloat64(hits) AS compared, hits / greatest(1, all_hits) AS compared_share, toFloat64(misses) AS others,
          misses / greatest(1, all_misses) AS others_share, compared_share - others_share AS difference FROM (
          SELECT pair.1 AS name, pair.2 AS value, countIf(is_compared) AS hits, countIf(NOT is_compared) AS misses,
            any(total_hits) AS all_hits, any(total_misses) AS all_misses FROM (
            SELECT arrayJoin(${FIELDS}) AS pair, is_compared, total_hits, total_misses FROM
              (SELECT *, countIf(is_compared) OVER () AS total_hits, countIf(NOT is_compared) OVER () AS total_misses FROM (${sample})))
          WHERE length(name) <= ${MAX_CHARACTERS} AND length(value) <= ${MAX_CHARACTERS} GROUP BY name, value)
        WHERE difference != 0 ORDER BY abs(difference) DESC, name, value LIMIT ${MAX_DIFFERENCES}`,
      MAX_ANSWER_BYTES,
    ),
  );
}

function comparedCondition(compared: StatisticsFilter["compared"]): Sql {
  if (compared === "errors") return sql`status_code = 'ERROR'`;
  return "minNs" in compared ? sql`duration_ns >= ${compared.minNs}` : sql`time >= ${nanoseconds(compared.sinceNs)}`;
}

// Counts log records by time and level, and lists their fields with values. Invariant: the response is small whatever the records contain:
// levels, fields, values and their lengths are limited, and fields come from a sample.
import { and, type Sql, sql, unionAll } from "../../engines/clickhouse/sql.ts";
import type { Ask } from "../../engines/clickhouse/clickhouse-client.ts";
import { parseLines } from "../found-page.ts";
import { MAX_COUNTED_FIELDS, MAX_COUNTED_NAME_CHARACTERS, MAX_COUNTED_VALUES, MAX_LEVELS } from "../storage-limits.ts";
import { formatTime, pageConditions, type TimeSpan } from "../page.ts";
import { matchingIn, type RecordFilter, recordConditions } from "./filter.ts";
import { GROUP_NS, MINUTE_NS, minuteOf, splitByMinute, usesOnlyGroupColumns } from "./minute-counts.ts";

export interface RangeFilter extends RecordFilter {
  readonly range: TimeSpan;
}

/** The name under which all further levels are counted. */
const OTHER_LEVELS = "other";
/**
 * A client computes the start of its range before the backend computes the end, so "the last hour" is slightly longer than an hour. This
 * much does not make every interval a minute longer; the last interval includes it.
 */
const SLACK_NS = 1_000_000_000n;
/** Fields come from this many of the newest records. */
export const SAMPLED_RECORDS = 20_000;

const FIELDS = sql`[('level', toString(level)), ('source', toString(source)), ('host_id', toString(host_id)), ('node', toString(node)),
  ('scope', toString(scope_name))]`;

/**
 * `[{start, end, counts: {<level>: n}}]`: about `buckets` intervals, including those without records. Intervals of a minute or longer are
 * whole minutes, so that only the first and the last one need records and all others are counted from minutes; the first and the last one
 * may then be shorter, and there may be one more or, because lengths are rounded up, fewer.
 */
export async function histogram(ask: Ask, orgId: string, filter: RangeFilter, buckets: number): Promise<Buffer> {
  const { start, end } = filter.range;
  if (end < start) return Buffer.from("[]");
  const length = end > start ? end - start : 1n;
  const isOfMinutes = buckets > 1 && divideUp(length, BigInt(buckets)) >= MINUTE_NS;
  const [unit, origin, slack] = isOfMinutes ? [MINUTE_NS, minuteOf(start), SLACK_NS] : [1n, start, 0n];
  const width = divideUp(length - slack, BigInt(buckets) * unit) * unit;
  const intervalCount = Number(divideUp(start + length - slack - origin, width));
  const counts = Array.from({ length: intervalCount }, (): Record<string, number> => ({}));
  // The end of the range is inclusive, so it is counted in the last interval.
  const countsAt = (ns: Sql, condition: Sql): Sql => {
    const bucket = sql`least(intDiv(${ns} - toInt64(${origin}), toInt64(${width})), ${intervalCount - 1})`;
    return sql`SELECT level, ${bucket} AS bucket, count() AS n FROM ${from} WHERE ${condition} GROUP BY level, bucket`;
  };
  const { from, blockRows } = matchingIn(filter);
  const borders = counts.map((_, index) => origin + width * BigInt(index));
  const split = usesOnlyGroupColumns(filter) ? splitByMinute(filter.range, borders) : undefined;
  const selected = and([sql`org_id = ${orgId}`, ...recordConditions(filter)]);
  const countRows = (condition: Sql): Sql => countsAt(sql`toUnixTimestamp64Nano(time)`, condition);
  const parts = split
    ? [countsAt(GROUP_NS, and([selected, split.groups])), ...(split.rows ? [countRows(and([selected, split.rows]))] : [])]
    : [countRows(where(orgId, filter))];
  // The engine ranks levels over the whole range, so that every interval lists the same levels by name.
  const lines = await ask(
    sql`SELECT cell.1 AS bucket, if(place > ${MAX_LEVELS}, ${OTHER_LEVELS}, ${truncate(sql`level`)}) AS name, toFloat64(sum(cell.2)) AS n FROM (
      SELECT level, groupArray((bucket, n)) AS cells, row_number() OVER (ORDER BY sum(n) DESC, level) AS place FROM (
        ${unionAll(parts)}
      ) GROUP BY level
    ) ARRAY JOIN cells AS cell GROUP BY bucket, name ORDER BY bucket, n DESC, name`,
    undefined,
    blockRows,
  );
  for (const { bucket: index, name, n } of parseLines<{ bucket: string; name: string; n: number }>(lines)) {
    const levels = counts[Number(index)];
    if (levels) Object.defineProperty(levels, name, { value: n, enumerable: true });
  }
  const intervals = counts.map((levels, index) => ({
    start: formatTime(index === 0 ? start : (borders[index] ?? end)),
    end: formatTime(borders[index + 1] ?? end),
    counts: levels,
  }));
  return Buffer.from(JSON.stringify(intervals));
}

/**
 * `[{name, records, values: [{value, count}]}]` of the newest records; `records` of them have the field. Names are those that filters
 * accept; the most frequent values come first.
 */
export async function fields(ask: Ask, orgId: string, filter: RangeFilter): Promise<Buffer> {
  const { from, blockRows } = matchingIn(filter);
  const lines = await ask(
    sql`SELECT name, toUInt32(any(having)) AS records, arrayMap(found -> CAST((found.1, found.2), 'Tuple(value String, count UInt32)'),
        arraySort(found -> (-toInt64(found.2), found.1), groupArray((value, n)))) AS values FROM (
      SELECT pair.1 AS name, ${truncate(sql`pair.2`)} AS value, count() AS n, sum(n) OVER (PARTITION BY name) AS having FROM (
        SELECT arrayJoin(arrayConcat(${FIELDS},
          arrayMap((key, value) -> (concat('label.', toString(key)), value), mapKeys(labels), mapValues(labels)))) AS pair FROM (
          SELECT level, source, host_id, node, scope_name, labels FROM ${from} WHERE ${where(orgId, filter)}
          ORDER BY time DESC, id DESC LIMIT ${SAMPLED_RECORDS}
        )
      ) WHERE lengthUTF8(name) <= ${MAX_COUNTED_NAME_CHARACTERS} GROUP BY name, value ORDER BY n DESC, value LIMIT ${MAX_COUNTED_VALUES} BY name
    ) GROUP BY name ORDER BY startsWith(name, 'label.'), records DESC, name LIMIT ${MAX_COUNTED_FIELDS}`,
    undefined,
    blockRows,
  );
  return Buffer.from(`[${lines.toString("utf8").trimEnd().replaceAll("\n", ",")}]`);
}

function where(orgId: string, filter: RangeFilter): Sql {
  return and([sql`org_id = ${orgId}`, ...pageConditions({ range: filter.range }), ...recordConditions(filter)]);
}

function divideUp(dividend: bigint, divisor: bigint): bigint {
  return (dividend + divisor - 1n) / divisor;
}

function truncate(text: Sql): Sql {
  return sql`substringUTF8(${text}, 1, ${MAX_COUNTED_NAME_CHARACTERS})`;
}

// Counts log records from the projection `counts` (005-words-and-counts.sql), which has one row per minute and group. The engine uses the
// projection only for statements with exactly these expressions, and reads the rows of parts without it; so this decides speed, never the
// result. Invariant: a minute that a border of the query cuts is counted from its rows.
import { and, type Sql, sql } from "../../engines/clickhouse/sql.ts";
import { MAX_CUT_MINUTES } from "../storage-limits.ts";
import { nanoseconds, pageConditions, type TimeSpan } from "../page.ts";
import type { RecordFilter } from "./filter.ts";

export const MINUTE_NS = 60_000_000_000n;
const MINUTE = sql`toStartOfInterval(time, toIntervalMillisecond(60000))`;

/** A time that stands for all records of a group: the first nanosecond of its minute, or the second if they are later than the first. */
export const GROUP_NS = sql`(toUnixTimestamp64Nano(${MINUTE}) + if(${MINUTE} = time, 0, 1))`;
/** A group has at most this many keys; if it has exactly that many, the record may have more. */
export const MAX_GROUP_KEYS = 100;
export const GROUP_KEYS = sql`groupUniqArrayArray(100)(mapKeys(assumeNotNull(labels)))`;

/** Two disjoint conditions that together select all records of the range. */
export interface SplitRange {
  /** Selects the groups of whole minutes: GROUP_NS may be used as the time. */
  readonly groups: Sql;
  /** Selects the rows of cut minutes; undefined if no minute is cut. */
  readonly rows: Sql | undefined;
}

/**
 * Splits the range. `borders` are times at which the query separates earlier records from later ones; the ends of the range are borders
 * too. Undefined if so many minutes are cut that the projection does not pay.
 */
export function splitByMinute(range: TimeSpan, borders: Iterable<bigint>): SplitRange | undefined {
  const [first, last] = [minuteOf(range.start), minuteOf(range.end)];
  const minutes = (last - first) / MINUTE_NS + 1n;
  const maxCut = Math.min(MAX_CUT_MINUTES, Number(minutes) / 2);
  const cut = new Set<bigint>();
  for (const border of [range.start, range.end + 1n, ...borders]) {
    if (border >= range.start && border <= range.end + 1n && border - minuteOf(border) > 1n) cut.add(minuteOf(border));
    if (cut.size > maxCut) return undefined;
  }
  const inside = and([
    sql`${MINUTE} >= ${nanoseconds(first)}`,
    sql`${MINUTE} <= ${nanoseconds(last)}`,
    sql`${GROUP_NS} >= ${range.start}`,
    sql`${GROUP_NS} <= ${range.end}`,
  ]);
  if (cut.size === 0) return { groups: inside, rows: undefined };
  const cutMinutes = [...cut].map((minute) => new Date(Number(minute / 1_000_000n)).toISOString().slice(0, 19).replace("T", " "));
  return {
    groups: and([inside, sql`${MINUTE} NOT IN ${cutMinutes}`]),
    rows: and([sql`time >= ${nanoseconds(range.start)}`, sql`time <= ${nanoseconds(range.end)}`, sql`${MINUTE} IN ${cutMinutes}`]),
  };
}

/** Disjoint conditions that together select the records of the range: whole minutes and cut minutes, if counts by minute have all that is asked for. */
export function rangeParts(range: TimeSpan, isCountedByMinute: boolean): Sql[] {
  const split = isCountedByMinute ? splitByMinute(range, []) : undefined;
  if (!split) return [and(pageConditions({ range }))];
  return split.rows ? [split.groups, split.rows] : [split.groups];
}

/** Conditions on the groups of all minutes that the range touches. */
export function minutesAround(range: TimeSpan): Sql {
  return and([sql`${MINUTE} >= ${nanoseconds(minuteOf(range.start))}`, sql`${MINUTE} <= ${nanoseconds(minuteOf(range.end))}`]);
}

/** Whether the filter uses only the time and columns of groups. */
export function usesOnlyGroupColumns(filter: RecordFilter & { readonly range?: unknown }): boolean {
  const { source: _source, level: _level, hostId: _hostId, range: _range, also, ...others } = filter;
  return (
    useOnlyGroupColumns(also?.conditions ?? []) &&
    Object.values(others).every((value) => value === undefined || (Array.isArray(value) && value.filter(Boolean).length === 0))
  );
}

const COLUMNS_OF_ROWS =
  /\b(?:node|received_at|body_hash|time|id|severity_number|message|labels|trace_id|span_id|scope_name|attribute_\w+)\b/;
const LITERAL = /'(?:\\.|[^'\\])*'/gs;

/** The same for expressions. A false negative only costs speed: then rows are read. */
export function useOnlyGroupColumns(expressions: readonly Sql[]): boolean {
  return expressions.every(({ text }) => !COLUMNS_OF_ROWS.test(text.replaceAll(LITERAL, "")));
}

/**
 * Whether the newest minute of a range may fill a page: the conditions use columns of groups, or are texts and patterns that the index of
 * words cannot find, for which the engine otherwise searches all records of the range.
 */
export function mayBeDense(conditions: readonly Sql[]): boolean {
  return conditions.every(({ text }) => {
    const code = text.replaceAll(LITERAL, "");
    return !code.includes("hasToken(") && !COLUMNS_OF_ROWS.test(code.replaceAll(/\bmessage\b/g, ""));
  });
}

/** The start of the minute that contains `time`, in nanoseconds since 1970. */
export function minuteOf(time: bigint): bigint {
  return time - (((time % MINUTE_NS) + MINUTE_NS) % MINUTE_NS);
}

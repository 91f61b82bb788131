// Searches traces of an organisation: those with a span that matches, one row each, newest first unless another order is chosen.
// Invariants: pages are cut by the rank of the order, so no trace is returned twice or skipped; only spans within the range are read.
import type { Ask } from "../../engines/clickhouse/clickhouse-client.ts";
import { and, commaList, Sql, sql } from "../../engines/clickhouse/sql.ts";
import { arrayOfLines, parseLines } from "../found-page.ts";
import { MAX_LISTED_SERVICES, MAX_SEARCH_PAGE_BYTES } from "../storage-limits.ts";
import { type Cursor, type PageResult, nanoseconds, type Page, pageConditions } from "../page.ts";
import { ApiError } from "../../errors.ts";

/** Unset fields do not filter. */
export interface TraceFilter extends Page {
  /** One span of the trace matches all of this. */
  readonly span: SpanConditions;
  /** Minimum duration of the part of the trace within the range. */
  readonly minDurationNs?: bigint;
  readonly maxDurationNs?: bigint;
  /** Unset: by time. A cursor is valid for one order only. */
  readonly order?: TraceOrder | undefined;
}

export const TRACE_ORDERS = ["time", "duration", "errors", "spans"] as const;
export type TraceOrder = (typeof TRACE_ORDERS)[number];

export interface SpanConditions {
  readonly service?: string;
  readonly operation?: string;
  readonly error?: boolean;
  /** Values that columns of the span must have. */
  readonly columns?: readonly (readonly [column: SpanColumn, value: string])[];
  readonly minDurationNs?: bigint;
  readonly maxDurationNs?: bigint;
  /** Each key has the given value. */
  readonly attributes: readonly (readonly [key: string, value: string])[];
  readonly comparisons?: readonly Comparison[];
}

export type SpanColumn = "kind" | "status_code" | "status_message" | "scope_name" | "scope_version" | "trace_state";

/** The position of a trace in the order, and its id. */
export interface TracePosition {
  /** The value by which traces are ordered. */
  readonly rank: string;
  readonly start_ns: string;
  readonly tie: string;
  readonly trace_id: string;
}

/** Spans of a trace are looked for this long before and after its page. */
const DAY_NS = 86_400_000_000_000n;

/** A page of traces as JSON, newest first. Throws as `ask` does. */
export async function searchTraces(ask: Ask, orgId: string, filter: TraceFilter): Promise<PageResult> {
  const { positions, next } = await findTraces(ask, orgId, filter);
  if (positions.length === 0) return { json: Buffer.from("[]"), next: undefined, isEmpty: true };
  return { json: arrayOfLines(await ask(summaries(orgId, positions), MAX_SEARCH_PAGE_BYTES)), next };
}

/** The same traces as an array of Jaeger's TraceSummary. Throws as `ask` does. */
export async function jaegerSummaries(ask: Ask, orgId: string, filter: TraceFilter): Promise<Buffer> {
  const { positions } = await findTraces(ask, orgId, filter);
  if (positions.length === 0) return Buffer.from("[]");
  return arrayOfLines(await ask(jaegerSummariesOf(orgId, positions), MAX_SEARCH_PAGE_BYTES));
}

/** The traces of a page, newest first. */
export async function findTraces(
  ask: Ask,
  orgId: string,
  filter: TraceFilter,
): Promise<{ positions: readonly TracePosition[]; next: Cursor | undefined }> {
  const found = parseLines<TracePosition>(await ask(selectPositions(orgId, filter)));
  const positions = found.slice(0, filter.limit);
  const last = positions.at(-1);
  if (found.length <= filter.limit || !last) return { positions, next: undefined };
  return { positions, next: { time: BigInt(last.rank), id: BigInt(last.tie) } };
}

/** Conditions on the columns `org_id`, `time` and `trace_id` that select the spans of the given traces. */
export function spansOf(orgId: string, positions: readonly TracePosition[]): Sql {
  const starts = positions.map(({ start_ns }) => BigInt(start_ns)).toSorted((a, b) => (a < b ? -1 : 1));
  const [first = 0n, last = 0n] = [starts[0], starts.at(-1)];
  const range = { start: first > DAY_NS ? first - DAY_NS : 0n, end: last + DAY_NS };
  return and([
    sql`org_id = ${orgId}`,
    ...pageConditions({ range }),
    sql`trace_id IN (${commaList(positions.map(({ trace_id }) => trace_id))})`,
  ]);
}

function selectPositions(orgId: string, { span, minDurationNs, maxDurationNs, range, after, limit, order = "time" }: TraceFilter): Sql {
  const inRange = [sql`org_id = ${orgId}`, ...pageConditions({ range })];
  const where = [...inRange];
  const matching = spanConditions(span);
  if (matching.length > 0) where.push(sql`trace_id IN (SELECT trace_id FROM spans WHERE ${and([...inRange, ...matching])})`);
  const having: Sql[] = [sql`trace_id != ''`];
  if (minDurationNs !== undefined) having.push(sql`${DURATION_NS} >= ${minDurationNs}`);
  if (maxDurationNs !== undefined) having.push(sql`${DURATION_NS} <= ${maxDurationNs}`);
  if (after) {
    having.push(sql`rank < ${after.time} OR (rank = ${after.time} AND tie < ${after.id})`);
    // Traces that start later were on an earlier page. Later spans are needed only for the duration of a trace.
    if (order === "time" && having.length === 2) where.push(sql`time <= ${nanoseconds(after.time)}`);
  }
  return sql`SELECT toInt64(${RANKS[order]}) AS rank, min(toUnixTimestamp64Nano(time)) AS start_ns, cityHash64(trace_id) AS tie, trace_id FROM spans
    WHERE ${and(where)} GROUP BY trace_id HAVING ${and(having)} ORDER BY rank DESC, tie DESC LIMIT ${limit + 1}`;
}

/** The end of a trace. Impossible durations are cut, so that no sum exceeds 64 bits. */
const END_NS = sql`max(toUnixTimestamp64Nano(time) + toInt64(least(duration_ns, 4000000000000000000)))`;
const DURATION_NS = sql`${END_NS} - min(toUnixTimestamp64Nano(time))`;

const RANKS: Readonly<Record<TraceOrder, Sql>> = {
  time: sql`min(toUnixTimestamp64Nano(time))`,
  duration: DURATION_NS,
  errors: sql`countIf(status_code = 'ERROR')`,
  spans: sql`count()`,
};

export function spanConditions({
  service,
  operation,
  error,
  columns = [],
  minDurationNs,
  maxDurationNs,
  attributes,
  comparisons = [],
}: SpanConditions): Sql[] {
  const conditions: Sql[] = [];
  if (service !== undefined) conditions.push(sql`service = ${service}`);
  if (operation !== undefined) conditions.push(sql`operation = ${operation}`);
  if (error !== undefined) conditions.push(error ? sql`status_code = 'ERROR'` : sql`status_code != 'ERROR'`);
  for (const [column, value] of columns) conditions.push(sql`${new Sql(column)} = ${value}`);
  if (minDurationNs !== undefined) conditions.push(sql`duration_ns >= ${minDurationNs}`);
  if (maxDurationNs !== undefined) conditions.push(sql`duration_ns <= ${maxDurationNs}`);
  for (const [key, value] of attributes) conditions.push(sql`mapContains(attributes, ${key}) AND attributes[${key}] = ${value}`);
  conditions.push(...comparisons.map(comparisonCondition));
  return conditions;
}

/** If a trace has no root span, its earliest span takes that role. */
function summaries(orgId: string, positions: readonly TracePosition[]): Sql {
  return sql`SELECT trace_id, root.1 AS root_service, root.2 AS root_operation, start, duration_ms, spans, errors, services FROM
    (SELECT trace_id, argMin((toString(service), operation), (parent_span_id != '', spans.time, id)) AS root, min(spans.time) AS start,
      (${DURATION_NS}) / 1e6 AS duration_ms, toUInt32(count()) AS spans, toUInt32(countIf(status_code = 'ERROR')) AS errors,
      arraySort(groupUniqArray(${MAX_LISTED_SERVICES})(toString(service))) AS services
    FROM spans WHERE ${spansOf(orgId, positions)} GROUP BY trace_id)
    ORDER BY indexOf(${positions.map(({ trace_id }) => trace_id)}, trace_id)`;
}

function jaegerSummariesOf(orgId: string, positions: readonly TracePosition[]): Sql {
  const where = spansOf(orgId, positions);
  const isOrphan = sql`parent_span_id != '' AND (trace_id, parent_span_id) NOT IN (SELECT trace_id, span_id FROM spans WHERE ${where})`;
  const services = sql`arrayMap(name -> (name, calls[name], failed[name]), arraySlice(arraySort(mapKeys(calls)), 1, ${MAX_LISTED_SERVICES}))`;
  return sql`SELECT trace_id AS traceId, root.1 AS rootServiceName, root.2 AS rootOperationName, toString(start) AS minStartTimeUnixNano,
      toString(end) AS maxEndTimeUnixNano, spanCount, errorSpanCount, orphanSpanCount,
      CAST(${services}, 'Array(Tuple(name String, spanCount UInt32, errorSpanCount UInt32))') AS services FROM
    (SELECT trace_id, argMin((toString(service), operation), (parent_span_id != '', spans.time, id)) AS root,
      min(toUnixTimestamp64Nano(spans.time)) AS start, ${END_NS} AS end, toUInt32(count()) AS spanCount,
      toUInt32(countIf(status_code = 'ERROR')) AS errorSpanCount, toUInt32(countIf(${isOrphan})) AS orphanSpanCount,
      sumMap(map(toString(service), toUInt32(1))) AS calls, sumMap(map(toString(service), toUInt32(status_code = 'ERROR'))) AS failed
    FROM spans WHERE ${where} GROUP BY trace_id)
    ORDER BY indexOf(${positions.map(({ trace_id }) => trace_id)}, trace_id)`;
}

// Parses comparisons with attributes of a span: `http.response.status_code>=500`, `http.route=/pay`, `!enduser.id`, `"user name"=Ada`.
// Invariant: a comparison that cannot be parsed is rejected with an example, never interpreted as another one.

const OPERATORS = ["=", "!=", ">=", "<=", ">", "<", "exists", "!exists"] as const;

interface Comparison {
  readonly key: string;
  readonly operator: (typeof OPERATORS)[number];
  /** "" for a test of existence. */
  readonly value: string;
}

const COMPARISON = /^(!?)(?:"((?:[^"\\]|\\.)*)"|([^\s!<>="][^\s!<>=]*))(?:(!=|>=|<=|=|>|<)(.*))?$/s;
const NUMBER = /^-?(?:\d+(?:\.\d*)?|\.\d+)(?:e[+-]?\d{1,3})?$/i;
/** Comparisons in one query. */
const MAX_COMPARISONS = 20;

/** Throws ApiError invalid_parameter that names `parameter`. */
export function readComparisons(parameter: string, texts: readonly string[]): Comparison[] {
  const refused = (message: string): ApiError => new ApiError("invalid_parameter", `${parameter}: ${message}`);
  if (texts.length > MAX_COMPARISONS) throw refused(`at most ${MAX_COMPARISONS} comparisons`);
  return texts.map((text) => {
    const [, not, quoted, plain, operator, value = ""] = COMPARISON.exec(text) ?? [];
    const key = quoted?.replaceAll(/\\(["\\])/g, "$1") ?? plain;
    if (key === undefined || (not === "!" && operator !== undefined))
      throw refused('write key=value, key!=value, key>=500, key (is there) or !key (is not there); other keys in quotes: "a key"=value');
    if (operator === undefined) return { key, operator: not === "!" ? "!exists" : "exists", value };
    if (/[<>]/.test(operator) && !NUMBER.test(value)) throw refused(`${key}${operator} needs a number, such as ${key}${operator}500`);
    return { key, operator: operator as Comparison["operator"], value };
  });
}

/** Numbers are compared as numbers; `!=` also keeps spans without the attribute. */
function comparisonCondition({ key, operator, value }: Comparison): Sql {
  const has = sql`mapContains(attributes, ${key})`;
  const number = sql`toFloat64OrNull(attributes[${key}])`;
  const bound = sql`toFloat64(${value})`;
  const conditions: Readonly<Record<Comparison["operator"], Sql>> = {
    exists: has,
    "!exists": sql`NOT ${has}`,
    "=": sql`${has} AND attributes[${key}] = ${value}`,
    "!=": sql`NOT (${has} AND attributes[${key}] = ${value})`,
    ">=": sql`ifNull(${number} >= ${bound}, 0)`,
    "<=": sql`ifNull(${number} <= ${bound}, 0)`,
    ">": sql`ifNull(${number} > ${bound}, 0)`,
    "<": sql`ifNull(${number} < ${bound}, 0)`,
  };
  return conditions[operator];
}

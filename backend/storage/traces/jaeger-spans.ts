// Reads spans as JSON of Jaeger's API, which Grafana's Jaeger data source and Jaeger's own UI use; the engine writes the JSON. Invariant: a
// returned trace has at least one span, and a trace that is incomplete has a warning.
import type { Ask } from "../../engines/clickhouse/clickhouse-client.ts";
import { sql, type Sql } from "../../engines/clickhouse/sql.ts";
import { TooLargeError } from "../../errors.ts";
import { readPageRows, parseLines } from "../found-page.ts";
import { MAX_JAEGER_PAGE_BYTES, MAX_SERVICES_PER_TRACE, MAX_SUMMARY_BYTES } from "../storage-limits.ts";
import { findTraces, type TracePosition, spansOf, type TraceFilter } from "./search.ts";
import { EVENTS, IS_INTEGER, LINKS, PAIRS, wholeTrace } from "./span-fields.ts";

const TEXT_TAG = "Tuple(key String, type String, value String)";
/** An intermediate type: if the choice were only text or boolean, the engine would turn "true" into a boolean. */
const ONLY_TEXT_TAG = "Tuple(key String, type String, value Variant(String))";
const TAG = "Tuple(key String, type String, value Variant(Bool, Float64, String))";
const ONLY_NUMBER_TAG = "Tuple(key String, type String, value Variant(Float64))";

/** `condition ? [(key, 'string', value)] : []` */
const tagOf = (key: string, value: Sql, condition: Sql): Sql => sql`if(${condition}, [(${key}, 'string', ${value})], [])`;

const INTEGER_TAGS = sql`arrayMap(pair -> (pair.1, 'int64', toFloat64OrZero(pair.2)), arrayFilter(pair -> ${IS_INTEGER}, ${PAIRS}))`;

/** The tags of a span, as Jaeger's collector converts them from OTLP. */
const TAGS = sql`arrayConcat(
  arrayMap(pair -> (pair.1, 'string', pair.2), arrayFilter(pair -> NOT ${IS_INTEGER}, ${PAIRS})),
  ${tagOf("span.kind", sql`lower(kind)`, sql`kind NOT IN ('', 'UNSPECIFIED')`)},
  ${tagOf("otel.status_code", sql`toString(status_code)`, sql`status_code NOT IN ('', 'UNSET')`)},
  ${tagOf("otel.status_description", sql`status_message`, sql`status_message != ''`)},
  ${tagOf("otel.scope.name", sql`toString(scope_name)`, sql`scope_name != ''`)},
  ${tagOf("otel.scope.version", sql`toString(scope_version)`, sql`scope_version != ''`)},
  ${tagOf("w3c.tracestate", sql`trace_state`, sql`trace_state != ''`)})`;

/** Microseconds as a double, because the engine quotes 64-bit integers. */
const microseconds = (nanoseconds: Sql): Sql => sql`toFloat64(intDiv(${nanoseconds}, 1000))`;

const LOGS = sql`arrayMap(event -> (${microseconds(sql`toUnixTimestamp64Nano(event.1)`)},
  arrayConcat(if(event.2 = '', [], [('event', 'string', event.2)]),
    arrayMap((key, value) -> (key, 'string', value), mapKeys(event.3), mapValues(event.3)))), ${EVENTS})`;

const REFERENCES = sql`arrayConcat(if(parent_span_id = '', [], [('CHILD_OF', trace_id, parent_span_id)]),
  arrayMap(link -> ('FOLLOWS_FROM', link.1, link.2), ${LINKS}))`;

const JAEGER_FIELDS = sql`trace_id AS traceID, span_id AS spanID, toUInt8(1) AS flags, operation AS operationName,
  CAST(${REFERENCES}, 'Array(Tuple(refType String, traceID String, spanID String))') AS \`references\`,
  ${microseconds(sql`toUnixTimestamp64Nano(time)`)} AS startTime, ${microseconds(sql`duration_ns`)} AS duration,
  arrayConcat(CAST(CAST(${TAGS}, ${`Array(${ONLY_TEXT_TAG})`}), ${`Array(${TAG})`}),
    CAST(CAST(${INTEGER_TAGS}, ${`Array(${ONLY_NUMBER_TAG})`}), ${`Array(${TAG})`}),
    if(status_code = 'ERROR', [CAST(('error', 'bool', true), ${TAG})], CAST([], ${`Array(${TAG})`}))) AS tags,
  CAST(${LOGS}, ${`Array(Tuple(timestamp Float64, fields Array(${TEXT_TAG})))`}) AS logs,
  toString(service) AS processID, CAST(NULL, 'Nullable(String)') AS warnings`;

// The OTLP JSON of Jaeger's third API; the engine writes it, with each span as one element of `resourceSpans`. Invariant: an element begins
// with FIRST_FIELDS in this order, because the trace id and the position of a warning are found by them.

const TEXT_ATTRIBUTES = "Array(Tuple(key String, value Tuple(stringValue String)))";
const INTEGER_ATTRIBUTES = "Array(Tuple(key String, value Tuple(intValue Int64)))";
const ATTRIBUTES = "Array(Tuple(key String, value Variant(Tuple(intValue Int64), Tuple(stringValue String))))";
const FIRST_FIELDS = `traceId String, attributes ${ATTRIBUTES}`;
const SPAN = `Tuple(${FIRST_FIELDS}, spanId String, parentSpanId String, traceState String, name String, kind UInt8,
  startTimeUnixNano String, endTimeUnixNano String, status Tuple(code UInt8, message String),
  events Array(Tuple(timeUnixNano String, name String, attributes ${TEXT_ATTRIBUTES})),
  links Array(Tuple(traceId String, spanId String, traceState String, attributes ${TEXT_ATTRIBUTES})))`;

/** [(key, (value))] of the pairs for which `condition` is true. The engine quotes 64-bit integers, as OTLP requires. */
const attributesOf = (value: Sql, condition: Sql): Sql =>
  sql`arrayMap(pair -> (pair.1, tuple(${value})), arrayFilter(pair -> ${condition}, ${PAIRS}))`;
const mapAttributes = (map: Sql): Sql =>
  sql`CAST(arrayMap((key, value) -> (key, tuple(value)), mapKeys(${map}), mapValues(${map})), ${TEXT_ATTRIBUTES})`;

const SPAN_ATTRIBUTES = sql`arrayConcat(CAST(CAST(${attributesOf(sql`pair.2`, sql`NOT ${IS_INTEGER}`)}, ${TEXT_ATTRIBUTES}), ${ATTRIBUTES}),
  CAST(CAST(${attributesOf(sql`toInt64OrZero(pair.2)`, IS_INTEGER)}, ${INTEGER_ATTRIBUTES}), ${ATTRIBUTES}))`;

/** OTLP's numbers; 0 for every other text. */
const KIND = sql`toUInt8(indexOf(['INTERNAL', 'SERVER', 'CLIENT', 'PRODUCER', 'CONSUMER'], toString(kind)))`;
const STATUS_CODE = sql`toUInt8(indexOf(['OK', 'ERROR'], toString(status_code)))`;

const START_NS = sql`toUnixTimestamp64Nano(time)`;
const OTLP_EVENTS = sql`arrayMap(event -> (toString(toUnixTimestamp64Nano(event.1)), event.2, ${mapAttributes(sql`event.3`)}), ${EVENTS})`;
const OTLP_LINKS = sql`arrayMap(link -> (link.1, link.2, link.3, ${mapAttributes(sql`link.4`)}), ${LINKS})`;

/** Columns of one element of `resourceSpans`. */
const OTLP_FIELDS = sql`
  CAST([([(trace_id, ${SPAN_ATTRIBUTES}, span_id, parent_span_id, trace_state, operation, ${KIND}, toString(${START_NS}),
      toString(toUInt64(${START_NS}) + duration_ns), (${STATUS_CODE}, status_message), ${OTLP_EVENTS}, ${OTLP_LINKS})],
    (toString(scope_name), toString(scope_version)))],
    ${`Array(Tuple(spans Array(${SPAN}), scope Tuple(name String, version String)))`}) AS scopeSpans,
  CAST(tuple([('service.name', tuple(toString(service)))]), ${`Tuple(attributes ${TEXT_ATTRIBUTES})`}) AS resource`;

/** The attribute in which Jaeger's UI looks for warnings of a span. */
const WARNINGS_ATTRIBUTE = "@jaeger@warnings";
const BEFORE_ATTRIBUTES = Buffer.from('"attributes":[');
const ARRAY_END = 0x5d;

/** Adds warnings to the first of `spans`. */
function withWarning(spans: Buffer, warnings: readonly string[]): Buffer[] {
  const at = spans.indexOf(BEFORE_ATTRIBUTES) + BEFORE_ATTRIBUTES.length;
  const values = warnings.map((stringValue) => ({ stringValue }));
  const attribute = JSON.stringify({ key: WARNINGS_ATTRIBUTE, value: { arrayValue: { values } } });
  return [spans.subarray(0, at), Buffer.from(spans[at] === ARRAY_END ? attribute : `${attribute},`), spans.subarray(at)];
}

/** Spans per trace in a search result, which is only used to choose a trace. */
const SPANS_OF_FOUND = 100;

interface Summary {
  readonly trace_id: string;
  readonly spans: number;
  readonly services: readonly string[];
}

/** The elements of a response: traces of Jaeger's first API, or OTLP's `resourceSpans`. */
export type TraceForm = "jaeger" | "otlp";

const FIELDS: Readonly<Record<TraceForm, Sql>> = { jaeger: JAEGER_FIELDS, otlp: OTLP_FIELDS };

/** One trace (lowercase hex) as an array in chunks of JSON; undefined if it has no span. */
export async function jaegerTrace(ask: Ask, orgId: string, traceId: string, form: TraceForm): Promise<Buffer[] | undefined> {
  const [summary] = await summariesOf(ask, sql`org_id = ${orgId} AND trace_id = ${traceId}`);
  if (!summary) return undefined;
  const { json, next } = await readPageRows(ask, orgId, wholeTrace(traceId, undefined, FIELDS[form]));
  const trace = toTrace(form, summary, json.subarray(1, -1), next !== undefined);
  return [Buffer.from("["), ...trace, Buffer.from("]")];
}

/** The traces of a search, newest first, each with its first spans, as an array in chunks of JSON. */
export async function jaegerSearch(ask: Ask, orgId: string, filter: TraceFilter, form: TraceForm): Promise<Buffer[]> {
  const { positions } = await findTraces(ask, orgId, filter);
  if (positions.length === 0) return [Buffer.from("[]")];
  const summaries = await summariesOf(ask, spansOf(orgId, positions));
  const lines = await firstSpans(ask, orgId, positions, FIELDS[form]);
  const pieces: Buffer[] = [];
  for (const [traceId, { spans, count }] of byTrace(lines)) {
    const summary = summaries.find(({ trace_id }) => trace_id === traceId);
    if (!summary) continue;
    pieces.push(Buffer.from(pieces.length === 0 ? "[" : ","), ...toTrace(form, summary, spans, count < summary.spans));
  }
  return [...pieces, Buffer.from(pieces.length === 0 ? "[]" : "]")];
}

/** Builds one element. `spans` are separated by commas. */
function toTrace(form: TraceForm, summary: Summary, spans: Buffer, isCut: boolean): Buffer[] {
  const warnings = isCut
    ? [`this trace has ${summary.spans} spans, and not all of them are here: GET /query/traces/{trace_id} has them in pages`]
    : [];
  if (form === "otlp") return isCut ? withWarning(spans, warnings) : [spans];
  const head = Buffer.from(`{"traceID":"${summary.trace_id}","spans":[`);
  const processes = Object.fromEntries(summary.services.map((service) => [service, { serviceName: service, tags: [] }]));
  return [head, spans, Buffer.from(`],"processes":${JSON.stringify(processes)},"warnings":${isCut ? JSON.stringify(warnings) : null}}`)];
}

async function summariesOf(ask: Ask, where: Sql): Promise<Summary[]> {
  const lines = await ask(
    sql`SELECT trace_id, toUInt32(count()) AS spans, groupUniqArray(${MAX_SERVICES_PER_TRACE})(toString(service)) AS services FROM spans
        WHERE ${where} GROUP BY trace_id`,
    MAX_SUMMARY_BYTES,
  );
  return parseLines(lines);
}

/** The first spans of each trace; only one of each if they are too large together. */
async function firstSpans(ask: Ask, orgId: string, positions: readonly TracePosition[], fields: Sql): Promise<Buffer> {
  const where = spansOf(orgId, positions);
  const select = (count: number) => sql`SELECT ${fields} FROM spans
    WHERE ${where} AND (time, id) IN (SELECT time, id FROM spans WHERE ${where} ORDER BY time, id LIMIT ${count} BY trace_id)
    ORDER BY indexOf(${positions.map(({ trace_id }) => trace_id)}, trace_id), time, id`;
  try {
    return await ask(select(SPANS_OF_FOUND), MAX_JAEGER_PAGE_BYTES);
  } catch (error) {
    if (!(error instanceof TooLargeError)) throw error;
    return ask(select(1), MAX_JAEGER_PAGE_BYTES);
  }
}

/** The beginning of a span in either form. */
const TRACE_ID = /^\{(?:"scopeSpans":\[\{"spans":\[\{)?"trace(?:ID|Id)":"([0-9a-f]+)"/;
const PREFIX_BYTES = 96;
const [COMMA, LINE_END] = [0x2c, 0x0a];

/** Groups spans by trace, separated by commas; reuses the memory of `lines`. */
function byTrace(lines: Buffer): Map<string, { spans: Buffer; count: number }> {
  const found = new Map<string, { from: number; to: number; count: number }>();
  for (let from = 0; from < lines.length;) {
    const end = lines.indexOf(LINE_END, from);
    const to = end === -1 ? lines.length : end;
    const [, traceId] = TRACE_ID.exec(lines.toString("latin1", from, from + PREFIX_BYTES)) ?? [];
    if (traceId === undefined) throw new Error("the engine answered something other than spans");
    if (to < lines.length) lines[to] = COMMA;
    const trace = found.get(traceId) ?? { from, to, count: 0 };
    found.set(traceId, { ...trace, to, count: trace.count + 1 });
    from = to + 1;
  }
  return new Map([...found].map(([traceId, { from, to, count }]) => [traceId, { spans: lines.subarray(from, to), count }]));
}

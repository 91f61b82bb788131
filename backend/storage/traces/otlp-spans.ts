// Spans as the OTLP JSON that Jaeger's third API returns, written by the engine: each span is one element of `resourceSpans`. Invariant: the
// first fields of an element are those of FIRST_FIELDS in this order, because the trace's id and the place of a warning are found by them.
import { sql, type Sql } from "../../engines/clickhouse/sql.ts";
import { EVENTS, IS_INTEGER, LINKS, PAIRS } from "./span-fields.ts";

const TEXT_ATTRIBUTES = "Array(Tuple(key String, value Tuple(stringValue String)))";
const INTEGER_ATTRIBUTES = "Array(Tuple(key String, value Tuple(intValue Int64)))";
const ATTRIBUTES = "Array(Tuple(key String, value Variant(Tuple(intValue Int64), Tuple(stringValue String))))";
const FIRST_FIELDS = `traceId String, attributes ${ATTRIBUTES}`;
const SPAN = `Tuple(${FIRST_FIELDS}, spanId String, parentSpanId String, traceState String, name String, kind UInt8,
  startTimeUnixNano String, endTimeUnixNano String, status Tuple(code UInt8, message String),
  events Array(Tuple(timeUnixNano String, name String, attributes ${TEXT_ATTRIBUTES})),
  links Array(Tuple(traceId String, spanId String, traceState String, attributes ${TEXT_ATTRIBUTES})))`;

/** [(key, (value))] of the pairs for which `condition` is true. The engine quotes integers of 64 bits, as OTLP does. */
const attributesOf = (value: Sql, condition: Sql): Sql =>
  sql`arrayMap(pair -> (pair.1, tuple(${value})), arrayFilter(pair -> ${condition}, ${PAIRS}))`;
const mapAttributes = (map: Sql): Sql =>
  sql`CAST(arrayMap((key, value) -> (key, tuple(value)), mapKeys(${map}), mapValues(${map})), ${TEXT_ATTRIBUTES})`;

const SPAN_ATTRIBUTES = sql`arrayConcat(CAST(CAST(${attributesOf(sql`pair.2`, sql`NOT ${IS_INTEGER}`)}, ${TEXT_ATTRIBUTES}), ${ATTRIBUTES}),
  CAST(CAST(${attributesOf(sql`toInt64OrZero(pair.2)`, IS_INTEGER)}, ${INTEGER_ATTRIBUTES}), ${ATTRIBUTES}))`;

/** OTLP's numbers, 0 for every other text. */
const KIND = sql`toUInt8(indexOf(['INTERNAL', 'SERVER', 'CLIENT', 'PRODUCER', 'CONSUMER'], toString(kind)))`;
const STATUS_CODE = sql`toUInt8(indexOf(['OK', 'ERROR'], toString(status_code)))`;

const START_NS = sql`toUnixTimestamp64Nano(time)`;
const OTLP_EVENTS = sql`arrayMap(event -> (toString(toUnixTimestamp64Nano(event.1)), event.2, ${mapAttributes(sql`event.3`)}), ${EVENTS})`;
const OTLP_LINKS = sql`arrayMap(link -> (link.1, link.2, link.3, ${mapAttributes(sql`link.4`)}), ${LINKS})`;

/** Columns of one element of `resourceSpans`. */
export const OTLP_FIELDS = sql`
  CAST([([(trace_id, ${SPAN_ATTRIBUTES}, span_id, parent_span_id, trace_state, operation, ${KIND}, toString(${START_NS}),
      toString(toUInt64(${START_NS}) + duration_ns), (${STATUS_CODE}, status_message), ${OTLP_EVENTS}, ${OTLP_LINKS})],
    (toString(scope_name), toString(scope_version)))],
    ${`Array(Tuple(spans Array(${SPAN}), scope Tuple(name String, version String)))`}) AS scopeSpans,
  CAST(tuple([('service.name', tuple(toString(service)))]), ${`Tuple(attributes ${TEXT_ATTRIBUTES})`}) AS resource`;

/** Where Jaeger's page looks for the warnings of a span. */
const WARNINGS_ATTRIBUTE = "@jaeger@warnings";
const BEFORE_ATTRIBUTES = Buffer.from('"attributes":[');
const ARRAY_END = 0x5d;

/** `spans` with warnings on the first of them. */
export function withWarning(spans: Buffer, warnings: readonly string[]): Buffer[] {
  const at = spans.indexOf(BEFORE_ATTRIBUTES) + BEFORE_ATTRIBUTES.length;
  const values = warnings.map((stringValue) => ({ stringValue }));
  const attribute = JSON.stringify({ key: WARNINGS_ATTRIBUTE, value: { arrayValue: { values } } });
  return [spans.subarray(0, at), Buffer.from(spans[at] === ARRAY_END ? attribute : `${attribute},`), spans.subarray(at)];
}

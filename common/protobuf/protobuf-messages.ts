// Lists the fields of OTLP's protobuf messages: field numbers of opentelemetry-proto 1.8, with the names of the JSON form. Invariant: a
// field that is missing here is skipped, as the JSON decoders ignore it: schema URLs, descriptions and maxima.

export type ScalarKind =
  | "string"
  /** A string that need not be UTF-8: then it becomes an object with `base64`. */
  | "line"
  /** Bytes as hex. */
  | "id"
  /** Bytes as base64. */
  | "bytes"
  | "bool"
  | "double"
  | "fixed32"
  | "fixed64"
  | "sfixed64"
  | "int32"
  | "uint32"
  | "int64"
  | "uint64"
  | "sint32"
  /** Exact up to 2^53; only decodeMessage reads it. */
  | "sint64";

export interface Field {
  readonly name: string;
  /** The name in JSON, with quotes and colon. */
  readonly json: Uint8Array;
  readonly kind: ScalarKind | "message";
  readonly isRepeated: boolean;
  /** A record, or a part that its records share: malformed protobuf in it costs only these records. */
  readonly isPart?: true;
  /** The type of a field of the kind `message`; a function, because messages refer to each other in cycles. */
  readonly message: () => Message;
}

/** Fields by number. */
export type Message = readonly (Field | undefined)[];

function message(fields: Readonly<Record<number, Field>>): Message {
  const table: (Field | undefined)[] = [];
  for (const [number, field] of Object.entries(fields)) table[Number(number)] = field;
  return table;
}

const asJson = (name: string): Uint8Array => Buffer.from(`"${name}":`);
const noMessage = (): Message => [];
const scalar = (kind: ScalarKind, name: string): Field => ({ name, json: asJson(name), kind, isRepeated: false, message: noMessage });
const packed = (kind: ScalarKind, name: string): Field => ({ ...scalar(kind, name), isRepeated: true });
const one = (name: string, of: () => Message): Field => ({ name, json: asJson(name), kind: "message", isRepeated: false, message: of });
const many = (name: string, of: () => Message): Field => ({ ...one(name, of), isRepeated: true });
/** For the messages of other protocols. */
export { many, message, packed, scalar };
const part = (field: Field): Field => ({ ...field, isPart: true });

const attributes = many("attributes", () => KEY_VALUE);
const dropped = scalar("uint32", "droppedAttributesCount");

const ANY_VALUE = message({
  1: scalar("string", "stringValue"),
  2: scalar("bool", "boolValue"),
  3: scalar("int64", "intValue"),
  4: scalar("double", "doubleValue"),
  5: one("arrayValue", () => ARRAY_VALUE),
  6: one("kvlistValue", () => KEY_VALUE_LIST),
  7: scalar("bytes", "bytesValue"),
});
const ARRAY_VALUE = message({ 1: many("values", () => ANY_VALUE) });
const KEY_VALUE = message({ 1: scalar("string", "key"), 2: one("value", () => ANY_VALUE) });
const KEY_VALUE_LIST = message({ 1: many("values", () => KEY_VALUE) });
const RESOURCE = message({ 1: attributes, 2: dropped });
const SCOPE = message({ 1: scalar("string", "name"), 2: scalar("string", "version"), 3: attributes, 4: dropped });

/** A request of any signal: resources, their scopes, their records. */
function request(resources: string, scopes: string, records: string, record: Message): Message {
  const scope = message({ 1: part(one("scope", () => SCOPE)), 2: part(many(records, () => record)) });
  const resource = message({ 1: part(one("resource", () => RESOURCE)), 2: many(scopes, () => scope) });
  return message({ 1: many(resources, () => resource) });
}

const LINE_VALUE = [...ANY_VALUE];
LINE_VALUE[1] = scalar("line", "stringValue");

const LOG_RECORD = message({
  1: scalar("fixed64", "timeUnixNano"),
  2: scalar("int32", "severityNumber"),
  3: scalar("string", "severityText"),
  5: one("body", () => ANY_VALUE),
  6: attributes,
  7: dropped,
  8: scalar("fixed32", "flags"),
  9: scalar("id", "traceId"),
  10: scalar("id", "spanId"),
  11: scalar("fixed64", "observedTimeUnixNano"),
  12: scalar("string", "eventName"),
});

const EVENT = message({ 1: scalar("fixed64", "timeUnixNano"), 2: scalar("string", "name"), 3: attributes, 4: dropped });
const LINK = message({
  1: scalar("id", "traceId"),
  2: scalar("id", "spanId"),
  3: scalar("string", "traceState"),
  4: attributes,
  5: dropped,
  6: scalar("fixed32", "flags"),
});
const STATUS = message({ 2: scalar("string", "message"), 3: scalar("int32", "code") });
const SPAN = message({
  1: scalar("id", "traceId"),
  2: scalar("id", "spanId"),
  3: scalar("string", "traceState"),
  4: scalar("id", "parentSpanId"),
  5: scalar("string", "name"),
  6: scalar("int32", "kind"),
  7: scalar("fixed64", "startTimeUnixNano"),
  8: scalar("fixed64", "endTimeUnixNano"),
  9: attributes,
  10: dropped,
  11: many("events", () => EVENT),
  12: scalar("uint32", "droppedEventsCount"),
  13: many("links", () => LINK),
  14: scalar("uint32", "droppedLinksCount"),
  15: one("status", () => STATUS),
  16: scalar("fixed32", "flags"),
});

const pointFields = { 2: scalar("fixed64", "startTimeUnixNano"), 3: scalar("fixed64", "timeUnixNano") };
const EXEMPLAR = message({
  2: scalar("fixed64", "timeUnixNano"),
  3: scalar("double", "asDouble"),
  4: scalar("id", "spanId"),
  5: scalar("id", "traceId"),
  6: scalar("sfixed64", "asInt"),
  7: many("filteredAttributes", () => KEY_VALUE),
});
const exemplars = many("exemplars", () => EXEMPLAR);
const NUMBER_POINT = message({
  ...pointFields,
  4: scalar("double", "asDouble"),
  5: exemplars,
  6: scalar("sfixed64", "asInt"),
  7: attributes,
  8: scalar("uint32", "flags"),
});
const totals = { ...pointFields, 4: scalar("fixed64", "count"), 5: scalar("double", "sum") };
const HISTOGRAM_POINT = message({
  ...totals,
  6: packed("fixed64", "bucketCounts"),
  7: packed("double", "explicitBounds"),
  8: exemplars,
  9: attributes,
  10: scalar("uint32", "flags"),
  11: scalar("double", "min"),
});
const BUCKETS = message({ 1: scalar("sint32", "offset"), 2: packed("uint64", "bucketCounts") });
const EXPONENTIAL_POINT = message({
  ...totals,
  1: attributes,
  6: scalar("sint32", "scale"),
  7: scalar("fixed64", "zeroCount"),
  8: one("positive", () => BUCKETS),
  9: one("negative", () => BUCKETS),
  10: scalar("uint32", "flags"),
  11: exemplars,
  14: scalar("double", "zeroThreshold"),
});
const QUANTILE = message({ 1: scalar("double", "quantile"), 2: scalar("double", "value") });
const SUMMARY_POINT = message({ ...totals, 6: many("quantileValues", () => QUANTILE), 7: attributes, 8: scalar("uint32", "flags") });

const points = (point: Message): Field => part(many("dataPoints", () => point));
const temporality = scalar("int32", "aggregationTemporality");
const METRIC = message({
  1: scalar("string", "name"),
  3: scalar("string", "unit"),
  5: one("gauge", () => GAUGE),
  7: one("sum", () => SUM),
  9: one("histogram", () => HISTOGRAM),
  10: one("exponentialHistogram", () => EXPONENTIAL),
  11: one("summary", () => SUMMARY),
});
const GAUGE = message({ 1: points(NUMBER_POINT) });
const SUM = message({ 1: points(NUMBER_POINT), 2: temporality, 3: scalar("bool", "isMonotonic") });
const HISTOGRAM = message({ 1: points(HISTOGRAM_POINT), 2: temporality });
const EXPONENTIAL = message({ 1: points(EXPONENTIAL_POINT), 2: temporality });
const SUMMARY = message({ 1: points(SUMMARY_POINT) });

const LINE_RECORD = [...LOG_RECORD];
LINE_RECORD[5] = one("body", () => LINE_VALUE);
/** The request of logs in which raw lines of files may be the body of a record (backend/ingest/otlp/file-lines.ts). */
export const LINES_REQUEST = request("resourceLogs", "scopeLogs", "logRecords", LINE_RECORD);

/** The request of each signal. */
export const REQUESTS = {
  logs: request("resourceLogs", "scopeLogs", "logRecords", LOG_RECORD),
  traces: request("resourceSpans", "scopeSpans", "spans", SPAN),
  metrics: request("resourceMetrics", "scopeMetrics", "metrics", METRIC),
} as const;

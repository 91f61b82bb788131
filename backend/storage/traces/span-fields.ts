// Defines the fields of spans as the engine writes them: the ten of GET /query/traces, and all fields for a whole trace. Invariant: only
// the engine expands events and links, which are stored as JSON, into rows, and never more of them than it has memory for.
import { type Sql, sql } from "../../engines/clickhouse/sql.ts";
import { MAX_SPAN_JSON_BYTES } from "../storage-limits.ts";
import type { Cursor, Page } from "../page.ts";
import type { Selection } from "../found-page.ts";

/** Columns of a span in GET /query/traces. */
export const SPAN_FIELDS = sql`time AS Timestamp, trace_id AS TraceID, span_id AS SpanID, parent_span_id AS ParentSpanID, service AS Service,
  operation AS Operation, duration_ns / 1e6 AS DurationMs, status_code AS StatusCode, toBool(status_code = 'ERROR') AS Error,
  attributes AS Attributes`;

/** Limits a page of a whole trace as MAX_SPAN_JSON_BYTES limits one span, because its rows are mostly events. */
const TRACE_PAGE_BYTES = 8 * 1024 * 1024;
/** Spans per page of a whole trace. */
export const TRACE_PAGE_SPANS = 10_000;

const EVENTS_LEFT_OUT = sql`concat('[{"time":"', toString(toUnixTimestamp64Nano(time)), '","name":"more than 4 MiB of events are left out","attributes":{}}]')`;

const LINKS_LEFT_OUT = sql`'[{"trace_id":"","span_id":"","trace_state":"","attributes":{"left out":"more than 4 MiB of links"}}]'`;

/** Array(Tuple(time DateTime64(9), name, attributes)); empty for "". Times beyond the engine's range become its last one. */
export const EVENTS = sql`arrayMap(
  event -> (fromUnixTimestamp64Nano(toInt64(least(toUInt64OrZero(event.1), 9223372036000000000)), 'UTC'), event.2, event.3),
  JSONExtract(if(length(events) > ${MAX_SPAN_JSON_BYTES}, ${EVENTS_LEFT_OUT}, events),
    'Array(Tuple(time String, name String, attributes Map(String, String)))'))`;

/** Array(Tuple(trace_id, span_id, trace_state, attributes)). */
export const LINKS = sql`arrayMap(link -> (link.1, link.2, link.3, link.4), JSONExtract(if(length(links) > ${MAX_SPAN_JSON_BYTES}, ${LINKS_LEFT_OUT}, links),
  'Array(Tuple(trace_id String, span_id String, trace_state String, attributes Map(String, String)))'))`;

/** Attributes are stored as text. These are integers by OpenTelemetry's semantic conventions, so Jaeger's clients get numbers. */
const INTEGER_KEYS = `
  client.port code.line.number code.lineno db.operation.batch.size db.redis.database_index db.response.returned_rows
  destination.port gen_ai.usage.input_tokens gen_ai.usage.output_tokens http.request.body.size http.request.resend_count
  http.request_content_length http.resend_count http.response.body.size http.response.status_code http.response_content_length
  http.status_code messaging.batch.message_count messaging.kafka.message.offset messaging.kafka.offset messaging.kafka.partition
  messaging.message.body.size messaging.message.envelope.size net.host.port net.peer.port network.local.port network.peer.port
  process.pid rpc.grpc.status_code rpc.jsonrpc.error_code server.port source.port thread.id
`
  .trim()
  .split(/\s+/);
/** Attributes as an array of (key, value). */
export const PAIRS = sql`arrayZip(arrayMap(key -> toString(key), mapKeys(attributes)), mapValues(attributes))`;
/** Whether a `pair` is such an integer. A double holds 15 digits exactly. */
export const IS_INTEGER = sql`(has(${INTEGER_KEYS}, pair.1) AND match(pair.2, '^-?[0-9]{1,15}$'))`;

const WHOLE_SPAN_FIELDS = sql`${SPAN_FIELDS}, kind AS Kind, status_message AS StatusMessage,
  CAST(${EVENTS}, 'Array(Tuple(Timestamp DateTime64(9, \\'UTC\\'), Name String, Attributes Map(String, String)))') AS Events,
  CAST(${LINKS}, 'Array(Tuple(TraceID String, SpanID String, TraceState String, Attributes Map(String, String)))') AS Links,
  CAST((scope_name, scope_version), 'Tuple(Name String, Version String)') AS Scope`;

/** A page of a trace's spans, oldest first, with the given `columns`. */
export function wholeTrace(
  traceId: string,
  after: Cursor | undefined,
  columns: Sql = WHOLE_SPAN_FIELDS,
): Selection & { page: Page; maxPageBytes: number } {
  return {
    table: "spans",
    columns,
    sizes: sql`trace_id, span_id, parent_span_id, service, operation, status_message, attributes, scope_name, scope_version, events, links`,
    conditions: [sql`trace_id = ${traceId}`],
    page: { range: { start: undefined, end: undefined }, limit: TRACE_PAGE_SPANS, after, oldestFirst: true },
    maxPageBytes: TRACE_PAGE_BYTES,
  };
}

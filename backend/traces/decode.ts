// OTLP/JSON spans → rows of the table spans, by decisions.md, "Mapping". Invariant: pure; the whole body is decoded or it throws an
// ApiError that names the field. Called on any thread, by ingest/otlp-decoder.ts.
import { checkUint32, decodeDocument, each, enumeration, hexId, type Json, text, uint64, within } from "../ingest/otlp-json.ts";
import { labelsCell, type ResourceLabels, resourceLabels } from "../ingest/otlp-labels.ts";
import { COMMON_COLUMNS, type DecodedBody, escape, type RowContext, SectionWriter } from "../ingest/otlp-rows.ts";
import { eachAttribute } from "../ingest/otlp-value.ts";

/** In the order of the rows that `decodeTraces` writes. */
export const SPAN_COLUMNS = [
  ...COMMON_COLUMNS,
  "trace_id",
  "span_id",
  "parent_span_id",
  "service",
  "operation",
  "kind",
  "duration_ns",
  "status_code",
  "status_message",
  "attributes",
  "scope_name",
  "scope_version",
  "trace_state",
  "events",
  "links",
] as const;

const KINDS = ["UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"] as const;
const KIND_NAMES = Object.fromEntries(KINDS.map((kind, index) => [`SPAN_KIND_${kind}`, index]));
const STATUS_CODES = ["UNSET", "OK", "ERROR"] as const;
const STATUS_NAMES = Object.fromEntries(STATUS_CODES.map((code, index) => [`STATUS_CODE_${code}`, index]));

/** Decodes an ExportTraceServiceRequest. Throws malformed_body or invalid_payload. */
export function decodeTraces(body: Uint8Array, context: RowContext): DecodedBody {
  return decodeDocument(body, (document) => {
    const rows = new SectionWriter(context);
    each(document, "resourceSpans", (resourceSpans) => {
      const resource = within(resourceSpans, "resource", resourceLabels);
      each(resourceSpans, "scopeSpans", (scopeSpans) => {
        const scope = within(scopeSpans, "scope", scopeCells);
        each(scopeSpans, "spans", (span) => addSpan(rows, span, resource, scope));
      });
    });
    return rows.finish();
  });
}

function scopeCells(scope: Json): string {
  eachAttribute(scope, () => {});
  return `${escape(text(scope, "name"))}\t${escape(text(scope, "version"))}`;
}

function addSpan(rows: SectionWriter, span: Json, resource: ResourceLabels, scope: string): void {
  const traceId = hexId(span, "traceId", 16);
  const spanId = hexId(span, "spanId", 8);
  const parentId = hexId(span, "parentSpanId", 8);
  const start = uint64(span, "startTimeUnixNano");
  const end = uint64(span, "endTimeUnixNano");
  const kind = KINDS[enumeration(span, "kind", KIND_NAMES)] ?? "UNSPECIFIED";
  for (const name of ["flags", "droppedAttributesCount", "droppedEventsCount", "droppedLinksCount"]) checkUint32(span, name);
  const status = within(span, "status", statusCells);
  const attributes = labelsCell(resource, span, "service.name");
  const names = `${escape(resource.service)}\t${escape(text(span, "name"))}\t${kind}`;
  const rest = `${scope}\t${escape(text(span, "traceState"))}\t${escape(events(span))}\t${escape(links(span))}`;
  if (traceId === "" || spanId === "") return rows.drop("empty_ids");
  rows.add(start || end, `${traceId}\t${spanId}\t${parentId}\t${names}\t${durationNs(start, end)}\t${status}\t${attributes}\t${rest}`);
}

function statusCells(status: Json): string {
  return `${STATUS_CODES[enumeration(status, "code", STATUS_NAMES)] ?? "UNSET"}\t${escape(text(status, "message"))}`;
}

/** End minus start; 0 when one is missing or the clock went back. */
function durationNs(start: string, end: string): string {
  if (start === "" || end === "") return "0";
  if (start.length !== 19 || end.length !== 19) return bigDuration(start, end);
  const seconds = Number(end.slice(0, 10)) - Number(start.slice(0, 10));
  const nanoseconds = seconds * 1e9 + (Number(end.slice(10)) - Number(start.slice(10)));
  if (seconds > 1_000_000) return bigDuration(start, end);
  return nanoseconds > 0 ? String(nanoseconds) : "0";
}

function bigDuration(start: string, end: string): string {
  const nanoseconds = BigInt(end) - BigInt(start);
  return nanoseconds > 0n ? nanoseconds.toString() : "0";
}

function events(span: Json): string {
  const items: string[] = [];
  each(span, "events", (event) => {
    checkUint32(event, "droppedAttributesCount");
    const time = uint64(event, "timeUnixNano") || "0";
    items.push(`{"time":"${time}","name":${JSON.stringify(text(event, "name"))},"attributes":${attributesJson(event)}}`);
  });
  return jsonArray(items);
}

function links(span: Json): string {
  const items: string[] = [];
  each(span, "links", (link) => {
    checkUint32(link, "droppedAttributesCount");
    checkUint32(link, "flags");
    const ids = `"trace_id":"${hexId(link, "traceId", 16)}","span_id":"${hexId(link, "spanId", 8)}"`;
    items.push(`{${ids},"trace_state":${JSON.stringify(text(link, "traceState"))},"attributes":${attributesJson(link)}}`);
  });
  return jsonArray(items);
}

function attributesJson(parent: Json): string {
  const pairs = new Map<string, string>();
  eachAttribute(parent, (key, value) => pairs.set(key, `${JSON.stringify(key)}:${JSON.stringify(value)}`));
  return `{${[...pairs.values()].join(",")}}`;
}

function jsonArray(items: readonly string[]): string {
  return items.length === 0 ? "" : `[${items.join(",")}]`;
}

// Decodes OTLP/JSON spans into rows of the spans table (docs/decisions.md, "Mapping"), for request bodies that the kernel does not accept
// (fast-decode.ts). Invariant: the function is pure and runs on any thread; it decodes the whole body or throws an ApiError that names the
// field.
import { encodedString, type Int64Column } from "../../engines/clickhouse/native-columns.ts";
import { SPAN_CELLS } from "../../storage/table-columns.ts";
import type { BatchPlan, BatchShape } from "./batch.ts";
import { type BatchReader, readBatch } from "./batch-reader.ts";
import { type Json } from "../json-message.ts";
import { checkUint32, each, enumeration, hexId, text, uint64, within } from "./json.ts";
import { addLabels, type ResourceLabels, resourceLabels } from "./labels.ts";
import { type DecodedBody, RowCollector, type RowContext } from "./decoded-rows.ts";
import { eachAttribute } from "./value.ts";

const KINDS = ["UNSPECIFIED", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"] as const;
const KIND_NAMES = Object.fromEntries(KINDS.map((kind, index) => [`SPAN_KIND_${kind}`, index]));
const STATUS_CODES = ["UNSET", "OK", "ERROR"] as const;
const STATUS_NAMES = Object.fromEntries(STATUS_CODES.map((code, index) => [`STATUS_CODE_${code}`, index]));

export const SPAN_SHAPE: BatchShape = { resources: "resourceSpans", scopes: "scopeSpans", records: "spans" };

/** Decodes an ExportTraceServiceRequest of SPAN_SHAPE. Throws invalid_payload or batch_too_large. */
export function decodeTraces(plan: BatchPlan, context: RowContext): DecodedBody {
  const rows = new RowCollector(context, SPAN_CELLS);
  const reader: BatchReader<ResourceLabels, ScopeCells> = {
    resource: resourceLabels,
    scope: scopeCells,
    record: (span, resource, scope) => addSpan(rows, span, resource, scope),
    undo: () => rows.undo(),
  };
  readBatch(plan, reader, context.faults);
  return rows.finish();
}

const LABEL_RULE = { omittedKey: "service.name" };

interface ScopeCells {
  readonly name: Uint8Array;
  readonly version: Uint8Array;
}

function scopeCells(scope: Json): ScopeCells {
  eachAttribute(scope, () => {});
  return { name: encodedString(text(scope, "name")), version: encodedString(text(scope, "version")) };
}

function addSpan(rows: RowCollector<typeof SPAN_CELLS>, span: Json, resource: ResourceLabels, scope: ScopeCells): undefined {
  rows.admit(resource.byteLength + scope.name.byteLength + scope.version.byteLength);
  const traceId = hexId(span, "traceId", 16);
  const spanId = hexId(span, "spanId", 8);
  const start = uint64(span, "startTimeUnixNano");
  const end = uint64(span, "endTimeUnixNano");
  const cells = traceId === "" || spanId === "" ? rows.drop("empty_ids") : rows.row(start || end);
  cells.trace_id.add(traceId);
  cells.span_id.add(spanId);
  cells.parent_span_id.add(hexId(span, "parentSpanId", 8));
  cells.service.addEncoded(resource.service);
  cells.operation.add(text(span, "name"));
  cells.kind.add(KINDS[enumeration(span, "kind", KIND_NAMES)] ?? "UNSPECIFIED");
  addDuration(cells.duration_ns, start, end);
  within(span, "status", (status) => {
    cells.status_code.add(STATUS_CODES[enumeration(status, "code", STATUS_NAMES)] ?? "UNSET");
    cells.status_message.add(text(status, "message"));
  });
  addLabels(cells.attributes, resource, span, LABEL_RULE);
  cells.scope_name.addEncoded(scope.name);
  cells.scope_version.addEncoded(scope.version);
  cells.trace_state.add(text(span, "traceState"));
  cells.events.add(events(span));
  cells.links.add(links(span));
  for (const name of ["flags", "droppedAttributesCount", "droppedEventsCount", "droppedLinksCount"]) checkUint32(span, name);
}

/** End minus start; 0 if one is missing or the clock went back. */
function addDuration(column: Int64Column, start: string, end: string): void {
  if (start === "" || end === "") return column.addNumber(0);
  const seconds = Number(end.slice(0, -9)) - Number(start.slice(0, -9));
  const nanoseconds = seconds * 1e9 + (Number(end.slice(-9)) - Number(start.slice(-9)));
  if (Math.abs(seconds) < 1_000_000) return column.addNumber(Math.max(0, nanoseconds));
  const exact = BigInt(end) - BigInt(start);
  if (exact < 0n) return column.addNumber(0);
  column.add(Number(exact & 0xff_ff_ff_ffn), Number(exact >> 32n));
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

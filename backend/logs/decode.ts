// OTLP/JSON logs → rows of the table logs, by the mapping table of the contract (interface.md, "OTLP logs field mapping"; decisions.md,
// "Mapping"). Invariant: pure; the whole body is decoded or it throws an ApiError that names the field. Called on any thread, by
// ingest/otlp-decoder.ts.
import { checkUint32, decodeDocument, each, enumeration, hexId, type Json, text, uint64, within } from "../ingest/otlp-json.ts";
import { labelsCell, type ResourceLabels, resourceLabels } from "../ingest/otlp-labels.ts";
import { COMMON_COLUMNS, type DecodedBody, escape, type RowContext, SectionWriter } from "../ingest/otlp-rows.ts";
import { eachAttribute, valueText } from "../ingest/otlp-value.ts";

/** In the order of the rows that `decodeLogs` writes. */
export const LOG_COLUMNS = [
  ...COMMON_COLUMNS,
  "level",
  "severity_number",
  "source",
  "message",
  "labels",
  "trace_id",
  "span_id",
  "scope_name",
] as const;

/** Decodes an ExportLogsServiceRequest. Throws malformed_body or invalid_payload. */
export function decodeLogs(body: Uint8Array, context: RowContext): DecodedBody {
  return decodeDocument(body, (document) => {
    const rows = new SectionWriter(context);
    each(document, "resourceLogs", (resourceLogs) => {
      const resource = within(resourceLogs, "resource", resourceLabels);
      const source = escape(resource.service);
      each(resourceLogs, "scopeLogs", (scopeLogs) => {
        const scope = escape(within(scopeLogs, "scope", scopeName));
        each(scopeLogs, "logRecords", (record) => addRecord(rows, record, resource, source, scope));
      });
    });
    return rows.finish();
  });
}

/** The scope's version and attributes are checked and not stored. */
function scopeName(scope: Json): string {
  text(scope, "version");
  eachAttribute(scope, () => {});
  return text(scope, "name");
}

function addRecord(rows: SectionWriter, record: Json, resource: ResourceLabels, source: string, scope: string): void {
  const own = uint64(record, "timeUnixNano");
  const observed = uint64(record, "observedTimeUnixNano");
  const severity = enumeration(record, "severityNumber", SEVERITY_NUMBERS);
  const level = text(record, "severityText").toLowerCase() || levelOf(severity);
  checkUint32(record, "droppedAttributesCount");
  checkUint32(record, "flags");
  const message = escape(valueText(record, "body"));
  const traceId = hexId(record, "traceId", 16);
  const spanId = hexId(record, "spanId", 8);
  const labels = labelsCell(resource, record);
  const stored = severity > 0 && severity <= 24 ? severity : 0;
  rows.add(own || observed, `${escape(level)}\t${stored}\t${source}\t${message}\t${labels}\t${traceId}\t${spanId}\t${scope}`);
}

const LEVELS = ["trace", "debug", "info", "warn", "error", "fatal"] as const;

function levelOf(severityNumber: number): string {
  return LEVELS[Math.ceil(severityNumber / 4) - 1] ?? "info";
}

const SEVERITY_NUMBERS: Record<string, number> = Object.fromEntries([
  ["SEVERITY_NUMBER_UNSPECIFIED", 0],
  ...LEVELS.flatMap((level, index) =>
    ["", "2", "3", "4"].map((suffix, step) => [`SEVERITY_NUMBER_${level.toUpperCase()}${suffix}`, index * 4 + step + 1]),
  ),
]);

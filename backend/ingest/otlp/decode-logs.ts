// Decodes OTLP/JSON logs into rows of the logs table, by the mapping table of the contract (docs/contract.md, "Logs"; docs/decisions.md,
// "Mapping"). Invariant: the function is pure and runs on any thread; it decodes the whole body or throws an ApiError that names the field.
import { encodedString } from "../../engines/clickhouse/native-columns.ts";
import { LOG_CELLS } from "../../storage/table-columns.ts";
import type { BatchPlan, BatchShape } from "./batch.ts";
import { type BatchReader, readBatch } from "./batch-reader.ts";
import { FieldError, type Json } from "../json-message.ts";
import { type LineMark, markOf, requireUtf8, withLine } from "./file-lines.ts";
import { checkUint32, enumeration, hexId, text, uint64 } from "./json.ts";
import { addLabels, type ResourceLabels, resourceLabels } from "./labels.ts";
import { type DecodedBody, RowCollector, type RowContext } from "./decoded-rows.ts";
import { eachAttribute, valueText } from "./value.ts";

export const LOG_SHAPE: BatchShape = { resources: "resourceLogs", scopes: "scopeLogs", records: "logRecords" };

/** Decodes an ExportLogsServiceRequest of LOG_SHAPE. Throws invalid_payload or batch_too_large. */
export function decodeLogs(plan: BatchPlan, context: RowContext): DecodedBody {
  const rows = new RowCollector(context, LOG_CELLS);
  const { faults, readsLines, receivedAtMs } = context;
  const reader: BatchReader<ResourceLabels, Scope> = {
    resource: resourceLabels,
    scope: (scope) => readScope(scope, readsLines === true),
    record: (record, resource, { name, mark }) => {
      if (readsLines && mark === undefined) requireUtf8(record);
      const complete = mark === undefined ? record : withLine(record, mark, receivedAtMs);
      return addRecord(rows, complete, { resource, scope: name, isTolerant: faults !== undefined });
    },
    undo: () => rows.undo(),
  };
  readBatch(plan, reader, faults);
  return rows.finish();
}

interface Scope {
  /** In the format of a StringColumn. */
  readonly name: Uint8Array;
  readonly mark: LineMark | undefined;
}

/** Version and attributes of the scope are validated but not stored; neither is the name of a scope that marks raw lines. */
function readScope(scope: Json, readsLines: boolean): Scope {
  text(scope, "version");
  eachAttribute(scope, () => {});
  const mark = readsLines ? markOf(scope) : undefined;
  return { name: encodedString(mark === undefined ? text(scope, "name") : ""), mark };
}

interface Owner {
  readonly resource: ResourceLabels;
  readonly scope: Uint8Array;
  readonly isTolerant: boolean;
}

function addRecord(rows: RowCollector<typeof LOG_CELLS>, record: Json, { resource, scope, isTolerant }: Owner): FieldError | undefined {
  rows.admit(resource.byteLength + scope.byteLength);
  const time = uint64(record, "timeUnixNano");
  const observed = uint64(record, "observedTimeUnixNano");
  const cells = rows.row(time || observed);
  const severity = enumeration(record, "severityNumber", SEVERITY_NUMBERS);
  cells.level.add(text(record, "severityText").toLowerCase() || (LEVELS[Math.ceil(severity / 4) - 1] ?? "info"));
  cells.severity_number.add(severity > 0 && severity <= 24 ? severity : 0);
  cells.source.addEncoded(resource.service);
  cells.message.add(valueText(record, "body"));
  const eventName = text(record, "eventName");
  addLabels(cells.labels, resource, record, { defaultLabel: eventName === "" ? undefined : ["event.name", eventName] });
  const ids = [idOrFault(record, "traceId", 16, isTolerant), idOrFault(record, "spanId", 8, isTolerant)] as const;
  const [traceId, spanId] = ids.map((id) => (typeof id === "string" ? id : ""));
  cells.trace_id.add(traceId ?? "");
  cells.span_id.add(spanId ?? "");
  cells.scope_name.addEncoded(scope);
  checkUint32(record, "droppedAttributesCount");
  checkUint32(record, "flags");
  return ids.find((id) => typeof id !== "string");
}

/** The id; if it is invalid and the fault may not cost the record, the fault. */
function idOrFault(record: Json, name: string, bytes: number, isTolerant: boolean): string | FieldError {
  try {
    return hexId(record, name, bytes);
  } catch (error) {
    if (isTolerant && error instanceof FieldError) return error;
    throw error;
  }
}

const LEVELS = ["trace", "debug", "info", "warn", "error", "fatal"] as const;

const SEVERITY_NUMBERS: Record<string, number> = Object.fromEntries([
  ["SEVERITY_NUMBER_UNSPECIFIED", 0],
  ...LEVELS.flatMap((level, index) =>
    ["", "2", "3", "4"].map((suffix, step) => [`SEVERITY_NUMBER_${level.toUpperCase()}${suffix}`, index * 4 + step + 1]),
  ),
]);

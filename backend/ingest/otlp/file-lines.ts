// Parses raw lines of log files for the slow path, with the parser of the kernel (kernel/file-lines.ts), and completes the records that contain
// them. The agent marks such records by the name of their scope; the mark is internal to agent and backend, and counts only on the signed
// route for logs.
import { ApiError } from "../../errors.ts";
import { FieldError, type Json } from "../json-message.ts";
import { hexId, text, uint64 } from "./json.ts";
import { type FileLine, OTLP_KERNEL } from "./fast-decode.ts";

/** How the lines of a scope are parsed: bits of the kernel. */
export type LineMark = number;

const MARKS: Readonly<Record<string, LineMark>> = { "atherops/lines": 1, "atherops/cri-lines": 3 };
const RAW_MARK = 4;

/** The mark of a scope whose records are raw lines; undefined for all others. */
export function markOf(scope: Json): LineMark | undefined {
  const name = text(scope, "name");
  const mark = Object.hasOwn(MARKS, name) ? MARKS[name] : undefined;
  if (mark === undefined) return undefined;
  return text(scope, "version") === "raw" ? mark | RAW_MARK : mark;
}

/**
 * The record with the text, time, level, ids and labels of the line that is its body. A body of another kind is left to the caller. Throws a
 * FieldError as for any record, and unavailable without a kernel, so that the agent keeps the line.
 */
export function withLine(record: Json, mark: LineMark, receivedAtMs: number): Json {
  const bytes = lineOf(record);
  if (bytes === undefined) return record;
  const kernel = OTLP_KERNEL.get();
  if (!kernel)
    throw new ApiError("unavailable", "the parser of log lines is not available", { retryAfterS: 60, cause: OTLP_KERNEL.problem });
  const [time, observed] = ["timeUnixNano", "observedTimeUnixNano"].map((name) => BigInt(uint64(record, name) || 0)) as [bigint, bigint];
  const line = kernel.line(mark, bytes, { time, observed, receivedAtMs });
  if (line === undefined) return { ...record, body: { stringValue: bytes.toString("utf8") } };
  return { ...record, ...fieldsOf(line, record), body: { stringValue: line.message } };
}

/** The bytes of a body that is a text. The transcoder writes text that is not UTF-8 as an object with its base64. */
function lineOf({ body }: Json): Buffer | undefined {
  const value = (body as Json | null | undefined)?.["stringValue"];
  if (typeof value === "string") return Buffer.from(value);
  return isBytes(value) ? Buffer.from(value.base64, "base64") : undefined;
}

function isBytes(value: unknown): value is { readonly base64: string } {
  return typeof value === "object" && value !== null && typeof (value as Json)["base64"] === "string";
}

/** Throws if the body of a record that is no raw line is a text that is not UTF-8. */
export function requireUtf8({ body }: Json): void {
  if (isBytes((body as Json | null | undefined)?.["stringValue"])) throw new FieldError("body.stringValue", "is not UTF-8");
}

const NO_SEVERITY = new Set<unknown>([undefined, null, 0, "SEVERITY_NUMBER_UNSPECIFIED"]);

/** A record's own level and ids stay. */
function fieldsOf(line: FileLine, record: Json): Json {
  const hasLevel = text(record, "severityText") !== "" || !NO_SEVERITY.has(record["severityNumber"]);
  const hasIds = hexId(record, "traceId", 16) !== "" || hexId(record, "spanId", 8) !== "";
  const { attributes } = record;
  const labels = Object.entries(line.labels).map(([key, stringValue]) => ({ key, value: { stringValue } }));
  return {
    ...(line.time > 0n && { timeUnixNano: String(line.time) }),
    ...(line.level > 0 && !hasLevel && { severityNumber: 4 * line.level - 3 }),
    ...(line.traceId !== "" && !hasIds && { traceId: line.traceId, spanId: line.spanId }),
    ...((attributes === undefined || attributes === null || Array.isArray(attributes)) && {
      attributes: [...(attributes ?? []), ...labels],
    }),
  };
}

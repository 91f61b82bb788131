// Converts Loki push requests to OTLP/JSON, so that the decoder of OTLP logs turns them into rows, with the same limits. Labels of a stream
// become attributes of a resource, structured metadata becomes attributes of a record. Invariants: memory is limited, whatever a small
// request body decompresses to; the same request always gives the same document, so it is stored once. Source: Loki 3.7,
// pkg/push/push.proto and "Ingest logs".
import { BodyError, parseDocument } from "../../../common/otlp-metrics/document.ts";
import { ApiError } from "../../errors.ts";
import { MAX_LABELS_OF_STREAM, MAX_STREAM_LABELS_LENGTH, MAX_STREAMS, MAX_STRUCTURED_METADATA } from "../ingest-limits.ts";
import { JsonOutput } from "../../../common/protobuf/json-output.ts";
import { asObject, FieldError } from "../json-message.ts";
import { MAX_MALFORMED_PARTS, MAX_PROTOBUF_JSON_BYTES } from "../../../common/protobuf/protobuf-limits.ts";
import { toApiError } from "../otlp/protobuf/to-json.ts";
import { BYTES, MALFORMED, VARINT, WireReader } from "../../../common/protobuf/wire-reader.ts";
import { leaveOut, type RecordFaults } from "../record-faults.ts";
import { decompressSnappy } from "../snappy.ts";

export type LokiEncoding = "loki_json" | "loki_protobuf";
type Pair = readonly [name: string, value: string];
type Pairs = readonly Pair[];

/** Labels that name the service, in Loki's order (`discover_service_name`); the first one that the stream has is used. */
const SERVICE_LABELS = (
  "service_name service app application app_name name app_kubernetes_io_name container container_name k8s_container_name component " +
  "workload job k8s_job_name"
).split(" ");
/** Names of the level, in Loki's order (`log_level_fields`); lower case is enough, because names are compared in lower case. */
const LEVEL_NAMES = ["level", "detected_level", "log.level", "severity", "severitytext", "severity_text", "lvl"];
/** OTLP/JSON repeats field names, which Loki's formats do not. */
const EXPECTED_GROWTH = 2;
const NANOSECONDS = 9;
/** Nanoseconds have 64 bits. */
const MAX_SECONDS = 18_446_744_072;
const TIME = /^\d{1,19}$/;
const TRACE_ID = /^[0-9a-f]{32}$/i;
const SPAN_ID = /^[0-9a-f]{16}$/i;

/**
 * Leaves out invalid entries and streams, and adds them to `faults`. Throws `malformed_body`, `invalid_payload`, `batch_too_large` and
 * `body_too_large`. The result has its own buffer.
 */
export function lokiToJson(encoding: LokiEncoding, body: Uint8Array, faults: RecordFaults): Buffer<ArrayBuffer> {
  const push = encoding === "loki_protobuf" ? decompressSnappy(body) : body;
  const writer = new LogsWriter(push.byteLength);
  try {
    if (encoding === "loki_protobuf") readProtobuf(push, writer, faults);
    else readJson(push, writer, faults);
    return writer.finish();
  } catch (error) {
    writer.discard();
    throw toApiError(error);
  }
}

function readProtobuf(push: Uint8Array, writer: LogsWriter, faults: RecordFaults): void {
  const reader = new WireReader(push);
  let streams = 0;
  let malformed = 0;
  const attempt = (count: () => number, path: string, read: () => void): boolean =>
    attemptRead(faults, count, path, () => {
      try {
        read();
      } catch (error) {
        const isMalformed = error instanceof BodyError && error.kind === "malformed";
        if (!isMalformed || ++malformed > MAX_MALFORMED_PARTS) throw error;
        throw new FieldError("", error.message.slice(MALFORMED.length));
      }
    });
  reader.message(0, push.byteLength, () => {
    if (reader.field !== 1) return;
    reader.expect(BYTES, "streams");
    const { start, end } = reader;
    const path = `streams[${streams++}]`;
    let labels = "";
    let entries = 0;
    // The labels may come after the entries.
    const isRead = attempt(
      () => entries,
      path,
      () => {
        reader.message(start, end, () => {
          if (reader.field === 1) labels = reader.text();
          else if (reader.field === 2) entries += 1;
        });
        writer.stream(parseStreamLabels(labels));
      },
    );
    if (!isRead) return;
    let index = 0;
    reader.message(start, end, () => {
      if (reader.field === 2) attempt(ONE, `${path}.entries[${index++}]`, () => readEntry(reader, writer));
    });
    writer.endStream();
  });
  if (push.byteLength > 0 && streams === 0) throw invalid("it has no streams");
}

const ONE = (): number => 1;

/** Returns whether there was no fault; one costs `count` entries. */
function attemptRead(faults: RecordFaults, count: () => number, path: string, read: () => void): boolean {
  try {
    read();
    return true;
  } catch (error) {
    if (!(error instanceof FieldError)) throw error;
    leaveOut(faults, Math.max(1, count()), () => error.within(path).text);
    return false;
  }
}

function readEntry(reader: WireReader, writer: LogsWriter): void {
  reader.expect(BYTES, "entries");
  let [seconds, nanos, line] = [0, 0, ""];
  const metadata: [string, string][] = [];
  reader.message(reader.start, reader.end, () => {
    if (reader.field === 1) {
      reader.expect(BYTES, "timestamp");
      reader.message(reader.start, reader.end, () => {
        reader.expect(VARINT, "timestamp");
        if (reader.field === 1) seconds = reader.integer();
        else if (reader.field === 2) nanos = reader.integer();
      });
    } else if (reader.field === 2) line = reader.text();
    else if (reader.field === 3) {
      if (metadata.length === MAX_STRUCTURED_METADATA) throw tooManyPairs();
      metadata.push(readPair(reader));
    }
  });
  if (seconds < 0 || seconds > MAX_SECONDS || nanos < 0 || nanos >= 10 ** NANOSECONDS) throw new FieldError("timestamp", "is out of range");
  writer.entry(`${seconds === 0 ? "" : seconds}${String(nanos).padStart(seconds === 0 ? 1 : NANOSECONDS, "0")}`, line, metadata);
}

function readPair(reader: WireReader): [string, string] {
  reader.expect(BYTES, "structuredMetadata");
  const pair: [string, string] = ["", ""];
  reader.message(reader.start, reader.end, () => {
    if (reader.field === 1) pair[0] = reader.text();
    else if (reader.field === 2) pair[1] = reader.text();
  });
  return pair;
}

function readJson(push: Uint8Array, writer: LogsWriter, faults: RecordFaults): void {
  const { streams } = parseJson(push) as { streams?: unknown };
  if (!Array.isArray(streams)) throw invalid("streams: must be a list");
  for (const [index, stream] of streams.entries()) {
    const path = `streams[${index}]`;
    let entries: unknown[] = [];
    const isRead = attemptRead(
      faults,
      () => entries.length,
      path,
      () => {
        const { stream: labels, values } = asObject(stream, "");
        if (!Array.isArray(values)) throw new FieldError("values", "must be a list");
        entries = values;
        writer.stream(textPairs(withTexts(asObject(labels, "stream")), "stream"));
      },
    );
    if (!isRead) continue;
    for (const [position, value] of entries.entries())
      attemptRead(faults, ONE, `${path}.values[${position}]`, () => readValue(value, writer));
    writer.endStream();
  }
}

function readValue(value: unknown, writer: LogsWriter): void {
  const [time, line, metadata] = Array.isArray(value) ? (value as unknown[]) : [];
  if (typeof time !== "string" || !TIME.test(time)) throw new FieldError("[0]", "must be nanoseconds since 1970, as a text of digits");
  if (typeof line !== "string") throw new FieldError("[1]", "must be the line, a text");
  writer.entry(time, line, metadata === undefined ? [] : textPairs(metadata, "[2]"));
}

function parseJson(push: Uint8Array): object {
  try {
    const json = Buffer.from(push.buffer, push.byteOffset, push.byteLength);
    return asObject(parseDocument(json, { roundsIntegers: true }), "the body");
  } catch (cause) {
    if (cause instanceof FieldError) throw invalid(cause.text);
    if (cause instanceof BodyError && cause.kind === "malformed") throw invalid(cause.message);
    if (cause instanceof BodyError) throw new ApiError("batch_too_large", cause.message, { cause });
    if (cause instanceof SyntaxError) throw new ApiError("malformed_body", "the body is not JSON", { cause });
    throw cause;
  }
}

/**
 * Loki takes the labels of a stream as texts whatever they are: some senders have numbers and booleans, such as `"pid": 42`. The parser does
 * not keep all digits of larger numbers.
 */
function withTexts(labels: object): object {
  if (Object.values(labels).every((value) => typeof value === "string")) return labels;
  return Object.fromEntries(Object.entries(labels).map(([name, value]) => [name, isScalar(value) ? String(value) : (value as unknown)]));
}

function isScalar(value: unknown): boolean {
  return value === null || typeof value === "boolean" || (typeof value === "number" && Math.abs(value) <= Number.MAX_SAFE_INTEGER);
}

function textPairs(value: unknown, at: string): Pairs {
  const pairs = Object.entries(asObject(value, at));
  const invalidPair = pairs.find(([, text]) => typeof text !== "string");
  if (invalidPair) throw new FieldError(at, `the value of ${JSON.stringify(invalidPair[0].slice(0, 100))} must be a text`);
  return pairs as [string, string][];
}

/** Writes an ExportLogsServiceRequest with one resource per stream. */
class LogsWriter {
  readonly #output: JsonOutput;
  #streams = 0;
  #entries = 0;
  /** The label of the current stream that is its level. */
  #level: Pair | undefined;

  constructor(pushBytes: number) {
    this.#output = new JsonOutput(Math.max(1024, pushBytes * EXPECTED_GROWTH), MAX_PROTOBUF_JSON_BYTES);
    this.#output.ascii('{"resourceLogs":[');
  }

  stream(labels: Pairs): void {
    if (labels.length === 0) throw new FieldError("", "has no labels");
    if (labels.length > MAX_LABELS_OF_STREAM) throw tooManyLabels();
    for (const [index, [name]] of labels.entries()) {
      if (!LABEL_NAME.test(name)) throw new FieldError("", `has a label named ${quotedName(name)}, which is not a valid name`);
      if (labels.findIndex(([other]) => other === name) < index) throw new FieldError("", `has the label ${quotedName(name)} twice`);
    }
    if (this.#streams === MAX_STREAMS) throw new ApiError("batch_too_large", `the body has more than ${MAX_STREAMS} streams: send fewer`);
    const service = SERVICE_LABELS.map((name) => labels.find(([label]) => label === name)?.[1]).find((value) => value);
    this.#level = levelOf(labels);
    const others = labels.filter((label) => label[0] !== "service_name" && label !== this.#level);
    const attributes = [...(service === undefined ? [] : [["service.name", service] as const]), ...others].map(asAttribute);
    this.#output.text(`${this.#streams === 0 ? "" : ","}{"resource":{"attributes":[${attributes.join(",")}]},"scopeLogs":[{"logRecords":[`);
    this.#streams += 1;
    this.#entries = 0;
  }

  entry(timeUnixNano: string, line: string, metadata: Pairs): void {
    if (metadata.length > MAX_STRUCTURED_METADATA) throw tooManyPairs();
    const level = levelOf(metadata) ?? this.#level;
    const [ids, others] = splitMetadata(metadata);
    const replaced = this.#level !== undefined && this.#level[0] !== level?.[0] ? [this.#level] : [];
    const attributes = [...replaced, ...others.filter((pair) => pair !== level)];
    const severity = level === undefined ? "" : `,"severityText":${JSON.stringify(level[1])}`;
    const list = attributes.length === 0 ? "" : `,"attributes":[${attributes.map(asAttribute).join(",")}]`;
    const body = `"body":{"stringValue":${JSON.stringify(line)}}`;
    this.#output.text(`${this.#entries === 0 ? "" : ","}{"timeUnixNano":"${timeUnixNano}",${body}${severity}${ids}${list}}`);
    this.#entries += 1;
  }

  endStream(): void {
    this.#output.ascii("]}]}");
  }

  finish(): Buffer<ArrayBuffer> {
    this.#output.ascii("]}");
    return this.#output.take();
  }

  discard(): void {
    this.#output.discard();
  }
}

/** The pair that is the level; all others, such as a severity next to it, are attributes. */
function levelOf(pairs: Pairs): Pair | undefined {
  const levels = pairs.filter(([name, value]) => value !== "" && LEVEL_NAMES.includes(name.toLowerCase()));
  return LEVEL_NAMES.map((name) => levels.find((pair) => pair[0].toLowerCase() === name)).find((pair) => pair);
}

/** Splits metadata into the ids, which have their own fields in OTLP, as JSON, and the attributes. */
function splitMetadata(metadata: Pairs): [ids: string, attributes: Pairs] {
  let ids = "";
  const attributes = metadata.filter(([name, value]) => {
    const field =
      name === "trace_id" && TRACE_ID.test(value) ? "traceId" : name === "span_id" && SPAN_ID.test(value) ? "spanId" : undefined;
    if (field !== undefined) ids += `,"${field}":"${value}"`;
    return field === undefined;
  });
  return [ids, attributes];
}

function quotedName(name: string): string {
  return JSON.stringify(name.slice(0, QUOTED_CHARACTERS));
}

function asAttribute([key, value]: readonly [string, string]): string {
  return `{"key":${JSON.stringify(key)},"value":{"stringValue":${JSON.stringify(value)}}}`;
}

function tooManyLabels(): FieldError {
  return new FieldError("", `has more than ${MAX_LABELS_OF_STREAM} labels`);
}

function tooManyPairs(): FieldError {
  return new FieldError("", `has more than ${MAX_STRUCTURED_METADATA} pairs of metadata`);
}

function invalid(reason: string): ApiError {
  return new ApiError("invalid_payload", `not a Loki push request, nothing was stored: ${reason}`);
}

// Parses the labels of a stream in Loki's protobuf: `{job="varlogs", host="a"}`, with values quoted as in Go. Invariant: it reads the text
// once, and throws FieldError if it is not a list of labels.

const LABEL_NAME = /^[a-zA-Z_]\w*$/;
const LABEL = /\s*([a-zA-Z_]\w*)\s*=\s*("(?:[^"\\]|\\.)*"|`[^`]*`)\s*(,|$)/suy;
/** `\xe4` and `\344` are bytes of UTF-8, not characters. */
const ESCAPE = /((?:\\x[0-9a-fA-F]{2}|\\[0-3][0-7]{2})+)|\\u([0-9a-fA-F]{4})|\\U([0-9a-fA-F]{8})|\\(.)/gsu;
const CONTROL: Readonly<Record<string, string>> = { a: "\x07", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t", v: "\v" };
const MAX_CODE_POINT = 0x10ffff;
/** Texts are quoted in messages up to this length. */
const QUOTED_CHARACTERS = 100;

export function parseStreamLabels(text: string): [name: string, value: string][] {
  if (text.length > MAX_STREAM_LABELS_LENGTH) throw new FieldError("labels", `have more than ${MAX_STREAM_LABELS_LENGTH} characters`);
  const trimmed = text.trim();
  if (!trimmed.startsWith("{") || !trimmed.endsWith("}")) throw createLabelsError(text);
  const inner = trimmed.slice(1, -1).trim();
  const labels: [string, string][] = [];
  for (let at = 0; at < inner.length; at = LABEL.lastIndex) {
    LABEL.lastIndex = at;
    const [, name, literal] = LABEL.exec(inner) ?? [];
    if (name === undefined || literal === undefined) throw createLabelsError(text);
    if (labels.length === MAX_LABELS_OF_STREAM) throw tooManyLabels();
    labels.push([name, unquote(literal)]);
  }
  return labels;
}

function unquote(literal: string): string {
  const inner = literal.slice(1, -1);
  if (literal.startsWith("`") || !inner.includes("\\")) return inner;
  return inner.replaceAll(ESCAPE, (_, bytes?: string, four?: string, eight?: string, other = "") => {
    if (bytes !== undefined) {
      const escapes = bytes.split("\\").slice(1);
      return Buffer.from(escapes.map((byte) => Number(byte.startsWith("x") ? `0${byte}` : `0o${byte}`))).toString("utf8");
    }
    const digits = four ?? eight;
    if (digits === undefined) return CONTROL[other as string] ?? (other as string);
    const code = Number.parseInt(digits, 16);
    return code > MAX_CODE_POINT ? "\uFFFD" : String.fromCodePoint(code);
  });
}

function createLabelsError(text: string): FieldError {
  const shown = JSON.stringify(text.slice(0, QUOTED_CHARACTERS));
  return new FieldError("labels", `${shown} is not a list of labels such as {job="a"}`);
}

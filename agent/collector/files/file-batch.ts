// Splits a request with log file lines into its batches, identifies each batch and its read time, and removes file offsets. Invariants: two
// batches have the same key only if they contain the same lines at the same offsets in files of the same name; offsets never leave the node.
// Lines that are read again differ in attribute order and read time, so comparing bytes is not enough.
import { createHash } from "node:crypto";
import {
  ANY_VALUE,
  type FieldRange,
  KEY_VALUE,
  LOG_RECORD,
  readResources,
  REQUEST,
  RESOURCE,
  RESOURCE_RECORDS,
  type ResourceFields,
  SCOPE_RECORDS,
} from "../../../common/protobuf/otlp-requests.ts";
import { FIXED64, VARINT, WireReader } from "../../../common/protobuf/wire-reader.ts";
import { WireWriter } from "../../../common/protobuf/wire-writer.ts";
import { MAX_REQUEST_PARTS } from "../../agent-limits.ts";

/** Header of requests with log file lines; its value is the token that the agent gave to its collector. */
export const FILES_HEADER = "x-atherops-files";

/** The lines of one entry of the collector's disk queue. A request may contain several batches. */
export interface FileBatch {
  /** Undefined if a record of the batch has no file offset. */
  readonly key: string | undefined;
  /** When the first line was read; Unix milliseconds, rounded down. */
  readonly readAtMs: number;
  /** The batch as a request, without the offsets of its lines; the requests of several batches can be joined. */
  readonly body: Buffer;
}

/** Suffixes that logrotate and the kubelet add to a renamed file: it is still the same file. */
const ROTATED = /\.log(?:\.1|\.\d{8}-\d{6})$/;
const PATH = Buffer.from("log.file.path");
const OFFSET = Buffer.from("log.file.record_offset");
const KEY_LENGTH = 20;
/** For the tags and lengths of the messages that contain the records. */
const SPARE_BYTES = 64;

interface Line {
  readonly range: FieldRange;
  /** Start and end of the text; undefined if the body is no text. */
  text: [number, number] | undefined;
  offset: number | undefined;
  /** Attributes with the offset. */
  readonly offsets: FieldRange[];
  path: string | undefined;
  /** Offset of the record's own time in the request. */
  timeAt: number | undefined;
  readAtMs: number;
}

/** `body`: a request of the collector, OTLP/protobuf. Throws BodyError. */
export function parseFileRequest(body: Buffer): FileBatch[] {
  const reader = new WireReader(body);
  return readResources(reader, MAX_REQUEST_PARTS).map((resource) => {
    const path = resource.resource && readPath(reader, resource.resource, RESOURCE.attributes);
    const scopes = resource.scopes.map(({ records }) => records.map((range) => readLine(reader, range, path)));
    const lines = scopes.flat();
    return { body: withoutOffsets(body, resource, scopes), key: computeKey(body, lines), readAtMs: lines[0]?.readAtMs ?? Number.NaN };
  });
}

export function joinBatches(batches: readonly FileBatch[]): Buffer {
  const [first, ...others] = batches;
  return first && others.length === 0 ? first.body : Buffer.concat(batches.map(({ body }) => body));
}

function readPath(reader: WireReader, { start, end }: FieldRange, attributes: number): string | undefined {
  let path: string | undefined;
  reader.message(start, end, () => {
    if (reader.field === attributes) readAttribute(reader, PATH, () => (path = reader.text()));
  });
  return path;
}

function readLine(reader: WireReader, range: FieldRange, path: string | undefined): Line {
  const line: Line = { range, text: undefined, offset: undefined, offsets: [], path, timeAt: undefined, readAtMs: Number.NaN };
  reader.message(range.start, range.end, () => {
    const { field, tagStart, start, end } = reader;
    if (field === LOG_RECORD.body) {
      line.text = undefined;
      reader.message(start, end, () => {
        line.text = reader.field === ANY_VALUE.string ? [reader.start, reader.end] : undefined;
      });
    } else if (field === LOG_RECORD.attributes) {
      const isOffset = readAttribute(reader, OFFSET, () => {
        if (reader.wireType === VARINT) line.offset = reader.integer();
      });
      if (isOffset) line.offsets.push({ tagStart, start, end });
      else if (readAttribute(reader, PATH, () => (line.path = reader.text()), { start, end }) && line.path === path)
        // The resource has it, too.
        line.offsets.push({ tagStart, start, end });
    } else if (reader.wireType === FIXED64) {
      if (field === LOG_RECORD.time) line.timeAt = start;
      else if (field === LOG_RECORD.observedTime) line.readAtMs = Math.floor(Number(reader.bytes.readBigUInt64LE(start)) / 1e6);
    }
  });
  return line;
}

/** Calls `visit` at the value, text or integer, of an attribute with this key. Returns whether it has this key. */
function readAttribute(
  reader: WireReader,
  key: Buffer,
  visit: () => void,
  { start, end }: Pick<FieldRange, "start" | "end"> = reader,
): boolean {
  let hasKey = false;
  let value: [number, number] | undefined;
  // The collector writes the value first.
  reader.message(start, end, () => {
    if (reader.field === KEY_VALUE.value) value = [reader.start, reader.end];
    else if (reader.field === KEY_VALUE.key)
      hasKey = reader.end - reader.start === key.length && key.equals(reader.bytes.subarray(reader.start, reader.end));
  });
  if (hasKey && value)
    reader.message(...value, () => {
      if (reader.field === ANY_VALUE.string || reader.field === ANY_VALUE.int) visit();
    });
  return hasKey;
}

function withoutOffsets(body: Buffer, { rest, scopes, bytes }: ResourceFields, lines: readonly (readonly Line[])[]): Buffer {
  const writer = new WireWriter(bytes + SPARE_BYTES * (scopes.length + 1));
  const end = writer.position;
  for (const [index, scope] of [...scopes.entries()].toReversed()) {
    const scopeEnd = writer.position;
    for (const line of (lines[index] ?? []).toReversed()) copyLine(writer, body, line);
    for (const { tagStart, end: fieldEnd } of scope.rest.toReversed()) writer.copy(body, tagStart, fieldEnd);
    writer.field(RESOURCE_RECORDS.scopes, scopeEnd);
  }
  for (const { tagStart, end: fieldEnd } of rest.toReversed()) writer.copy(body, tagStart, fieldEnd);
  writer.field(REQUEST.resources, end);
  return writer.take();
}

function copyLine(writer: WireWriter, body: Buffer, { range, offsets }: Line): void {
  const recordEnd = writer.position;
  let to = range.end;
  for (let index = offsets.length - 1; index >= 0; index -= 1) {
    const { tagStart, end } = offsets[index] as FieldRange;
    writer.copy(body, end, to);
    to = tagStart;
  }
  writer.copy(body, range.start, to);
  writer.field(SCOPE_RECORDS.records, recordEnd);
}

/** Offset, length and time of each line, in front of its text. */
const LINE_HEAD_BYTES = 24;

function computeKey(body: Buffer, lines: readonly Line[]): string | undefined {
  let bytes = 0;
  for (const { offset, text, path } of lines) {
    if (offset === undefined || text === undefined || path === undefined) return undefined;
    bytes += LINE_HEAD_BYTES + text[1] - text[0];
  }
  if (lines.length === 0) return undefined;
  // Hashed at once: a call per value would cost as much as everything else.
  const hashed = Buffer.allocUnsafe(bytes);
  let at = 0;
  let paths = "";
  let last: string | undefined;
  for (const [index, { offset, text, path, timeAt }] of lines.entries()) {
    const [start, end] = text as [number, number];
    at = hashed.writeDoubleLE(offset as number, at);
    at = hashed.writeDoubleLE(end - start, at);
    if (timeAt === undefined) hashed.fill(0, at, at + 8);
    else body.copy(hashed, at, timeAt, timeAt + 8);
    at += 8;
    at += body.copy(hashed, at, start, end);
    // Consecutive lines have the same path.
    if (path !== last) paths += `${index} ${path?.replace(ROTATED, ".log")}\n`;
    last = path;
  }
  return createHash("sha256").update(paths).update(hashed).digest("base64url").slice(0, KEY_LENGTH);
}

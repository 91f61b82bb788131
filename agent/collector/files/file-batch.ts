// Splits a request with log file lines into its batches, identifies each batch and its read time, and removes file offsets, the byte order
// mark of UTF-8, and the NUL bytes of holes, which a file has if its program keeps its offset after the file was truncated. Invariants: two
// batches have the same key only if they contain the same lines at the same offsets in files of the same name; offsets never leave the node.
// Lines that are read again differ in attribute order and read time, so comparing bytes is not enough.
import { hash } from "node:crypto";
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
import { MAX_FILE_LINE_BYTES, MAX_REQUEST_PARTS } from "../../agent-limits.ts";

/** Header of requests with log file lines; its value is the token that the agent gave to its collector. */
export const FILES_HEADER = "x-atherops-files";

/** The lines of one entry of the collector's disk queue. A request may contain several batches. */
export interface FileBatch {
  /** Undefined if a record of the batch has no file offset. */
  readonly key: string | undefined;
  /** When the first line was read; Unix milliseconds, rounded down. */
  readonly readAtMs: number;
  /** The batch as a request, without the offsets of its lines; the requests of several batches can be joined. Empty if no line is left. */
  readonly body: Buffer;
}

export interface LineCounts {
  /** Lines that the collector split, because they are too long. */
  split: number;
  /** Records of nothing but NUL bytes or a byte order mark, which are omitted. */
  holes: number;
}

/** Suffixes that logrotate and the kubelet add to a renamed file: it is still the same file. */
const ROTATED = /\.log(?:\.1|\.\d{8}-\d{6})$/;
const PATH = Buffer.from("log.file.path");
const NAME = Buffer.from("log.file.name");
const OFFSET = Buffer.from("log.file.record_offset");
const KEY_LENGTH = 20;
const NO_BYTES = Buffer.alloc(0);
/** For the tags and lengths of the messages that contain the records. */
const SPARE_BYTES = 64;

interface Line {
  readonly range: FieldRange;
  /** Start and end of the text; undefined if the body is no text. */
  text: [number, number] | undefined;
  offset: number | undefined;
  /** Attributes that do not leave the node. */
  readonly offsets: FieldRange[];
  /** The field of a text that begins with NUL bytes or a byte order mark. */
  hole: FieldRange | undefined;
  path: string | undefined;
  /** Offsets in the request of the record's own time, and of when it was read. */
  timeAt: number | undefined;
  readAt: number | undefined;
}

/** `body`: a request of the collector, OTLP/protobuf. Throws BodyError. */
export function parseFileRequest(body: Buffer, counts: LineCounts = { split: 0, holes: 0 }): FileBatch[] {
  const reader = new WireReader(body);
  return readResources(reader, MAX_REQUEST_PARTS).map((resource) => {
    const file = resource.resource ? readFile(reader, resource.resource) : {};
    const scopes = resource.scopes.map(({ records }) => records.map((range) => readLine(reader, range, file)));
    const lines = scopes.flat();
    for (const line of lines) {
      if (isHole(line, body)) counts.holes += 1;
      else if (line.text !== undefined && line.text[1] - line.text[0] >= MAX_FILE_LINE_BYTES) counts.split += 1;
    }
    const readAt = lines[0]?.readAt;
    const readAtMs = readAt === undefined ? Number.NaN : Math.floor(Number(body.readBigUInt64LE(readAt)) / 1e6);
    return { body: withoutOffsets(body, resource, scopes), key: computeKey(body, lines), readAtMs };
  });
}

export function joinBatches(batches: readonly FileBatch[]): Buffer {
  const [first, ...others] = batches;
  return first && others.length === 0 ? first.body : Buffer.concat(batches.map(({ body }) => body));
}

/** Attributes of the resource. */
interface FileAttributes {
  path?: string;
  name?: string;
}

function readFile(reader: WireReader, { start, end }: FieldRange): FileAttributes {
  const file: FileAttributes = {};
  reader.message(start, end, () => {
    if (reader.field !== RESOURCE.attributes) return;
    const attribute = { start: reader.start, end: reader.end };
    const isPath = readAttribute(reader, PATH, () => (file.path = reader.text()), attribute);
    if (!isPath) readAttribute(reader, NAME, () => (file.name = reader.text()), attribute);
  });
  return file;
}

function readLine(reader: WireReader, range: FieldRange, file: FileAttributes): Line {
  const line: Line = {
    range,
    text: undefined,
    offset: undefined,
    offsets: [],
    hole: undefined,
    path: file.path,
    timeAt: undefined,
    readAt: undefined,
  };
  reader.message(range.start, range.end, () => {
    const { field, tagStart, start, end } = reader;
    if (field === LOG_RECORD.body) {
      line.text = undefined;
      reader.message(start, end, () => {
        line.text = reader.field === ANY_VALUE.string ? [reader.start, reader.end] : undefined;
      });
      line.hole = undefined;
      if (line.text !== undefined && firstText(reader.bytes, line.text) > line.text[0]) line.hole = { tagStart, start, end };
    } else if (field === LOG_RECORD.attributes) {
      const attribute = { start, end };
      const setOffset = (): void => {
        if (reader.wireType === VARINT) line.offset = reader.integer();
      };
      const isOffset = readAttribute(reader, OFFSET, setOffset, attribute);
      // Conditions on the node need path and name of each record; the resource has them, too.
      let name: string | undefined;
      const isCopy =
        !isOffset &&
        ((readAttribute(reader, PATH, () => (line.path = reader.text()), attribute) && line.path === file.path) ||
          (readAttribute(reader, NAME, () => (name = reader.text()), attribute) && name !== undefined && name === file.name));
      if (isOffset || isCopy) line.offsets.push({ tagStart, start, end });
    } else if (reader.wireType === FIXED64) {
      if (field === LOG_RECORD.time) line.timeAt = start;
      else if (field === LOG_RECORD.observedTime) line.readAt = start;
    }
  });
  return line;
}

/** Calls `visit` at the value, text or integer, of an attribute with this key. Returns whether it has this key. */
function readAttribute(reader: WireReader, key: Buffer, visit: () => void, { start, end }: Pick<FieldRange, "start" | "end">): boolean {
  let hasKey = false;
  let value: [number, number] | undefined;
  // The collector writes the value first.
  reader.message(start, end, () => {
    if (reader.field === KEY_VALUE.value) value = [reader.start, reader.end];
    else if (reader.field === KEY_VALUE.key) hasKey = isEqual(key, reader);
  });
  if (hasKey && value)
    reader.message(...value, () => {
      if (reader.field === ANY_VALUE.string || reader.field === ANY_VALUE.int) visit();
    });
  return hasKey;
}

/** For short keys, a call of Buffer costs more than the comparison. */
function isEqual(key: Buffer, { bytes, start, end }: WireReader): boolean {
  if (end - start !== key.length) return false;
  for (let at = 0; at < key.length; at += 1) if (key[at] !== bytes[start + at]) return false;
  return true;
}

function isHole({ hole, text }: Line, body: Buffer): boolean {
  return hole !== undefined && text !== undefined && firstText(body, text) === text[1];
}

/** Where the text begins after its NUL bytes and a byte order mark; its end if it has nothing else. */
function firstText(body: Buffer, [start, end]: readonly [number, number]): number {
  let at = start;
  while (at < end && body[at] === 0) at += 1;
  return at + 3 <= end && body[at] === 0xef && body[at + 1] === 0xbb && body[at + 2] === 0xbf ? at + 3 : at;
}

function withoutOffsets(body: Buffer, { rest, scopes, bytes }: ResourceFields, lines: readonly (readonly Line[])[]): Buffer {
  if (scopes.length > 0 && lines.every((list) => list.length > 0 && list.every((line) => isHole(line, body)))) return NO_BYTES;
  const writer = new WireWriter(bytes + SPARE_BYTES * (scopes.length + 1));
  const end = writer.position;
  for (const [index, scope] of [...scopes.entries()].toReversed()) {
    const scopeEnd = writer.position;
    for (const line of (lines[index] ?? []).toReversed()) if (!isHole(line, body)) copyLine(writer, body, line);
    for (const { tagStart, end: fieldEnd } of scope.rest.toReversed()) writer.copy(body, tagStart, fieldEnd);
    writer.field(RESOURCE_RECORDS.scopes, scopeEnd);
  }
  for (const { tagStart, end: fieldEnd } of rest.toReversed()) writer.copy(body, tagStart, fieldEnd);
  writer.field(REQUEST.resources, end);
  return writer.take();
}

function copyLine(writer: WireWriter, body: Buffer, { range, offsets, hole, text }: Line): void {
  const recordEnd = writer.position;
  let to = range.end;
  const replaced = hole ? [...offsets, hole].toSorted((a, b) => a.tagStart - b.tagStart) : offsets;
  for (let index = replaced.length - 1; index >= 0; index -= 1) {
    const field = replaced[index] as FieldRange;
    writer.copy(body, field.end, to);
    to = field.tagStart;
    if (field !== hole || text === undefined) continue;
    const valueEnd = writer.position;
    writer.copy(body, firstText(body, text), text[1]);
    writer.field(ANY_VALUE.string, valueEnd);
    writer.field(LOG_RECORD.body, valueEnd);
  }
  writer.copy(body, range.start, to);
  writer.field(SCOPE_RECORDS.records, recordEnd);
}

/** Offset, length and time of each line, in front of its text. */
const LINE_HEAD_BYTES = 24;

function computeKey(body: Buffer, lines: readonly Line[]): string | undefined {
  let bytes = 0;
  let paths = "";
  let last: string | undefined;
  for (const [index, { offset, text, path }] of lines.entries()) {
    if (offset === undefined || text === undefined || path === undefined) return undefined;
    bytes += LINE_HEAD_BYTES + text[1] - text[0];
    // Consecutive lines have the same path.
    if (path !== last) paths += `${index} ${path.replace(ROTATED, ".log")}\n`;
    last = path;
  }
  if (lines.length === 0) return undefined;
  // Hashed at once: a call per value would cost as much as everything else.
  const hashed = Buffer.allocUnsafe(Buffer.byteLength(paths) + bytes);
  let at = hashed.write(paths);
  for (const { offset, text, timeAt } of lines) {
    const [start, end] = text as [number, number];
    at = hashed.writeDoubleLE(offset as number, at);
    at = hashed.writeDoubleLE(end - start, at);
    at = timeAt === undefined ? hashed.writeDoubleLE(0, at) : at + body.copy(hashed, at, timeAt, timeAt + 8);
    at += body.copy(hashed, at, start, end);
  }
  return hash("sha256", hashed, "base64url").slice(0, KEY_LENGTH);
}

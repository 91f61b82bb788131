// Splits a request with log file lines into its batches, identifies each line and who read it when, and removes file offsets, the byte order
// mark of UTF-8, and the NUL bytes of holes, which a file has if its program keeps its offset after the file was truncated. Invariants: two
// lines have the same key only if they have the same text and time at the same offset in files of the same name; neither offsets nor the
// number of the collector's start leave the node. Lines that are read again differ in attribute order and read time, and are cut into other
// batches, so comparing bytes is not enough.
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

/** The resource attribute with the number of the collector's start in which a line was read; the proxy removes it. */
export const START_ATTRIBUTE = "atherops.collector_start";

/** Who read lines, and when. */
export interface Read {
  /** Number of the collector's start; 0 if the batch does not have it. */
  readonly start: number;
  /** When the first line was read; Unix milliseconds, rounded down. */
  readonly readAtMs: number;
}

/** A batch whose lines have offsets. */
export interface BatchId extends Read {
  readonly id: string;
  /** The key of each line. */
  readonly lines: readonly number[];
}

/** The lines of one entry of the collector's disk queue. A request may contain several batches. */
export interface FileBatch {
  /** Undefined if a record of the batch has no file offset. */
  readonly identity: BatchId | undefined;
  /** The batch as a request, without the offsets of its lines; the requests of several batches can be joined. Empty if no line is left. */
  readonly body: Buffer;
  /** Builds the body without some of the lines, which are given by their keys. */
  without(omitted: ReadonlySet<number>): Buffer;
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
const START = Buffer.from(START_ATTRIBUTE);
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
  /** Not a number until it is computed. */
  key: number;
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
    const keys = computeKeys(body, lines);
    const readAt = lines[0]?.readAt;
    const readAtMs = readAt === undefined ? 0 : Math.floor(Number(body.readBigUInt64LE(readAt)) / 1e6);
    const build = (isOmitted: (line: Line) => boolean): Buffer => withoutOffsets(body, { ...resource, file, lines: scopes, isOmitted });
    return {
      identity: keys && identify(file.start ?? 0, readAtMs, keys),
      body: build((line) => isHole(line, body)),
      without: (omitted) => build((line) => isHole(line, body) || omitted.has(line.key)),
    };
  });
}

function identify(start: number, readAtMs: number, lines: readonly number[]): BatchId {
  return { id: `${start} ${readAtMs} ${lines[0]} ${lines.at(-1)}`, start, readAtMs, lines };
}

export function joinBatches(batches: readonly Pick<FileBatch, "body">[]): Buffer {
  const [first, ...others] = batches;
  return first && others.length === 0 ? first.body : Buffer.concat(batches.map(({ body }) => body));
}

/** Attributes of the resource. */
interface FileAttributes {
  path?: string;
  name?: string;
  start?: number;
  /** The attribute with the number of the collector's start. */
  startAt?: FieldRange;
}

function readFile(reader: WireReader, { start, end }: FieldRange): FileAttributes {
  const file: FileAttributes = {};
  for (let at = start; at < end;) {
    at = reader.next(at, end);
    if (reader.field !== RESOURCE.attributes) continue;
    const attribute = { tagStart: reader.tagStart, start: reader.start, end: reader.end };
    const key = readAttribute(reader);
    const isText = reader.field === ANY_VALUE.string;
    if (key === PATH && isText) file.path = reader.text();
    else if (key === NAME && isText) file.name = reader.text();
    else if (key === START && (isText || isInteger(reader))) {
      file.start = isText ? Number(reader.text()) : reader.integer();
      file.startAt = attribute;
    }
  }
  return file;
}

function isInteger({ field, wireType }: WireReader): boolean {
  return field === ANY_VALUE.int && wireType === VARINT;
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
    key: Number.NaN,
  };
  for (let at = range.start; at < range.end;) {
    at = reader.next(at, range.end);
    const { field, tagStart, start, end } = reader;
    if (field === LOG_RECORD.body) {
      readValue(reader, start, end);
      line.text = reader.field === ANY_VALUE.string ? [reader.start, reader.end] : undefined;
      const hasHole = line.text !== undefined && firstText(reader.bytes, line.text) > line.text[0];
      line.hole = hasHole ? { tagStart, start, end } : undefined;
    } else if (field === LOG_RECORD.attributes) {
      if (isOnlyOnNode(reader, readAttribute(reader), line, file)) line.offsets.push({ tagStart, start, end });
    } else if (reader.wireType === FIXED64) {
      if (field === LOG_RECORD.time) line.timeAt = start;
      else if (field === LOG_RECORD.observedTime) line.readAt = start;
    }
  }
  return line;
}

/** Takes the offset and path of a line. Conditions on the node need path and name of each record; the resource has them, too. */
function isOnlyOnNode(reader: WireReader, key: Buffer | undefined, line: Line, file: FileAttributes): boolean {
  const text = (key === PATH || key === NAME) && reader.field === ANY_VALUE.string ? reader.text() : undefined;
  if (key === OFFSET && isInteger(reader)) line.offset = reader.integer();
  if (key === PATH) line.path = text ?? line.path;
  return key === OFFSET || (text !== undefined && text === (key === PATH ? file.path : file.name));
}

const KEYS = [OFFSET, PATH, NAME, START];

/** Which of KEYS the attribute at the reader has; the reader is then at its value. */
function readAttribute(reader: WireReader): Buffer | undefined {
  const { start, end } = reader;
  let key: Buffer | undefined;
  let [valueStart, valueEnd] = [0, 0];
  // The collector writes the value first.
  for (let at = start; at < end;) {
    at = reader.next(at, end);
    if (reader.field === KEY_VALUE.value) [valueStart, valueEnd] = [reader.start, reader.end];
    else if (reader.field === KEY_VALUE.key) key = KEYS.find((name) => isEqual(name, reader));
  }
  if (key !== undefined) readValue(reader, valueStart, valueEnd);
  return key;
}

/** Moves the reader to the last field of an AnyValue; its number is 0 if there is none. */
function readValue(reader: WireReader, start: number, end: number): void {
  reader.field = 0;
  for (let at = start; at < end;) at = reader.next(at, end);
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

interface Contents extends ResourceFields {
  readonly file: FileAttributes;
  /** Lines by scope. */
  readonly lines: readonly (readonly Line[])[];
  readonly isOmitted: (line: Line) => boolean;
}

function withoutOffsets(body: Buffer, { rest, resource, scopes, bytes, file, lines, isOmitted }: Contents): Buffer {
  if (scopes.length > 0 && lines.every((list) => list.length > 0 && list.every(isOmitted))) return NO_BYTES;
  const writer = new WireWriter(bytes + SPARE_BYTES * (scopes.length + 1));
  const end = writer.position;
  for (const [index, scope] of [...scopes.entries()].toReversed()) {
    const scopeEnd = writer.position;
    for (const line of (lines[index] ?? []).toReversed()) if (!isOmitted(line)) copyLine(writer, body, line);
    for (const { tagStart, end: fieldEnd } of scope.rest.toReversed()) writer.copy(body, tagStart, fieldEnd);
    writer.field(RESOURCE_RECORDS.scopes, scopeEnd);
  }
  for (const field of rest.toReversed()) {
    if (field !== resource || !file.startAt) writer.copy(body, field.tagStart, field.end);
    else {
      const resourceEnd = writer.position;
      writer.copy(body, file.startAt.end, field.end);
      writer.copy(body, field.start, file.startAt.tagStart);
      writer.field(RESOURCE_RECORDS.resource, resourceEnd);
    }
  }
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

/** The hash of the path, the offset and the time of a line, in front of its text. */
const LINE_HEAD_BYTES = 24;

function computeKeys(body: Buffer, lines: readonly Line[]): readonly number[] | undefined {
  if (lines.length === 0) return undefined;
  const keys: number[] = [];
  const head = Buffer.alloc(LINE_HEAD_BYTES);
  let last: string | undefined;
  for (const line of lines) {
    const { offset, text, path, timeAt } = line;
    if (offset === undefined || text === undefined || path === undefined) return undefined;
    // Consecutive lines have the same path.
    if (path !== last) {
      const name = Buffer.from(path.replace(ROTATED, ".log"));
      head.writeDoubleLE(new Hash().add(name, 0, name.length).value());
    }
    last = path;
    head.writeDoubleLE(offset, 8);
    if (timeAt === undefined) head.fill(0, 16);
    else body.copy(head, 16, timeAt, timeAt + 8);
    line.key = new Hash().add(head, 0, LINE_HEAD_BYTES).add(body, text[0], text[1]).value();
    keys.push(line.key);
  }
  return keys;
}

/** A hash of 53 bits, computed here because a call of a native function for each line would cost more. Only equal offsets of a file are compared. */
class Hash {
  #a = 0xdeadbeef | 0;
  #b = 0x41c6ce57;

  add(bytes: Buffer, start: number, end: number): this {
    let [a, b] = [this.#a ^ (end - start), this.#b];
    let at = start;
    for (; at + 4 <= end; at += 4) {
      const word = bytes.readInt32LE(at);
      a = Math.imul(a ^ word, 0x9e3779b1);
      b = Math.imul(b ^ word, 0x5f356495);
      a ^= a >>> 15;
      b ^= b >>> 13;
    }
    for (; at < end; at += 1) {
      const byte = bytes[at] as number;
      a = Math.imul(a ^ byte, 0x9e3779b1);
      b = Math.imul(b ^ byte, 0x5f356495);
    }
    this.#a = a;
    this.#b = b;
    return this;
  }

  value(): number {
    let [a, b] = [this.#a, this.#b];
    a = Math.imul(a ^ (a >>> 16), 0x85ebca6b) ^ Math.imul(b ^ (b >>> 13), 0xc2b2ae35);
    b = Math.imul(b ^ (b >>> 16), 0x85ebca6b) ^ Math.imul(a ^ (a >>> 13), 0xc2b2ae35);
    return 2 ** 32 * (b & 0x1fffff) + (a >>> 0);
  }
}

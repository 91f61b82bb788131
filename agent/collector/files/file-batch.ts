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
import { FormerKeys } from "./former-batches.ts";
import { LineHash } from "./line-hash.ts";

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
  /** The keys that agents of the former release gave to batches with the first of these lines. */
  readonly formerKeys: () => FormerKeys;
}

export interface LineCounts {
  /** Lines that the collector split, because they are too long. */
  split: number;
  /** Records of nothing but NUL bytes or a byte order mark, which are omitted. */
  holes: number;
}

const PATH = Buffer.from("log.file.path");
const NAME = Buffer.from("log.file.name");
const OFFSET = Buffer.from("log.file.record_offset");
const START = Buffer.from(START_ATTRIBUTE);
const NO_BYTES = Buffer.alloc(0);
/** For the tags and lengths of the messages that contain the records. */
const SPARE_BYTES = 64;

/** The field of a text that begins with NUL bytes or a byte order mark, and where the rest of the text is. */
interface Hole extends FieldRange {
  readonly first: number;
  readonly textEnd: number;
}

/** `body`: a request of the collector, OTLP/protobuf. Throws BodyError. */
export function parseFileRequest(body: Buffer, counts: LineCounts = { split: 0, holes: 0 }): FileBatch[] {
  const reader = new WireReader(body);
  const batches = readResources(reader, MAX_REQUEST_PARTS).map((resource) => readContents(reader, resource, counts));
  // The bodies follow each other in one buffer, so that joining them copies nothing.
  const writer = new WireWriter(batches.reduce((bytes, batch) => bytes + capacityOf(batch), 0));
  const bodies = batches.toReversed().map((batch) => writeBody(writer, body, batch));
  return batches.map((batch, index) => ({
    identity: batch.lines.hasKeys ? identify(batch.file.start ?? 0, firstReadMs(body, batch.lines), batch.lines.keys) : undefined,
    body: bodies.at(-1 - index) ?? NO_BYTES,
    without: (omitted) => writeBody(new WireWriter(capacityOf(batch)), body, batch, omitted),
    formerKeys: () => {
      const former = new FormerKeys(body);
      readContents(reader, batch, { split: 0, holes: 0 }, former);
      return former;
    },
  }));
}

/** A batch and its lines. */
interface Contents extends ResourceFields {
  readonly file: FileAttributes;
  readonly lines: Lines;
}

type Hash = Pick<LineHash, "keyOf">;

function readContents(reader: WireReader, resource: ResourceFields, counts: LineCounts, hash: Hash = new LineHash(reader.view)): Contents {
  const file = resource.resource ? readFile(reader, resource.resource) : {};
  const lines = new Lines(reader, file, counts, hash);
  for (const { records } of resource.scopes) for (const record of records) lines.read(record);
  return { ...resource, file, lines };
}

function firstReadMs(body: Buffer, { readAt }: Lines): number {
  return readAt === undefined ? 0 : Math.floor(Number(body.readBigUInt64LE(readAt)) / 1e6);
}

function identify(start: number, readAtMs: number, lines: readonly number[]): BatchId {
  return { id: `${start} ${readAtMs} ${lines[0]} ${lines.at(-1)}`, start, readAtMs, lines };
}

export function joinBatches(batches: readonly Pick<FileBatch, "body">[]): Buffer {
  const bodies = batches.map(({ body }) => body).filter(({ length }) => length > 0);
  const [first = NO_BYTES] = bodies;
  let end = first.byteOffset;
  for (const { buffer, byteOffset, length } of bodies) {
    if (buffer !== first.buffer || byteOffset !== end) return Buffer.concat(bodies);
    end += length;
  }
  return Buffer.from(first.buffer, first.byteOffset, end - first.byteOffset);
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

/**
 * The lines of a batch. They are numbers in lists, because an object for each line would make garbage collection a fifth of the agent's work.
 */
class Lines {
  /** The key of each line, if `hasKeys`. */
  readonly keys: number[] = [];
  /** Where fields begin and end that do not leave the node, and at which index those of each line end. */
  readonly cuts: number[] = [];
  readonly cutsEnd: number[] = [];
  readonly holes = new Map<number, Hole>();
  hasKeys = false;
  /** Offset in the request of when the first line was read. */
  readAt: number | undefined;
  readonly #reader: WireReader;
  readonly #file: FileAttributes;
  readonly #counts: LineCounts;
  readonly #hash: Hash;
  #offset: number | undefined;
  #path: string | undefined;

  constructor(reader: WireReader, file: FileAttributes, counts: LineCounts, hash: Hash) {
    this.#reader = reader;
    this.#file = file;
    this.#counts = counts;
    this.#hash = hash;
  }

  read(record: FieldRange): void {
    const reader = this.#reader;
    const index = this.cutsEnd.length;
    this.#offset = undefined as number | undefined;
    this.#path = this.#file.path;
    let hole: FieldRange | undefined;
    // 0: the record has none.
    let textStart = 0;
    let textEnd = 0;
    let timeAt = 0;
    let readAt = 0;
    for (let at = record.start; at < record.end;) {
      at = reader.next(at, record.end);
      const { field, tagStart, start, end } = reader;
      if (field === LOG_RECORD.body) {
        readValue(reader, start, end);
        const isText = reader.field === ANY_VALUE.string;
        textStart = isText ? reader.start : 0;
        textEnd = isText ? reader.end : 0;
        hole = isText && firstText(reader.bytes, textStart, textEnd) > textStart ? { tagStart, start, end } : undefined;
      } else if (field === LOG_RECORD.attributes) {
        if (this.#isOnlyOnNode(readAttribute(reader))) this.cuts.push(tagStart, end);
      } else if (reader.wireType === FIXED64) {
        if (field === LOG_RECORD.time) timeAt = start;
        else if (field === LOG_RECORD.observedTime) readAt = start;
      }
    }
    if (index === 0) this.#takeFirst(readAt);
    if (hole) this.#addHole(index, { ...hole, first: firstText(reader.bytes, textStart, textEnd), textEnd });
    if (textEnd - textStart >= MAX_FILE_LINE_BYTES && !this.isHole(index)) this.#counts.split += 1;
    this.cutsEnd.push(this.cuts.length);
    if (this.#offset === undefined || textStart === 0 || this.#path === undefined) this.hasKeys = false;
    else if (this.hasKeys) this.keys.push(this.#hash.keyOf(this.#path, this.#offset, timeAt, textStart, textEnd));
  }

  #takeFirst(readAt: number): void {
    this.hasKeys = true;
    this.readAt = readAt === 0 ? undefined : readAt;
  }

  /** Whether a line has nothing but NUL bytes and a byte order mark. */
  isHole(index: number): boolean {
    const hole = this.holes.get(index);
    return hole !== undefined && hole.first === hole.textEnd;
  }

  isOmitted(index: number, omitted: ReadonlySet<number> | undefined): boolean {
    return (this.holes.size > 0 && this.isHole(index)) || (omitted !== undefined && omitted.has(this.keys[index] as number));
  }

  #addHole(index: number, hole: Hole): void {
    let at = this.cutsEnd[index - 1] ?? 0;
    while (at < this.cuts.length && (this.cuts[at] as number) < hole.tagStart) at += 2;
    this.cuts.splice(at, 0, hole.tagStart, hole.end);
    this.holes.set(index, hole);
    if (this.isHole(index)) this.#counts.holes += 1;
  }

  /** Takes the offset and path of a line. Conditions on the node need path and name of each record; the resource has them, too. */
  #isOnlyOnNode(key: Buffer | undefined): boolean {
    if (key === undefined) return false;
    const reader = this.#reader;
    const file = this.#file;
    if (key === OFFSET && isInteger(reader)) this.#offset = reader.integer();
    if (key === OFFSET || key === START || reader.field !== ANY_VALUE.string) return key === OFFSET;
    const text = reader.text();
    if (key === PATH) this.#path = text;
    return text === (key === PATH ? file.path : file.name);
  }
}

const KEYS = [OFFSET, PATH, NAME, START];

/** Which of KEYS the attribute at the reader has; the reader is then at its value. */
function readAttribute(reader: WireReader): Buffer | undefined {
  const { start, end } = reader;
  let key: Buffer | undefined;
  let valueStart = 0;
  let valueEnd = 0;
  // The collector writes the value first.
  for (let at = start; at < end;) {
    at = reader.next(at, end);
    if (reader.field === KEY_VALUE.value) {
      valueStart = reader.start;
      valueEnd = reader.end;
    } else if (reader.field === KEY_VALUE.key) key = KEYS.find((name) => isEqual(name, reader));
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

/** Where the text begins after its NUL bytes and a byte order mark; its end if it has nothing else. */
function firstText(body: Buffer, start: number, end: number): number {
  let at = start;
  while (at < end && body[at] === 0) at += 1;
  return at + 3 <= end && body[at] === 0xef && body[at + 1] === 0xbb && body[at + 2] === 0xbf ? at + 3 : at;
}

function capacityOf({ bytes, scopes }: Contents): number {
  return bytes + SPARE_BYTES * (scopes.length + 1);
}

/** Writes the request in front of what the writer has. */
function writeBody(writer: WireWriter, body: Buffer, contents: Contents, omitted?: ReadonlySet<number>): Buffer {
  const { rest, resource, scopes, file, lines } = contents;
  const end = writer.position;
  let [index, kept] = [lines.cutsEnd.length, 0];
  for (const { records, rest: others } of scopes.toReversed()) {
    const scopeEnd = writer.position;
    for (let at = records.length - 1; at >= 0; at -= 1) {
      index -= 1;
      if (lines.isOmitted(index, omitted)) continue;
      writeLine(writer, body, records[at] as FieldRange, lines, index);
      kept += 1;
    }
    if (records.length === 0) kept += 1;
    for (const { tagStart, end: fieldEnd } of others.toReversed()) writer.copy(body, tagStart, fieldEnd);
    writer.field(RESOURCE_RECORDS.scopes, scopeEnd);
  }
  if (scopes.length > 0 && kept === 0) return writer.dropUntil(end);
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
  return writer.take(end);
}

function writeLine(writer: WireWriter, body: Buffer, { start, end }: FieldRange, { cuts, cutsEnd, holes }: Lines, index: number): void {
  const recordEnd = writer.position;
  const hole = holes.size > 0 ? holes.get(index) : undefined;
  let to = end;
  for (let at = (cutsEnd[index] as number) - 2; at >= (cutsEnd[index - 1] ?? 0); at -= 2) {
    const from = cuts[at] as number;
    writer.copy(body, cuts[at + 1] as number, to);
    to = from;
    if (from !== hole?.tagStart) continue;
    const valueEnd = writer.position;
    writer.copy(body, hole.first, hole.textEnd);
    writer.field(ANY_VALUE.string, valueEnd);
    writer.field(LOG_RECORD.body, valueEnd);
  }
  writer.copy(body, start, to);
  writer.field(SCOPE_RECORDS.records, recordEnd);
}

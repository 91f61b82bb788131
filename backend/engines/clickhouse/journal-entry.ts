// What the journal of rows holds of a body's day: its rows as they are inserted, and what tells whether a table has them. Invariant: an
// entry reads back as it was written or not at all, and those behind it do. Nothing within the rows of one is ever read as another.
import { crc32 } from "node:zlib";
import type { NativeColumns, NativeRows } from "./native-block.ts";

export interface JournalEntry {
  readonly orgId: string;
  readonly hostId: string;
  /** Unset: stored always. Decimal digits. */
  readonly bodyHash: string | undefined;
  /** Days since 1970-01-01. */
  readonly day: number;
  /** Of the columns that the rows have, as of formOf: another version's may be others. */
  readonly form: number;
  readonly rows: NativeRows;
}

export function formOf(columns: NativeColumns): number {
  return crc32(JSON.stringify(columns));
}

/** Lengths of header and rows, and the checksum of all that follows these 8 bytes. */
const PREFIX_BYTES = 12;

/** In pieces, to be written one after the other. `mark`: of the folder, see `decodedEntries`. */
export function encodedEntry({ orgId, hostId, bodyHash, day, form, rows }: JournalEntry, mark?: string): readonly Uint8Array[] {
  const { count, bytes, streamLengths } = rows;
  const header = JSON.stringify({ mark, orgId, hostId, bodyHash, day, form, count, streamLengths });
  const headerBytes = Buffer.byteLength(header);
  const head = Buffer.allocUnsafe(PREFIX_BYTES + headerBytes);
  head.writeUInt32LE(headerBytes, 0);
  head.writeUInt32LE(bytes.byteLength, 4);
  head.write(header, PREFIX_BYTES);
  head.writeUInt32LE(checksum(head, bytes), 8);
  return [head, bytes];
}

/**
 * The whole entries; their rows lie in `content`. `wholeBytes`: up to the end of the last. `damagedBytes`: of these, what is none: the disk
 * has changed it, or a power cut left it out and what came after it not. Behind such a place the next entry is the one that begins with
 * `mark`, which no sender knows: whatever else looks like an entry may be part of what somebody sent. It reads each byte twice at most.
 */
export function decodedEntries(content: Buffer, mark?: string): { entries: JournalEntry[]; wholeBytes: number; damagedBytes: number } {
  const entries: JournalEntry[] = [];
  const nextMarked = markedIn(content, mark);
  let [at, wholeBytes, damagedBytes] = [0, 0, 0];
  while (at < content.length) {
    const next = nextMarked(at);
    const found = wholeEntry(content.subarray(at, next));
    if (!found) {
      at = next;
      continue;
    }
    entries.push(found.entry);
    damagedBytes += at - wholeBytes;
    at += found.bytes;
    wholeBytes = at;
  }
  return { entries, wholeBytes, damagedBytes };
}

/** Answers where the next entry with the mark begins behind a place, or the content ends. Asked in order of places. */
function markedIn(content: Buffer, mark: string | undefined): (at: number) => number {
  const begin = `{"mark":"${mark}"`;
  let next = 0;
  return (at) => {
    if (next > at) return next;
    const found = mark === undefined ? -1 : content.indexOf(begin, at + PREFIX_BYTES + 1);
    return (next = found < 0 ? content.length : found - PREFIX_BYTES);
  };
}

/** Of the content's beginning. */
function wholeEntry(content: Buffer): { entry: JournalEntry; bytes: number } | undefined {
  if (content.length < PREFIX_BYTES) return undefined;
  const headerBytes = content.readUInt32LE(0);
  const rowsAt = PREFIX_BYTES + headerBytes;
  const end = rowsAt + content.readUInt32LE(4);
  if (headerBytes === 0 || end > content.length) return undefined;
  const [head, bytes] = [content.subarray(0, rowsAt), content.subarray(rowsAt, end)];
  if (head.readUInt32LE(8) !== checksum(head, bytes)) return undefined;
  const { orgId, hostId, bodyHash, day, form, count, streamLengths } = JSON.parse(head.toString("utf8", PREFIX_BYTES)) as Omit<
    JournalEntry,
    "rows"
  > &
    Omit<NativeRows, "bytes">;
  return { entry: { orgId, hostId, bodyHash, day, form, rows: { count, streamLengths, bytes } }, bytes: end };
}

/** Lengths included: of nothing but zeros, as a power cut may leave them, it is not 0. */
function checksum(head: Buffer, bytes: Uint8Array): number {
  const lengths = crc32(head.subarray(0, 8), 1);
  return crc32(bytes, crc32(head.subarray(PREFIX_BYTES), lengths));
}

/** Of an entry's first row. Columns before `id` have one stream each. */
export function firstRow(columns: NativeColumns, { bytes, streamLengths }: NativeRows): { id: bigint; receivedS: number } {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const startOf = (wanted: string): number => {
    const index = columns.findIndex(([name]) => name === wanted);
    return streamLengths.slice(0, index).reduce((sum, length) => sum + length, 0);
  };
  return { id: view.getBigUint64(startOf("id"), true), receivedS: view.getUint32(startOf("received_at"), true) };
}

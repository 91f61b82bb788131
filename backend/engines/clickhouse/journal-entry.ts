// What the journal of rows holds of a body's day: its rows as they are inserted, and what tells whether a table has them. Invariant: an
// entry reads back as it was written or not at all; with the first that does not, what a segment holds has ended.
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

/** In pieces, to be written one after the other. */
export function encodedEntry({ orgId, hostId, bodyHash, day, form, rows }: JournalEntry): readonly Uint8Array[] {
  const { count, bytes, streamLengths } = rows;
  const header = JSON.stringify({ orgId, hostId, bodyHash, day, form, count, streamLengths });
  const headerBytes = Buffer.byteLength(header);
  const head = Buffer.allocUnsafe(PREFIX_BYTES + headerBytes);
  head.writeUInt32LE(headerBytes, 0);
  head.writeUInt32LE(bytes.byteLength, 4);
  head.write(header, PREFIX_BYTES);
  head.writeUInt32LE(checksum(head, bytes), 8);
  return [head, bytes];
}

/** The whole entries from the beginning on; their rows lie in `content`. `wholeBytes`: what they take of it. */
export function decodedEntries(content: Buffer): { entries: JournalEntry[]; wholeBytes: number } {
  const entries: JournalEntry[] = [];
  let at = 0;
  while (at + PREFIX_BYTES <= content.length) {
    const rowsAt = at + PREFIX_BYTES + content.readUInt32LE(at);
    const end = rowsAt + content.readUInt32LE(at + 4);
    if (end > content.length) break;
    const head = content.subarray(at, rowsAt);
    const bytes = content.subarray(rowsAt, end);
    if (head.readUInt32LE(8) !== checksum(head, bytes)) break;
    const { count, streamLengths, ...told } = JSON.parse(head.toString("utf8", PREFIX_BYTES)) as Omit<JournalEntry, "rows"> &
      Omit<NativeRows, "bytes">;
    entries.push({ ...told, bodyHash: told.bodyHash, rows: { count, streamLengths, bytes } });
    at = end;
  }
  return { entries, wholeBytes: at };
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

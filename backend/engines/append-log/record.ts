// Encodes and decodes the records of a segment: 28 bytes (the folder's marker, lengths of header and body, CRC-32), a header as JSON, and a
// body. Invariant: a record is read back as it was written or not at all, and a damaged record loses only itself. Bytes in a body that look
// like a record are never read as one, because the marker is random, so no sender can write it.
import { crc32 } from "node:zlib";

export const MARKER_BYTES = 16;
const LENGTHS_AT = MARKER_BYTES;
const CHECKSUM_AT = MARKER_BYTES + 8;
const PREFIX_BYTES = MARKER_BYTES + 12;

export interface LogRecord {
  readonly header: unknown;
  /** A view of the segment's content. */
  readonly body: NonSharedBuffer;
}

export interface DecodedSegment {
  readonly records: readonly LogRecord[];
  /** Bytes after the last intact record: a write that was never acknowledged. */
  readonly tornBytes: number;
  /** Bytes before the last intact record that do not belong to an intact record. */
  readonly damagedBytes: number;
}

/** The record in chunks, to be written one after the other. */
export function encodeRecord(header: object, body: Uint8Array, marker: Uint8Array): readonly Uint8Array[] {
  const text = JSON.stringify(header);
  const headerBytes = Buffer.byteLength(text);
  const head = Buffer.allocUnsafe(PREFIX_BYTES + headerBytes);
  head.set(marker);
  head.writeUInt32LE(headerBytes, LENGTHS_AT);
  head.writeUInt32LE(body.byteLength, LENGTHS_AT + 4);
  head.write(text, PREFIX_BYTES);
  head.writeUInt32LE(checksum(head, body), CHECKSUM_AT);
  return [head, body];
}

/**
 * Reads each byte at most three times, however the content is damaged. If the content lacks `marker`, because the file with it could not be
 * read now or when the segment was written, the segment's own is the one of its first record.
 */
export function decodeRecords(content: NonSharedBuffer, marker: Uint8Array | undefined): DecodedSegment {
  const records: LogRecord[] = [];
  const isKnown = marker !== undefined && content.indexOf(marker) >= 0;
  const nextMarker = markersIn(content, isKnown ? marker : content.subarray(0, MARKER_BYTES));
  let [at, wholeBytes, damagedBytes] = [0, 0, 0];
  while (at < content.length) {
    const next = nextMarker(at);
    const found = recordAtStart(content.subarray(at, next));
    if (!found) {
      at = next;
      continue;
    }
    records.push(found.record);
    damagedBytes += at - wholeBytes;
    at += found.bytes;
    wholeBytes = at;
  }
  return { records, tornBytes: content.length - wholeBytes, damagedBytes };
}

/** Returns a function that finds the first marker strictly after an offset, or the end of the content. Offsets must not decrease. */
function markersIn(content: Buffer, marker: Uint8Array): (at: number) => number {
  let next = 0;
  return (at) => {
    if (next > at) return next;
    const found = content.indexOf(marker, at + 1);
    return (next = found < 0 ? content.length : found);
  };
}

function recordAtStart(content: NonSharedBuffer): { record: LogRecord; bytes: number } | undefined {
  if (content.length < PREFIX_BYTES) return undefined;
  const headerBytes = content.readUInt32LE(LENGTHS_AT);
  const bodyAt = PREFIX_BYTES + headerBytes;
  const end = bodyAt + content.readUInt32LE(LENGTHS_AT + 4);
  if (headerBytes === 0 || end > content.length) return undefined;
  const [head, body] = [content.subarray(0, bodyAt), content.subarray(bodyAt, end)];
  if (head.readUInt32LE(CHECKSUM_AT) !== checksum(head, body)) return undefined;
  return { record: { header: JSON.parse(head.toString("utf8", PREFIX_BYTES)) as unknown, body }, bytes: end };
}

/** Includes the lengths and a start value: a power failure can leave zeros, whose checksum must not be 0. */
function checksum(head: Buffer, body: Uint8Array): number {
  const lengths = crc32(head.subarray(LENGTHS_AT, CHECKSUM_AT), 1);
  return crc32(body, crc32(head.subarray(PREFIX_BYTES), lengths));
}

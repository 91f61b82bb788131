// What the host calls (backend/ingest/otlp/fast-decode.ts): where the body goes, its decoding into an index of rows, and then, when the host has
// reserved what they take, the rows of each day. Whatever is unusual ends `decode` by a throw of the host's own.
import { LOGS, readDocument, startDocument } from "./document";
import { startBody } from "./labels";
import { writeLogs } from "./logs";
import { freeAt, INPUT, startIndex } from "./memory";
import { sectionRows, startRows, startWrite, STREAM_LENGTHS } from "./rows";
import { writeSpans } from "./spans";
import { readWireDocument } from "./wire-document";

export { operation, operations } from "./operations";
export { droppedRows, rowsBytes, sectionDay, sectionRows, sections, untimedRows } from "./rows";

/** Where the body begins. */
export function inputAt(): usize {
  return INPUT;
}

/** Where the rows of a day may be written. */
export function rowsAt(): usize {
  return (freeAt() + 15) & ~15;
}

/** Lengths of the streams that were written last, 32 bits each. */
export function streamLengthsAt(): usize {
  return STREAM_LENGTHS;
}

/** Reads a body of `length` bytes: protobuf, or JSON in UTF-8. `rowBytes` is what a row takes in addition to its record; `indexBytes` and `most` are limits. */
export function decode(
  signal: i32,
  isProtobuf: bool,
  length: u32,
  indexBytes: u32,
  most: u32,
  rowBytes: u32,
  receivedAtMs: f64,
  oldestS: f64,
  newestS: f64,
): void {
  startIndex(length, indexBytes);
  startBody();
  startRows(receivedAtMs, oldestS, newestS, most);
  startDocument(signal, rowBytes);
  if (isProtobuf) readWireDocument(length);
  else readDocument(length);
}

/** Writes the rows of a day from `at` on, their ids from `firstId` on in the order of the body; returns how many bytes they take. */
export function write(signal: i32, section: u32, at: usize, firstId: u64): u32 {
  startWrite(section);
  const rows = sectionRows(section);
  const end = signal == LOGS ? writeLogs(at, rows, firstId) : writeSpans(at, rows, firstId);
  return <u32>(end - at);
}

// Exports what the host calls (backend/ingest/otlp/fast-decode.ts): where to put the request body, decoding it into an index of rows and,
// once the host has reserved the memory, writing the rows of each day. `decode` ends on any unusual input with an exception that the host
// throws.
import { shorten } from "./dictionaries";
import { LOGS, readDocument, startDocument } from "./document";
import { startBody } from "./labels";
import { LINE_RESULT, parseLine, storeResult } from "./file-lines";
import { LOG_DICTIONARIES, LOG_STREAMS, writeLogs } from "./logs";
import { freeAt, INPUT, startIndex } from "./memory";
import { nanosecondsOf, sectionRows, startRows, startWrite, STREAM_LENGTHS } from "./rows";
import { SPAN_DICTIONARIES, SPAN_STREAMS, writeSpans } from "./spans";
import { readWireDocument } from "./wire-document";

export { operation, operations } from "./operations";
export { droppedRows, rowsBytes, sectionDay, sectionRows, sections, untimedRows } from "./rows";

/** Where the body begins. */
export function inputAt(): usize {
  return INPUT;
}

/** Where the rows of a day are written. */
export function rowsAt(): usize {
  return (freeAt() + 15) & ~15;
}

/** The lengths of the streams of the last `write`, 32 bits each. */
export function streamLengthsAt(): usize {
  return STREAM_LENGTHS;
}

/**
 * Reads a body of `length` bytes: protobuf, or JSON in UTF-8. `rowBytes` is what a row takes in addition to its record; `indexBytes` and
 * `maxRowsBytes` are limits. `readsLines`: scopes may mark their records as raw lines of files.
 */
export function decode(
  signal: i32,
  isProtobuf: bool,
  length: u32,
  indexBytes: u32,
  maxRowsBytes: u32,
  rowBytes: u32,
  receivedAtMs: f64,
  oldestS: f64,
  newestS: f64,
  readsLines: bool,
): void {
  startIndex(length, indexBytes);
  startBody();
  startRows(receivedAtMs, oldestS, newestS, maxRowsBytes);
  startDocument(signal, rowBytes, readsLines);
  if (isProtobuf) readWireDocument(length);
  else readDocument(length);
}

/**
 * Parses the raw line of `length` bytes where a body would begin; returns the address of the result. `time` and `observed` are those of its
 * record.
 */
export function line(mark: u32, length: u32, indexBytes: u32, time: u64, observed: u64, receivedAtMs: f64): usize {
  startIndex(length, indexBytes);
  parseLine(mark, INPUT, INPUT + length, time, observed, nanosecondsOf(receivedAtMs));
  storeResult();
  return LINE_RESULT;
}

/** Writes the rows of a day at `at`; ids begin with `firstId` in the order of the body. Returns the number of bytes. */
export function write(signal: i32, section: u32, at: usize, firstId: u64): u32 {
  startWrite(section);
  const rows = sectionRows(section);
  const end =
    signal == LOGS
      ? shorten(at, writeLogs(at, rows, firstId), LOG_STREAMS, LOG_DICTIONARIES)
      : shorten(at, writeSpans(at, rows, firstId), SPAN_STREAMS, SPAN_DICTIONARIES);
  return <u32>(end - at);
}

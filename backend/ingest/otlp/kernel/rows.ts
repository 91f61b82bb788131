// Keeps the rows of the index and the days that they belong to, as backend/ingest/otlp/decoded-rows.ts splits them. Invariants: the size of all
// rows is known before one is written; a dropped row leaves nothing behind; the limits are those of the call.
import { fallBack, TOO_LARGE, UNUSUAL } from "../../kernel/bytes";

// The common part of every row; the part of a signal begins at ROW_BYTES.
const NEXT = 0;
const SECTION = 4;
const TIME = 8;
const ORDINAL = 16;
export const ROW_RESOURCE: usize = 20;
export const ROW_SCOPE: usize = 24;
export const ROW_LABELS: usize = 28;
export const ROW_LABEL_COUNT: usize = 32;
export const ROW_BYTES: usize = 36;

/** The host's decoder rejects estimates only from four times as much. */
const MAX_ESTIMATED: u64 = 256 * 1024 * 1024;
const DAY_S: u64 = 86400;
const MAX_SECTIONS: u32 = 8;
/** A day, its number of rows, and the size of each column whose cells vary in length. */
const SECTION_BYTES: u32 = 96;
const SECTIONS: usize = memory.data(768, 8);
const TOTALS: u32 = 8;
/** Stream lengths, which the host reads for each section and write. */
export const STREAM_LENGTHS: usize = memory.data(128, 8);
let streams: usize = 0;

let sectionCount: u32 = 0;
let firstRow: usize = 0;
let lastRow: usize = 0;
let accepted: u32 = 0;
let tooOld: u32 = 0;
let tooFarAhead: u32 = 0;
let emptyIds: u32 = 0;
let untimed: u32 = 0;

let oldestS: f64 = 0;
let newestS: f64 = 0;
let receivedS: u64 = 0;
export let receivedNs: u64 = 0;
let estimated: u64 = 0;
let allBytes: u64 = 0;
let keptBytes: u64 = 0;
let maxRowsBytes: u64 = 0;

export function startRows(receivedAtMs: f64, oldest: f64, newest: f64, maxBytes: u32): void {
  receivedS = <u64>floor(receivedAtMs / 1000);
  receivedNs = nanosecondsOf(receivedAtMs);
  oldestS = oldest;
  newestS = newest;
  maxRowsBytes = maxBytes;
  estimated = 0;
  allBytes = 0;
  keptBytes = 0;
  sectionCount = 0;
  firstRow = 0;
  lastRow = 0;
  accepted = 0;
  tooOld = 0;
  tooFarAhead = 0;
  emptyIds = 0;
  untimed = 0;
}

/** Whole milliseconds as nanoseconds. */
export function nanosecondsOf(ms: f64): u64 {
  return <u64>ms * 1000000;
}

/** Adds an estimate of the size of a row; the host's decoder would reject far more. */
export function estimate(bytes: u64): void {
  estimated += bytes;
  if (estimated > MAX_ESTIMATED) fallBack(TOO_LARGE);
}

/** Adds the real size of a row, including dropped ones. */
export function addSize(bytes: u64, isKept: bool): void {
  allBytes += bytes;
  if (allBytes > maxRowsBytes) fallBack(TOO_LARGE);
  if (isKept) keptBytes += bytes;
}

export function dropEmptyIds(): void {
  emptyIds++;
}

/** Appends a row at `time` (0: when the body was received). Returns false if its time cannot be stored. */
export function addRow(row: usize, time: u64): bool {
  if (time == 0) {
    untimed++;
    time = receivedNs;
  }
  const seconds = time / 1000000000;
  if (<f64>seconds < oldestS) {
    tooOld++;
    return false;
  }
  if (<f64>seconds > newestS) {
    tooFarAhead++;
    return false;
  }
  const section = sectionOf(<i32>(seconds / DAY_S));
  store<u32>(section, load<u32>(section, 4) + 1, 4);
  store<u32>(row, 0, NEXT);
  store<u32>(row, section, SECTION);
  store<u64>(row, time, TIME);
  store<u32>(row, accepted, ORDINAL);
  if (lastRow != 0) store<u32>(lastRow, row, NEXT);
  else firstRow = row;
  lastRow = row;
  accepted++;
  return true;
}

function sectionOf(day: i32): usize {
  for (let index: u32 = 0; index < sectionCount; index++) {
    const section = SECTIONS + index * SECTION_BYTES;
    if (load<i32>(section) == day) return section;
  }
  if (sectionCount == MAX_SECTIONS) fallBack(UNUSUAL);
  const section = SECTIONS + sectionCount * SECTION_BYTES;
  memory.fill(section, 0, SECTION_BYTES);
  store<i32>(section, day);
  sectionCount++;
  return section;
}

/** The day of the row. */
export function rowSection(row: usize): u32 {
  return load<u32>(row, SECTION);
}

export function sectionIndex(row: usize): u32 {
  return (rowSection(row) - <u32>SECTIONS) / SECTION_BYTES;
}

/** Adds to the size of a column of the row's day. */
export function count(row: usize, column: u32, bytes: u32): void {
  const total = load<u32>(row, SECTION) + TOTALS + column * 4;
  store<u32>(total, load<u32>(total) + bytes);
}

// Read by the host.
export function sections(): u32 {
  return sectionCount;
}
export function sectionDay(index: u32): i32 {
  return load<i32>(SECTIONS + index * SECTION_BYTES);
}
export function sectionRows(index: u32): u32 {
  return load<u32>(SECTIONS + index * SECTION_BYTES, 4);
}
export function droppedRows(reason: u32): u32 {
  return reason == 0 ? tooOld : reason == 1 ? tooFarAhead : emptyIds;
}
export function untimedRows(): u32 {
  return untimed;
}
export function rowsBytes(): f64 {
  return <f64>keptBytes;
}

// Writes the rows of one day.
let writing: usize = 0;

export function startWrite(index: u32): void {
  writing = SECTIONS + index * SECTION_BYTES;
  streams = 0;
}

/** Begins the next stream at `at`; the one after it begins `bytes` later. */
export function stream(at: usize, bytes: u32): usize {
  store<u32>(STREAM_LENGTHS + streams * 4, bytes);
  streams++;
  return at + bytes;
}

export function total(column: u32): u32 {
  return load<u32>(writing + TOTALS + column * 4);
}

/** The first row of the day, or the one after `row`; 0 after the last. */
export function nextRow(row: usize): usize {
  row = row == 0 ? firstRow : <usize>load<u32>(row, NEXT);
  while (row != 0 && <usize>load<u32>(row, SECTION) != writing) row = load<u32>(row, NEXT);
  return row;
}

export function rowTime(row: usize): u64 {
  return load<u64>(row, TIME);
}

export function rowOrdinal(row: usize): u64 {
  return load<u32>(row, ORDINAL);
}

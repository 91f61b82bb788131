// Parses raw lines of log files, which the agent marks by the name of their scope: the container runtime's prefix, parts of long lines, and
// the level, time and trace in the text. The result is that of the collector's operators (agent/collector/config/fragments). Invariants:
// reading is linear and never recurses; a line in no known format is stored unchanged; the byte after the line, which becomes 0 while it is
// read, is restored.
import { escape, escapedCode, escapedTo } from "../../kernel/escapes";
import { BACKSLASH, OPEN_OBJECT } from "../../kernel/json";
import { moveDown } from "../../kernel/bytes";
import * as fields from "./line-fields";
import { MAX_SEARCHED_BYTES, readTextLine } from "./line-formats";
import * as lineJson from "./line-json";
import { colourStop, HAS_ESCAPE, NOT_ASCII, scanText, toUtf8, utf8At, utf8Stop, withoutColours } from "./line-text";
import { nanoseconds, readTime } from "./line-time";
import { LINE_COPY, MAX_PARSED_BYTES } from "./memory";

/** Bits of the mark of a scope: its records are lines, with the prefix of a container runtime, and their text is not parsed for fields. */
export const IS_LINES: u32 = 1;
export const IS_CONTAINER: u32 = 2;
export const IS_RAW: u32 = 4;

const SECOND: u64 = 1000000000;
/** A time in a line is ignored if it is further ahead of the reference time, */
const MAX_AHEAD: u64 = 5 * 60 * SECOND;
/** further behind the time at which the line was written, */
const MAX_BEHIND_WRITTEN: u64 = 86400 * SECOND;
/** or further behind the time at which it was read. */
const MAX_BEHIND_READ: u64 = 7 * 86400 * SECOND;

/** The line that was parsed last. */
export let messageAt: usize = 0;
export let messageEnd: usize = 0;
/** When it was written, according to the container runtime; 0 if unknown. */
export let writtenAt: u64 = 0;
/** 1: stdout, 2: stderr, 0: unknown. */
export let stream: u32 = 0;
/** The collector splits a longer line of a file; the next record has the rest. */
const MAX_FILE_LINE_BYTES: u32 = 1024 * 1024;
/** The end of the line is missing. */
export let isCut: bool = false;

/** The mark of a scope with this name and version; 0 for all others. */
export function markOf(name: usize, nameLength: u32, version: usize, versionLength: u32): u32 {
  const isContainer = isText("atherops/cri-lines", name, nameLength);
  if (!isContainer && !isText("atherops/lines", name, nameLength)) return 0;
  return IS_LINES | (isContainer ? IS_CONTAINER : 0) | (isText("raw", version, versionLength) ? IS_RAW : 0);
}

/** Parses the line from `at` to `end`. `time` and `observed` are those of its record (0: none), `received` is when the body arrived. */
export function parseLine(mark: u32, at: usize, end: usize, time: u64, observed: u64, received: u64): void {
  messageAt = at;
  messageEnd = end;
  writtenAt = 0;
  stream = 0;
  isCut = !(mark & IS_CONTAINER) && <u32>(end - at) == MAX_FILE_LINE_BYTES;
  const after = load<u8>(end);
  store<u8>(end, 0);
  if (mark & IS_CONTAINER) readContainerLine(at, end);
  const marks = scanText(messageAt, messageEnd);
  if (marks & NOT_ASCII) {
    toUtf8(messageAt, messageEnd);
    messageAt = utf8At;
    messageEnd = utf8Stop;
  }
  const written = writtenAt != 0 ? writtenAt : time;
  const reference = written != 0 ? written : observed != 0 ? observed : received;
  const behind = written != 0 ? MAX_BEHIND_WRITTEN : MAX_BEHIND_READ;
  fields.startFields(reference > behind ? reference - behind + 1 : 1, reference + MAX_AHEAD - 1);
  if (!(mark & IS_RAW)) readFields(messageAt, messageEnd, (marks & HAS_ESCAPE) != 0, reference);
  store<u8>(end, after);
}

/** The last line for the host: 32-bit numbers, of which a time has two; an address is 0 if there is no id. */
export const LINE_RESULT: usize = memory.data(40, 8);

export function storeResult(): void {
  const time = fields.time != 0 ? fields.time : writtenAt;
  store<u64>(LINE_RESULT, time);
  store<u32>(LINE_RESULT, <u32>messageAt, 8);
  store<u32>(LINE_RESULT, <u32>(messageEnd - messageAt), 12);
  store<u32>(LINE_RESULT, fields.level, 16);
  store<u32>(LINE_RESULT, stream, 20);
  store<u32>(LINE_RESULT, <u32>isCut, 24);
  store<u32>(LINE_RESULT, fields.hasTrace ? <u32>fields.TRACE_TEXT : 0, 28);
  store<u32>(LINE_RESULT, fields.hasSpan ? <u32>fields.SPAN_TEXT : 0, 32);
}

/** Reads the text's beginning, at most MAX_PARSED_BYTES. */
function readFields(at: usize, end: usize, hasEscape: bool, reference: u64): void {
  const isWhole = end - at <= MAX_PARSED_BYTES && !isCut;
  if (end - at > MAX_PARSED_BYTES) end = at + MAX_PARSED_BYTES;
  const stop = end;
  const after = load<u8>(stop);
  store<u8>(stop, 0);
  if (hasEscape) {
    const text = at;
    const textEnd = end;
    at = LINE_COPY;
    end = withoutColours(text, textEnd, at, min(textEnd, text + 2 * MAX_SEARCHED_BYTES));
    // Only of JSON, the rest is read, too.
    if (load<u8>(lineJson.blanks(at)) == OPEN_OBJECT) end = withoutColours(colourStop, textEnd, end, textEnd);
  }
  const start = lineJson.blanks(at);
  if (start < end) {
    if (load<u8>(start) == OPEN_OBJECT) {
      const result = lineJson.readJsonLine(start, end);
      // JSON that ends early is broken unless the rest of the line is elsewhere.
      if (result == lineJson.INVALID || (result == lineJson.ENDED && isWhole)) fields.forgetFields();
    } else readTextLine(start, end, reference, start > at);
  }
  store<u8>(stop, after);
}

function readContainerLine(at: usize, end: usize): void {
  if (at == end) return;
  if (load<u8>(at) == OPEN_OBJECT) return readDocker(at, end);
  const text = readPrefix(at, end);
  if (text == 0) return;
  const time = nanoseconds;
  const name = prefixStream;
  const hasParts = isPart;
  if (hasParts && !areParts(text, end)) return;
  writtenAt = time;
  stream = name;
  messageAt = text;
  if (hasParts) joinParts(text, end);
}

/** Of the last prefix: the stream, and whether the line continues in the next part. */
let prefixStream: u32 = 0;
let isPart: bool = false;

/** Reads `TIME STREAM TAG `, as CRI defines it; returns the address of the text after it, or 0 if there is none. */
function readPrefix(at: usize, end: usize): usize {
  at = readTime(at, end);
  if (at == 0 || end - at < 8) return 0;
  const word = load<u64>(at);
  // " stdout " and " stderr "
  if (word == 0x2074756f64747320) prefixStream = 1;
  else if (word == 0x2072726564747320) prefixStream = 2;
  else return 0;
  at += 8;
  const tag = at;
  while (at < end && load<u8>(at) != 0x20 && load<u8>(at) != 0x0a) at++;
  isPart = load<u8>(tag) == 0x50 && (at - tag == 1 || load<u8>(tag, 1) == 0x3a);
  return at < end && load<u8>(at) == 0x20 ? at + 1 : at;
}

/** Whether each line after the one whose text is at `at` is a part, too. */
function areParts(at: usize, end: usize): bool {
  for (at = lineEnd(at, end); at < end; at = lineEnd(at, end)) {
    at = readPrefix(at + 1, end);
    if (at == 0) return false;
  }
  return true;
}

/** Joins the texts of the parts; that of the first one is at `at`. */
function joinParts(at: usize, end: usize): void {
  isPart = true;
  let to = lineEnd(at, end);
  at = to;
  while (at < end) {
    const text = readPrefix(at + 1, end);
    at = lineEnd(text, end);
    moveDown(to, text, <u32>(at - text));
    to += at - text;
  }
  messageEnd = to;
  isCut = isPart;
}

/** The next newline, or `end`. */
function lineEnd(at: usize, end: usize): usize {
  for (; at < end; at += 16) {
    const mask = i8x16.bitmask(i8x16.eq(v128.load(at), i8x16.splat(0x0a)));
    if (mask != 0) return min(at + ctz(mask), end);
  }
  return end;
}

/** Reads a line of Docker's json-file; falls back for escapes that Docker does not write. */
function readDocker(at: usize, end: usize): void {
  if (lineJson.readDockerLine(at, end) != lineJson.COMPLETE) return;
  if (lineJson.dockerLog == 0 || lineJson.dockerStream == 0 || lineJson.dockerTime == 0) return;
  const length = <u32>(lineJson.dockerStreamEnd - lineJson.dockerStream);
  const isError = isText("stderr", lineJson.dockerStream, length);
  if (!isError && !isText("stdout", lineJson.dockerStream, length)) return;
  if (readTime(lineJson.dockerTime, lineJson.dockerTimeEnd) != lineJson.dockerTimeEnd) return;
  writtenAt = nanoseconds;
  stream = isError ? 2 : 1;
  messageAt = lineJson.dockerLog;
  messageEnd = unescape(messageAt, lineJson.dockerLogEnd);
  // Docker writes a newline after each line, but not after its parts of 16 KiB. They are not joined.
  isCut = messageEnd == messageAt || load<u8>(messageEnd - 1) != 0x0a;
}

/** Replaces the escapes of a JSON string in place; returns its new end. */
function unescape(at: usize, end: usize): usize {
  let to = at;
  while (at < end) {
    if (load<u8>(at) != BACKSLASH) {
      const stop = backslash(at, end);
      moveDown(to, at, <u32>(stop - at));
      to += stop - at;
      at = stop;
    } else if (load<u8>(at, 1) == 0x75) {
      at = escape(at, to);
      to = escapedTo;
    } else {
      store<u8>(to, <u8>escapedCode(at));
      to++;
      at += 2;
    }
  }
  return to;
}

function backslash(at: usize, end: usize): usize {
  for (; at < end; at += 16) {
    const mask = i8x16.bitmask(i8x16.eq(v128.load(at), i8x16.splat(BACKSLASH)));
    if (mask != 0) return min(at + ctz(mask), end);
  }
  return end;
}

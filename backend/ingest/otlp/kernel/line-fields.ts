// Collects level, time, trace and span of a log line from its keys and values, whose names are those of the usual logging libraries. Invariant:
// a field is set only by a valid value; of several keys for a field, the one with the lowest rank counts.
import { wholeNumber, nanoseconds, numberNs, readTime } from "./line-time";

/** Kinds of fields; 0 is none. A key is a kind and, in the bits from KIND_BITS on, its rank. */
export const LEVEL: u32 = 1;
export const TIME: u32 = 2;
export const TRACE: u32 = 3;
export const SPAN: u32 = 4;
export const KIND_BITS: u32 = 3;
const KIND_MASK: u32 = 7;
/** A rank of keys within other objects follows all others. */
const NESTED: u32 = 16;

/** The rank of the value of each kind that was kept. */
const RANKS: usize = memory.data(32, 8);
export const TRACE_BYTES: u32 = 32;
export const SPAN_BYTES: u32 = 16;
/** The digits of ids in lower case. */
export const TRACE_TEXT: usize = memory.data(32, 16);
export const SPAN_TEXT: usize = memory.data(16, 16);

/** Of the current line: 1 (trace) to 6 (fatal), the time in nanoseconds, and whether the texts of ids are set; 0 or false if not found. */
export let level: u32 = 0;
export let time: u64 = 0;
export let hasTrace: bool = false;
export let hasSpan: bool = false;

/** The range of times that a line may have. */
let oldest: u64 = 0;
let newest: u64 = 0;

export function startFields(oldestTime: u64, newestTime: u64): void {
  oldest = oldestTime;
  newest = newestTime;
  forgetFields();
}

/** Takes back what was found. */
export function forgetFields(): void {
  level = 0;
  time = 0;
  hasTrace = false;
  hasSpan = false;
  memory.fill(RANKS, 0xff, 32);
}

export function setLevel(found: u32): void {
  level = found;
}

export function setTime(found: u64): void {
  if (found >= oldest && found <= newest) time = found;
}

/** The kind and rank of a key; 0 for any other key. Keys that contain the id or the level in a nested object may be written with a dot. */
export function keyOf(at: usize, length: u32): u32 {
  const key = plainKey(at, length);
  if (key != 0 || length < 6) return key;
  const dots = i8x16.bitmask(i8x16.eq(v128.load(at), i8x16.splat(0x2e)));
  if (dots == 0) return 0;
  const before = <u32>ctz(dots);
  return before + 1 >= length ? 0 : nestedKey(holderOf(at, before), at + before + 1, length - before - 1);
}

function key(kind: u32, rank: u32): u32 {
  return kind | (rank << KIND_BITS);
}

/** Keys of pino, zap, logrus, log4j2 (ECS and JsonLayout), Serilog, Python, Google and OpenTelemetry. */
function plainKey(at: usize, length: u32): u32 {
  switch (length) {
    case 2:
      if (isText("ts", at, length)) return key(TIME, 1);
      if (isText("@t", at, length)) return key(TIME, 4);
      return isText("@l", at, length) ? key(LEVEL, 9) : 0;
    case 3:
      if (isText("lvl", at, length)) return key(LEVEL, 2);
      if (isText("@tr", at, length)) return key(TRACE, 5);
      return isText("@sp", at, length) ? key(SPAN, 5) : 0;
    case 4:
      return isText("time", at, length) ? key(TIME, 0) : 0;
    case 5:
      return isText("level", at, length) ? key(LEVEL, 0) : 0;
    case 6:
      if (isText("spanId", at, length)) return key(SPAN, 1);
      if (isText("spanID", at, length)) return key(SPAN, 2);
      return isText("SpanId", at, length) ? key(SPAN, 3) : 0;
    case 7:
      if (isText("traceId", at, length)) return key(TRACE, 1);
      if (isText("span_id", at, length)) return key(SPAN, 0);
      if (isText("traceID", at, length)) return key(TRACE, 2);
      return isText("TraceId", at, length) ? key(TRACE, 3) : 0;
    case 8:
      if (isText("severity", at, length)) return key(LEVEL, 1);
      if (isText("trace_id", at, length)) return key(TRACE, 0);
      if (isText("loglevel", at, length)) return key(LEVEL, 5);
      return isText("datetime", at, length) ? key(TIME, 6) : 0;
    case 9:
      if (isText("timestamp", at, length)) return key(TIME, 2);
      if (isText("levelname", at, length)) return key(LEVEL, 4);
      return isText("log_level", at, length) ? key(LEVEL, 6) : 0;
    case 10:
      if (isText("@timestamp", at, length)) return key(TIME, 3);
      if (isText("timeMillis", at, length)) return key(TIME, 5);
      return isText("otelSpanID", at, length) ? key(SPAN, 4) : 0;
    case 11:
      return isText("otelTraceID", at, length) ? key(TRACE, 4) : 0;
    case 12:
      return isText("severityText", at, length) ? key(LEVEL, 8) : 0;
    case 13:
      return isText("severity_text", at, length) ? key(LEVEL, 7) : 0;
    case 28:
      return isText("logging.googleapis.com/trace", at, length) ? key(TRACE, 6) : 0;
    case 29:
      return isText("logging.googleapis.com/spanId", at, length) ? key(SPAN, 6) : 0;
    default:
      return 0;
  }
}

/** Objects that contain fields: those of ECS and log4j2, and those in which libraries put trace ids. 0 for any other. */
const LOG: u32 = 1;
const TRACES: u32 = 2;
const SPANS: u32 = 3;
const INSTANT: u32 = 4;
const IDS: u32 = 5;

export function holderOf(at: usize, length: u32): u32 {
  switch (length) {
    case 2:
      return isText("dd", at, length) ? IDS : 0;
    case 3:
      return isText("log", at, length) ? LOG : isText("mdc", at, length) ? IDS : 0;
    case 4:
      return isText("span", at, length) ? SPANS : isText("otel", at, length) ? IDS : 0;
    case 5:
      return isText("trace", at, length) ? TRACES : 0;
    case 7:
      return isText("instant", at, length) ? INSTANT : 0;
    case 10:
      return isText("attributes", at, length) || isText("contextMap", at, length) ? IDS : 0;
    default:
      return 0;
  }
}

/** The kind and rank of a key of an object. */
export function nestedKey(holder: u32, at: usize, length: u32): u32 {
  switch (holder) {
    case LOG:
      return isText("level", at, length) ? key(LEVEL, NESTED) : 0;
    case TRACES:
      return isText("id", at, length) ? key(TRACE, NESTED) : 0;
    case SPANS:
      return isText("id", at, length) ? key(SPAN, NESTED) : 0;
    case INSTANT:
      return isText("epochSecond", at, length) ? key(TIME, NESTED) : 0;
    case IDS: {
      const plain = plainKey(at, length);
      return (plain & KIND_MASK) < TRACE ? 0 : plain + key(0, NESTED + 1);
    }
    default:
      return 0;
  }
}

/** Keeps the text from `at` to `end` as the value of a key, if it is valid and no better key was found. */
export function takeText(key: u32, at: usize, end: usize): void {
  const kind = key & KIND_MASK;
  if (!isBetter(kind, key >> KIND_BITS)) return;
  if (kind == LEVEL) {
    const found = levelOf(at, end);
    if (found != 0) keepLevel(found, key >> KIND_BITS);
  } else if (kind == TIME) {
    if (readTime(at, end) == end) keepTime(nanoseconds, key >> KIND_BITS);
  } else takeId(kind, key >> KIND_BITS, at, end);
}

/** The same for the number that was read last. */
export function takeNumber(key: u32): void {
  const kind = key & KIND_MASK;
  if (!isBetter(kind, key >> KIND_BITS)) return;
  if (kind == TIME) keepTime(numberNs(), key >> KIND_BITS);
  else if (kind == LEVEL) {
    // The numbers of pino and bunyan.
    const number = wholeNumber();
    if (number >= 10 && number <= 60 && number % 10 == 0) keepLevel(<u32>(number / 10), key >> KIND_BITS);
  }
}

/** A repeated key replaces its earlier value. */
function isBetter(kind: u32, rank: u32): bool {
  return rank <= load<u32>(RANKS + kind * 4);
}

function keepLevel(found: u32, rank: u32): void {
  level = found;
  store<u32>(RANKS + LEVEL * 4, rank);
}

function keepTime(found: u64, rank: u32): void {
  if (found < oldest || found > newest) return;
  time = found;
  store<u32>(RANKS + TIME * 4, rank);
}

function takeId(kind: u32, rank: u32, at: usize, end: usize): void {
  const digits = kind == TRACE ? TRACE_BYTES : SPAN_BYTES;
  // Google Cloud Logging writes projects/PROJECT/traces/ID.
  if (end - at > digits && load<u8>(end - digits - 1) == 0x2f && rank == 6 && kind == TRACE) at = end - digits;
  if (end - at != digits || !copyId(at, digits, kind == TRACE ? TRACE_TEXT : SPAN_TEXT, rank, kind)) return;
  if (kind == TRACE) hasTrace = true;
  else hasSpan = true;
}

/** Copies the hex digits of an id in lower case. Returns false if it is none, or all zeros. */
function copyId(at: usize, length: u32, to: usize, rank: u32, kind: u32): bool {
  let all = i8x16.splat(0);
  for (let index: u32 = 0; index < length; index += 16) {
    const block = v128.load(at + index);
    const lower = v128.or(block, i8x16.splat(0x20));
    const digits = i8x16.lt_u(i8x16.sub(block, i8x16.splat(0x30)), i8x16.splat(10));
    const letters = i8x16.lt_u(i8x16.sub(lower, i8x16.splat(0x61)), i8x16.splat(6));
    if (!i8x16.all_true(v128.or(digits, letters))) return false;
    all = v128.or(all, v128.xor(lower, i8x16.splat(0x30)));
  }
  if (!v128.any_true(all)) return false;
  for (let index: u32 = 0; index < length; index += 16) v128.store(to + index, v128.or(v128.load(at + index), i8x16.splat(0x20)));
  store<u32>(RANKS + kind * 4, rank);
  return true;
}

// Names of each level, in lower case.
const TRACE_WORDS = words("trace", "trac", "trc", "verbose", "finest", "10");
const DEBUG_WORDS = words("debug", "debu", "dbg", "fine", "20");
const INFO_WORDS = words("info", "inf", "information", "informational", "notice", "30");
const WARN_WORDS = words("warn", "wrn", "warning", "40");
const ERROR_WORDS = words("error", "erro", "err", "severe", "50");
const FATAL_WORDS = words("fatal", "fata", "ftl", "critical", "crit", "alert", "emerg", "emergency", "panic", "pani", "dpanic", "60");
const LONGEST_LEVEL: usize = 13;
const INDEXES: v128 = i8x16(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);

/** The level that the text names in any case, with blanks around it; 0 if none. */
export function levelOf(at: usize, end: usize): u32 {
  while (at < end && load<u8>(at) <= 0x20) at++;
  while (end > at && load<u8>(end - 1) <= 0x20) end--;
  if (end - at < 2 || end - at > LONGEST_LEVEL) return 0;
  const isLetter = i8x16.gt_u(v128.load(at), i8x16.splat(0x40));
  const lower = v128.or(v128.load(at), v128.and(isLetter, i8x16.splat(0x20)));
  const named = asWord(lower, <u8>(end - at));
  if (isOneOf(named, INFO_WORDS, 6)) return 3;
  if (isOneOf(named, WARN_WORDS, 4)) return 4;
  if (isOneOf(named, ERROR_WORDS, 5)) return 5;
  if (isOneOf(named, DEBUG_WORDS, 5)) return 2;
  if (isOneOf(named, TRACE_WORDS, 6)) return 1;
  return isOneOf(named, FATAL_WORDS, 12) ? 6 : 0;
}

/** The first `length` bytes, at most 15, as the macro `words` stores a text. */
export function asWord(bytes: v128, length: u8): v128 {
  return i8x16.replace_lane(v128.and(bytes, i8x16.lt_u(INDEXES, i8x16.splat(length))), 15, length);
}

export function isOneOf(word: v128, list: usize, count: usize): bool {
  for (let entry = list; entry < list + count * 16; entry += 16) {
    if (!v128.any_true(v128.xor(word, v128.load(entry)))) return true;
  }
  return false;
}

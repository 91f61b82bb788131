// Validates lines of exposition text in their usual spelling: `name{label="value",…} 1.5 1700000000000`, comments, empty lines. Invariants: it
// accepts only lines that the full parser (backend/ingest/exposition/exposition.ts) accepts unchanged, and stops at any other; it reads only the
// text and the guard bytes after it, because a guard byte (0) ends every loop.

/** Zeros after the text: more than a single step reads ahead. */
const GUARD: u32 = 64;
/** Where each label name of the current line begins and ends. */
const NAMES: usize = (__heap_base + 63) & ~63;
const MAX_NAMES: u32 = 64;
const TEXT: usize = NAMES + 8 * MAX_NAMES;
/** `__name__` */
const METRIC_NAME: u64 = 0x5f5f656d616e5f5f;
/** `node`, `org_`, `host` and `t_id`, as little-endian numbers. */
const NODE: u32 = 0x65646f6e;
const ORG: u32 = 0x5f67726f;
const HOST: u32 = 0x74736f68;
const T_ID: u32 = 0x64695f74;
/** Longer lines are left to the full parser, which rejects them with a message. */
const MAX_LINE_BYTES: usize = 256 * 1024;
/** Smaller times are seconds. */
const FIRST_MILLISECOND: u64 = 2147483648;

const NEWLINE: u8 = 10;
const SPACE: u8 = 32;
const QUOTE: u8 = 34;
const HASH: u8 = 35;
const COMMA: u8 = 44;
const MINUS: u8 = 45;
const DOT: u8 = 46;
const EQUALS: u8 = 61;
const BACKSLASH: u8 = 92;
const OPEN: u8 = 123;
const CLOSE: u8 = 125;

/** `# EO`, as a little-endian number. */
const END_OF_TEXT: u32 = 0x4f452023;
const LETTER_F: u8 = 70;

/** Indexed by the lower and the upper half of a byte: a name may contain the byte if both entries have a bit in common. */
const LOWER_HALF: v128 = i8x16(13, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 2, 2, 2, 2, 6);
const UPPER_HALF: v128 = i8x16(0, 0, 0, 1, 2, 4, 2, 8, 0, 0, 0, 0, 0, 0, 0, 0);

/** Returned by readers of a part of a line that the kernel does not accept. */
const NOT_TAKEN: usize = 0;

let oldestMs: u64 = 0;
let newestMs: u64 = 0;
let maxLabels: u32 = 0;
let maxNameBytes: usize = 0;
let maxValueBytes: usize = 0;
let maxLabelBytes: usize = 0;
let lineCount: u32 = 0;
let sampleCount: u32 = 0;

/** Where the text begins. */
export function textAt(): usize {
  return TEXT;
}

/** Lines that the last `skipLines` read, and how many of them are samples to store. */
export function lines(): u32 {
  return lineCount;
}
export function samples(): u32 {
  return sampleCount;
}

/** Call before reading a text of `length` bytes of UTF-8. */
export function start(length: u32, labels: u32, nameBytes: u32, valueBytes: u32, labelBytes: u32, oldest: f64, newest: f64): void {
  memory.fill(TEXT + length, 0, GUARD);
  maxLabels = labels;
  maxNameBytes = nameBytes;
  maxValueBytes = valueBytes;
  maxLabelBytes = labelBytes;
  oldestMs = oldest <= 0 ? 0 : <u64>oldest;
  newestMs = newest <= 0 ? 0 : <u64>newest;
}

/** Skips accepted lines, beginning at `from`, the start of a line; returns where it stopped. The text ends at `length`. */
export function skipLines(from: u32, length: u32): u32 {
  lineCount = 0;
  sampleCount = 0;
  const end = TEXT + length;
  let at = TEXT + from;
  while (at < end) {
    const first = load<u8>(at);
    const isSample = first != HASH && first != NEWLINE;
    const next = isSample ? sample(at) : first == HASH ? comment(at) : at + 1;
    if (next == NOT_TAKEN || next - at > MAX_LINE_BYTES) break;
    sampleCount += u32(isSample);
    lineCount++;
    at = next;
  }
  return <u32>(at - TEXT);
}

/** `# EOF` is left to the full parser, because it ends the text. */
function comment(at: usize): usize {
  if (load<u32>(at) == END_OF_TEXT && load<u8>(at + 4) == LETTER_F) return NOT_TAKEN;
  while (true) {
    const block = v128.load(at);
    const ends = v128.or(i8x16.eq(block, i8x16.splat(NEWLINE)), i8x16.eq(block, i8x16.splat(0)));
    const mask = i8x16.bitmask(ends);
    if (mask != 0) {
      at += ctz(mask);
      return load<u8>(at) == NEWLINE ? at + 1 : NOT_TAKEN;
    }
    at += 16;
  }
}

/** Reads the sample at `from`; returns the position after its line. */
function sample(from: usize): usize {
  let at = nameEnd(from);
  if (at == from || at - from > maxValueBytes || isDigit(load<u8>(from))) return NOT_TAKEN;
  if (load<u8>(at) == OPEN) {
    at = labels(at);
    // With the punctuation, which may be too much, and then the full parser counts.
    if (at == NOT_TAKEN || at - from > maxLabelBytes) return NOT_TAKEN;
  }
  if (load<u8>(at) != SPACE) return NOT_TAKEN;
  at = number(at + 1);
  if (at == NOT_TAKEN) return NOT_TAKEN;
  if (load<u8>(at) == SPACE) {
    at = time(at + 1);
    if (at == NOT_TAKEN) return NOT_TAKEN;
  }
  return load<u8>(at) == NEWLINE ? at + 1 : NOT_TAKEN;
}

/** From `{` to after `}`. */
function labels(at: usize): usize {
  let count: u32 = 1;
  let seen: u64 = 0;
  do {
    const name = at + 1;
    at = nameEnd(name);
    if (at == name || at - name > maxNameBytes || isDigit(load<u8>(name))) {
      // Some senders write a comma after the last label.
      if (at == name && count > 1 && load<u8>(at) == CLOSE) break;
      return NOT_TAKEN;
    }
    if (count > MAX_NAMES) return NOT_TAKEN;
    const bit: u64 = (<u64>1) << (<u64>((at - name + load<u8>(name) * 5 + load<u8>(at - 1)) & 63));
    if ((seen & bit) != 0 && isRepeated(name, at, count - 1)) return NOT_TAKEN;
    if (at - name <= 8 && isOwn(name, at - name)) return NOT_TAKEN;
    seen |= bit;
    store<u32>(NAMES + 8 * (count - 1), <u32>name);
    store<u32>(NAMES + 8 * (count - 1) + 4, <u32>at);
    if (load<u8>(at) != EQUALS || load<u8>(at + 1) != QUOTE) return NOT_TAKEN;
    const value = at + 2;
    at = valueEnd(value);
    if (load<u8>(at) != QUOTE || at - value > maxValueBytes) return NOT_TAKEN;
    at++;
    count++;
  } while (load<u8>(at) == COMMA);
  return load<u8>(at) == CLOSE && count <= maxLabels ? at + 1 : NOT_TAKEN;
}

/** Names that identify the sender, which the full parser renames, and `__name__`. */
function isOwn(name: usize, length: usize): bool {
  const first = load<u32>(name);
  if (length == 4) return first == NODE;
  if (length == 6) return first == ORG && load<u16>(name + 4) == <u16>(T_ID >> 16);
  if (length == 7) return first == HOST && load<u32>(name + 3) == T_ID;
  return length == 8 && load<u64>(name) == METRIC_NAME;
}

/** Whether one of the first `count` names of the line is the same. */
function isRepeated(name: usize, end: usize, count: u32): bool {
  for (let index: u32 = 0; index < count; index++) {
    const other = load<u32>(NAMES + 8 * index);
    const length = end - name;
    if (load<u32>(NAMES + 8 * index + 4) - other == length && memory.compare(other, name, length) == 0) return true;
  }
  return false;
}

/** The first byte from `at` on that an unquoted name cannot contain. */
function nameEnd(at: usize): usize {
  while (true) {
    const block = v128.load(at);
    const lower = i8x16.swizzle(LOWER_HALF, v128.and(block, i8x16.splat(15)));
    const upper = i8x16.swizzle(UPPER_HALF, i8x16.shr_u(block, 4));
    const mask = i8x16.bitmask(i8x16.eq(v128.and(lower, upper), i8x16.splat(0)));
    if (mask != 0) return at + ctz(mask);
    at += 16;
  }
}

/** The position of the quote that ends a value, or of a byte that it may not contain. A backslash skips the next byte. */
function valueEnd(at: usize): usize {
  while (true) {
    const block = v128.load(at);
    const ends = v128.or(i8x16.eq(block, i8x16.splat(QUOTE)), i8x16.eq(block, i8x16.splat(BACKSLASH)));
    const breaks = v128.or(i8x16.eq(block, i8x16.splat(NEWLINE)), i8x16.eq(block, i8x16.splat(0)));
    const mask = i8x16.bitmask(v128.or(ends, breaks));
    if (mask == 0) {
      at += 16;
      continue;
    }
    at += ctz(mask);
    if (load<u8>(at) != BACKSLASH || load<u8>(at + 1) == NEWLINE || load<u8>(at + 1) == 0) return at;
    at += 2;
  }
}

function isDigit(byte: u8): bool {
  return <u8>(byte - 0x30) < 10;
}

function number(at: usize): usize {
  if (load<u8>(at) == MINUS) at++;
  const whole = at;
  while (isDigit(load<u8>(at))) at++;
  if (at == whole) return NOT_TAKEN;
  if (load<u8>(at) == DOT) {
    at++;
    while (isDigit(load<u8>(at))) at++;
  }
  if ((load<u8>(at) | 0x20) != 0x65) return at;
  at++;
  if (load<u8>(at) == MINUS || load<u8>(at) == 43) at++;
  const exponent = at;
  while (isDigit(load<u8>(at))) at++;
  return at > exponent ? at : NOT_TAKEN;
}

/** Reads a time in milliseconds, which has to be within the retention. */
function time(at: usize): usize {
  let value: u64 = 0;
  const first = at;
  for (; isDigit(load<u8>(at)); at++) {
    value = value * 10 + (load<u8>(at) - 0x30);
    if (at - first > 15) return NOT_TAKEN;
  }
  return value >= FIRST_MILLISECOND && value >= oldestMs && value <= newestMs ? at : NOT_TAKEN;
}

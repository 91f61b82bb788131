// Finds the fields of log lines that are not JSON: klog, logfmt, nginx's error log, and lines that begin with a date or a level. Invariants: only
// the first MAX_SEARCHED_BYTES are read; the byte after the text is 0.
import { isDigit } from "../../kernel/json";
import { isFirstWord, keyOf, levelOf, setLevel, setTime, takeText, TIME } from "./line-fields";
import { nanoseconds, readKlogTime } from "./line-time";

export const MAX_SEARCHED_BYTES: usize = 2048;
/** Words of a logfmt line, pairs and others, that are searched. */
const MAX_PAIRS: u32 = 256;
/** A level is one of the first words of a line. */
const MAX_WORDS_BYTES: usize = 160;
const MAX_WORDS: u32 = 8;
/** A time without a zone counts only if it is this close to the reference, so that it can only be UTC. */
const MAX_ZONELESS_SKEW: u64 = 10 * 60 * 1000000000;

const EQUALS: u8 = 0x3d;
const QUOTE: u8 = 0x22;
const BLANK: u8 = 0x20;

/** Takes the fields of the line from `at` to `end`; `reference` is when it was written or read. */
export function readTextLine(at: usize, end: usize, reference: u64): void {
  if (end - at > MAX_SEARCHED_BYTES) end = at + MAX_SEARCHED_BYTES;
  if (isKlog(at, end)) return readKlog(at, reference);
  if (isKeyLetter(load<u8>(at))) {
    const keyEnd = keyEndOf(at, end);
    if (keyEnd < end && load<u8>(keyEnd) == EQUALS) return readLogfmt(at, end);
  }
  if (isNginx(at, end)) return readNginx(at + 20, end);
  if (isDated(at, end) || isLevelFirst(at, end)) readWords(at, end);
}

/** `I1129 10:00:00.123456 ` */
function isKlog(at: usize, end: usize): bool {
  if (end - at < 22 || load<u8>(at, 5) != BLANK || load<u8>(at, 21) != BLANK) return false;
  const first = load<u8>(at);
  if (first != 0x49 && first != 0x57 && first != 0x45 && first != 0x46) return false;
  for (let index: usize = 1; index < 5; index++) if (!isDigit(load<u8>(at + index))) return false;
  for (let index: usize = 6; index < 21; index++) {
    const byte = load<u8>(at + index);
    if (!isDigit(byte) && byte != 0x3a && byte != 0x2e) return false;
  }
  return true;
}

function readKlog(at: usize, reference: u64): void {
  const first = load<u8>(at);
  setLevel(first == 0x49 ? 3 : first == 0x57 ? 4 : first == 0x45 ? 5 : 6);
  if (!readKlogTime(at + 1, reference)) return;
  const skew = nanoseconds > reference ? nanoseconds - reference : reference - nanoseconds;
  if (skew < MAX_ZONELESS_SKEW) setTime(nanoseconds);
}

function isKeyLetter(byte: u8): bool {
  return <u8>((byte | 0x20) - 0x61) < 26 || byte == 0x5f;
}

/** The end of a key of logfmt: letters, digits and `_.@/-`. */
function keyEndOf(at: usize, end: usize): usize {
  while (at < end) {
    const byte = load<u8>(at);
    // - . / 0 to 9
    if (!isKeyLetter(byte) && <u8>(byte - 0x2d) > 12 && byte != 0x40) return at;
    at++;
  }
  return at;
}

/** A value in quotes is one value, whatever it contains. */
function readLogfmt(at: usize, end: usize): void {
  for (let pair: u32 = 0; pair < MAX_PAIRS && at < end; pair++) {
    const name = at;
    at = wordEnd(at, end);
    if (at >= end) return;
    if (load<u8>(at) != EQUALS) {
      at++;
      continue;
    }
    const length = <u32>(at - name);
    at++;
    const isQuoted = load<u8>(at) == QUOTE;
    const start = isQuoted ? at + 1 : at;
    at = isQuoted ? quotedEnd(start, end) : valueEnd(start, end);
    // A value that is not within the searched part is not known.
    if (isQuoted ? at >= end : at == end && load<u8>(at) > BLANK) return;
    const key = logfmtKey(name, length);
    if (key != 0) takeText(key, start, at);
    at++;
  }
}

function logfmtKey(at: usize, length: u32): u32 {
  return length == 1 && load<u8>(at) == 0x74 ? TIME : keyOf(at, length);
}

/** The next `=` or blank. */
function wordEnd(at: usize, end: usize): usize {
  while (at < end) {
    const block = v128.load(at);
    const mask = i8x16.bitmask(v128.or(i8x16.eq(block, i8x16.splat(EQUALS)), i8x16.le_u(block, i8x16.splat(BLANK))));
    if (mask != 0) return at + ctz(mask);
    at += 16;
  }
  return end;
}

function valueEnd(at: usize, end: usize): usize {
  while (at < end) {
    const mask = i8x16.bitmask(i8x16.le_u(v128.load(at), i8x16.splat(BLANK)));
    if (mask != 0) return min(at + ctz(mask), end);
    at += 16;
  }
  return end;
}

function quotedEnd(at: usize, end: usize): usize {
  while (at < end) {
    const byte = load<u8>(at);
    if (byte == QUOTE) return at;
    at += byte == 0x5c ? 2 : 1;
  }
  return end;
}

/** `2026/11/29 10:00:00 [` */
function isNginx(at: usize, end: usize): bool {
  if (end - at < 24 || load<u8>(at, 4) != 0x2f || load<u8>(at, 7) != 0x2f || load<u16>(at, 19) != 0x5b20) return false;
  return areDigits(at, 4) && areDigits(at + 5, 2) && areDigits(at + 8, 2) && load<u8>(at, 10) == BLANK && areDigits(at + 11, 2);
}

/** The level in lower case, in brackets; `at` is the bracket. */
function readNginx(at: usize, end: usize): void {
  const start = at + 1;
  at = start;
  while (at < end && <u8>(load<u8>(at) - 0x61) < 26) at++;
  if (load<u16>(at) == 0x205d && at < end) setLevel(levelOf(start, at));
}

/** `2026-11-29 10:00:00` or `[2026-11-29T10:00:00` */
function isDated(at: usize, end: usize): bool {
  if (load<u8>(at) == 0x5b) at++;
  if (end - at < 19 || load<u8>(at, 4) != 0x2d || load<u8>(at, 7) != 0x2d) return false;
  const separator = load<u8>(at, 10);
  if ((separator != 0x54 && separator != BLANK) || load<u8>(at, 13) != 0x3a || load<u8>(at, 16) != 0x3a) return false;
  if (!areDigits(at, 4) || !areDigits(at + 5, 2) || !areDigits(at + 8, 2)) return false;
  return areDigits(at + 11, 2) && areDigits(at + 14, 2) && areDigits(at + 17, 2);
}

function areDigits(at: usize, count: usize): bool {
  for (let index: usize = 0; index < count; index++) if (!isDigit(load<u8>(at + index))) return false;
  return true;
}

/** Whether the line begins with a level in capitals, such as `[ERROR] `, `<WARN>` or `INFO:`. */
function isLevelFirst(at: usize, end: usize): bool {
  const bracket = load<u8>(at);
  if (bracket == 0x5b || bracket == 0x3c) at++;
  const start = at;
  while (at < end && <u8>(load<u8>(at) - 0x41) < 26) at++;
  const after = load<u8>(at);
  const isWordLonger = isKeyLetter(after) || isDigit(after) || after == EQUALS || after == 0x2d;
  return !isWordLonger && isFirstWord(start, at);
}

/** Sets the first level in capitals among the first words. */
function readWords(at: usize, end: usize): void {
  if (end - at > MAX_WORDS_BYTES) end = at + MAX_WORDS_BYTES;
  for (let word: u32 = 0; word < MAX_WORDS && at < end; word++) {
    const start = at;
    while (at < end && load<u8>(at) != BLANK && load<u8>(at) != 9) at++;
    if (at == end && load<u8>(at) > BLANK) return;
    const level = wordLevel(start, at);
    if (level != 0) return setLevel(level);
    at++;
  }
}

/** The level of a word such as `[ERROR]`, `ERRO[0007]` or `WARNING:root:`; 0 if it has none. */
function wordLevel(at: usize, end: usize): u32 {
  while (at < end && isBracket(load<u8>(at))) at++;
  const start = at;
  while (at < end && <u8>(load<u8>(at) - 0x41) < 26) at++;
  if (at < end && !isBracket(load<u8>(at))) return 0;
  const next = at < end ? load<u8>(at) : 0;
  if (next != 0 && next != 0x5b && next != 0x3a && bracketsEnd(at, end) != end) return 0;
  return levelOf(start, at);
}

function bracketsEnd(at: usize, end: usize): usize {
  while (at < end && isBracket(load<u8>(at))) at++;
  return at;
}

/** One of []<>:,|- */
function isBracket(byte: u8): bool {
  return byte == 0x5b || byte == 0x5d || byte == 0x3a || byte == 0x3c || byte == 0x3e || byte == 0x2c || byte == 0x7c || byte == 0x2d;
}

// Finds the fields of log lines that are not JSON: klog, logfmt, Redis, and the level in the head of all others. Invariants: only the first
// MAX_SEARCHED_BYTES are read; the byte after the text is 0.
import { COLON, isDigit } from "../../kernel/json";
import { keyOf, setLevel, setTime, takeText, TIME } from "./line-fields";
import { isClock, readHead } from "./line-head";
import { nanoseconds, readKlogTime } from "./line-time";

export const MAX_SEARCHED_BYTES: usize = 2048;
/** Words of a logfmt line, pairs and others, that are searched. */
const MAX_PAIRS: u32 = 256;
/** A time without a zone counts only if it is this close to the reference, so that it can only be UTC. */
const MAX_ZONELESS_SKEW: u64 = 10 * 60 * 1000000000;

const EQUALS: u8 = 0x3d;
const QUOTE: u8 = 0x22;
const BLANK: u8 = 0x20;

/** Takes the fields of the line from `at` to `end`; `reference` is when it was written or read, `isIndented` whether blanks precede it. */
export function readTextLine(at: usize, end: usize, reference: u64, isIndented: bool): void {
  if (end - at > MAX_SEARCHED_BYTES) end = at + MAX_SEARCHED_BYTES;
  if (isKlog(at, end)) return readKlog(at, reference);
  if (isKeyLetter(load<u8>(at))) {
    const keyEnd = keyEndOf(at, end);
    if (keyEnd < end && load<u8>(keyEnd) == EQUALS) return readLogfmt(at, end);
  }
  const mark = redisMark(at, end);
  if (mark != 0) return readRedis(load<u8>(mark));
  readHead(at, end, isIndented);
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

/** `1:M 29 Nov 2026 10:00:00.000 # `; returns the address of the mark before the last blank, or 0. */
function redisMark(at: usize, end: usize): usize {
  const start = at;
  while (at < end && isDigit(load<u8>(at))) at++;
  if (at == start || end - at < 30 || load<u8>(at) != COLON || load<u8>(at, 2) != BLANK) return 0;
  const role = load<u8>(at, 1);
  // One of MSCX
  if (role != 0x4d && role != 0x53 && role != 0x43 && role != 0x58) return 0;
  if (!areDigits(at + 3, 2) || load<u8>(at, 5) != BLANK || load<u8>(at, 9) != BLANK || !areDigits(at + 10, 4)) return 0;
  if (load<u8>(at, 14) != BLANK || !isClock(at + 15) || load<u8>(at, 23) != 0x2e || !areDigits(at + 24, 3)) return 0;
  return load<u8>(at, 27) == BLANK && load<u8>(at, 29) == BLANK ? at + 28 : 0;
}

function areDigits(at: usize, count: usize): bool {
  for (let index: usize = 0; index < count; index++) if (!isDigit(load<u8>(at + index))) return false;
  return true;
}

function readRedis(mark: u8): void {
  if (mark == 0x23) setLevel(4);
  else if (mark == 0x2a) setLevel(3);
  else if (mark == 0x2d || mark == 0x2e) setLevel(2);
}

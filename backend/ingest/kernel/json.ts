// Reads JSON (RFC 8259) as collectors write it, in place. Invariants: parsing is strict, and falls back for anything unusual; a function gets
// the address where its value begins and returns the address after it; strings are unescaped in place, which never needs more space.
import { escape, escapedCode, escapedTo } from "./escapes";
import { moveDown, fallBack, SYNTAX, UNUSUAL } from "./bytes";

export const QUOTE: u8 = 0x22;
export const COMMA: u8 = 0x2c;
export const COLON: u8 = 0x3a;
export const OPEN_ARRAY: u8 = 0x5b;
export const BACKSLASH: u8 = 0x5c;
export const CLOSE_ARRAY: u8 = 0x5d;
export const OPEN_OBJECT: u8 = 0x7b;
export const CLOSE_OBJECT: u8 = 0x7d;
const ZERO: u8 = 0x30;
const MINUS: u8 = 0x2d;
const DOT: u8 = 0x2e;
const NULL: u32 = 0x6c6c756e;
const TRUE: u32 = 0x65757274;
const ALSE: u32 = 0x65736c61;
/** Collectors do not send deeper documents. */
const MAX_DEPTH: i32 = 32;

/** The string that was read last, unescaped. */
export let textAt: usize = 0;
export let textLength: u32 = 0;
/** The member name that was read last. */
export let nameAt: usize = 0;
export let nameLength: u32 = 0;
/** The integer that was read last. */
export let integer: u64 = 0;

export function setText(at: usize, length: u32): void {
  textAt = at;
  textLength = length;
}

export function blanks(at: usize): usize {
  return load<u8>(at) > 0x20 ? at : skipBlanks(at);
}

function skipBlanks(at: usize): usize {
  while (true) {
    const byte = load<u8>(at);
    if (byte != 0x20 && byte != 0x0a && byte != 0x0d && byte != 0x09) return at;
    at++;
  }
}

/** Enters an object or an array: returns its first member, or its end. */
export function open(at: usize, bracket: u8): usize {
  if (load<u8>(at) != bracket) fallBack(UNUSUAL);
  return blanks(at + 1);
}

/** After a member: returns the next one, or the closing bracket `close`. */
export function next(at: usize, close: u8): usize {
  at = blanks(at);
  const byte = load<u8>(at);
  if (byte == close) return at;
  if (byte != COMMA) fallBack(SYNTAX);
  at = blanks(at + 1);
  if (load<u8>(at) == close) fallBack(SYNTAX);
  return at;
}

/**
 * Reads a member's name and colon: returns where its value begins. Falls back for a name with an escape, because it may equal another name.
 */
export function name(at: usize): usize {
  if (load<u8>(at) != QUOTE) fallBack(SYNTAX);
  nameAt = at + 1;
  at = stringStop(at + 1);
  if (load<u8>(at) != QUOTE) fallBack(UNUSUAL);
  nameLength = <u32>(at - nameAt);
  at = blanks(at + 1);
  if (load<u8>(at) != COLON) fallBack(SYNTAX);
  return blanks(at + 1);
}

/** Marks a member as seen; falls back for a duplicate. */
export function once(seen: u32, bit: u32): u32 {
  if (seen & bit) fallBack(UNUSUAL);
  return seen | bit;
}

export function isNull(at: usize): bool {
  return load<u32>(at) == NULL;
}

/** Where a string ends or has an escape or an invalid character. */
export function stringStop(at: usize): usize {
  while (true) {
    const block = v128.load(at);
    const ends = v128.or(i8x16.eq(block, i8x16.splat(QUOTE)), i8x16.eq(block, i8x16.splat(BACKSLASH)));
    const mask = i8x16.bitmask(v128.or(ends, i8x16.lt_u(block, i8x16.splat(0x20))));
    if (mask != 0) return at + ctz(mask);
    at += 16;
  }
}

/** Reads a string from after its opening quote. */
export function stringBody(at: usize): usize {
  const stop = stringStop(at);
  if (load<u8>(stop) != QUOTE) return unescaped(at, stop);
  setText(at, <u32>(stop - at));
  return stop + 1;
}

/** A string; null is read as "". */
export function optionalString(at: usize): usize {
  if (load<u8>(at) == QUOTE) return stringBody(at + 1);
  if (!isNull(at)) fallBack(UNUSUAL);
  setText(at, 0);
  return at + 4;
}

function unescaped(start: usize, at: usize): usize {
  let to = at;
  while (true) {
    const byte = load<u8>(at);
    if (byte == QUOTE) break;
    if (byte == BACKSLASH) {
      at = escape(at, to);
      to = escapedTo;
    } else if (byte < 0x20) fallBack(SYNTAX);
    else {
      const stop = stringStop(at);
      moveDown(to, at, <u32>(stop - at));
      to += stop - at;
      at = stop;
    }
  }
  setText(start, <u32>(to - start));
  return at + 1;
}

export function isDigit(byte: u8): bool {
  return <u8>(byte - ZERO) < 10;
}

/**
 * Skips the value of an unknown member. Falls back if its name has an underscore: it may be the name of a field in protobuf, which is a
 * mistake of the sender.
 */
export function unknown(at: usize): usize {
  for (let index: u32 = 0; index < nameLength; index++) if (load<u8>(nameAt + index) == 0x5f) fallBack(UNUSUAL);
  return skip(at, 0);
}

/** Validates and skips any value. */
export function skip(at: usize, depth: i32): usize {
  const byte = load<u8>(at);
  if (byte == QUOTE) return skipString(at + 1);
  if (byte == OPEN_OBJECT || byte == OPEN_ARRAY) {
    if (depth >= MAX_DEPTH) fallBack(UNUSUAL);
    const close: u8 = byte + 2;
    for (at = blanks(at + 1); load<u8>(at) != close; at = next(at, close)) {
      if (byte == OPEN_OBJECT) {
        if (load<u8>(at) != QUOTE) fallBack(SYNTAX);
        at = blanks(skipString(at + 1));
        if (load<u8>(at) != COLON) fallBack(SYNTAX);
        at = blanks(at + 1);
      }
      at = skip(at, depth + 1);
    }
    return at + 1;
  }
  const word = load<u32>(at);
  if (word == NULL || word == TRUE) return at + 4;
  if (byte == 0x66 && load<u32>(at + 1) == ALSE) return at + 5;
  return numberEnd(at);
}

function skipString(at: usize): usize {
  while (true) {
    at = stringStop(at);
    const byte = load<u8>(at);
    if (byte == QUOTE) return at + 1;
    if (byte != BACKSLASH) fallBack(SYNTAX);
    escapedCode(at);
    at += load<u8>(at + 1) == 0x75 ? 6 : 2;
  }
}

/** Returns the address after a number in any form. */
export function numberEnd(at: usize): usize {
  if (load<u8>(at) == MINUS) at++;
  const whole = at;
  at = digitsEnd(at);
  if (at == whole || (load<u8>(whole) == ZERO && at > whole + 1)) fallBack(SYNTAX);
  if (load<u8>(at) == DOT) {
    const fraction = at + 1;
    at = digitsEnd(fraction);
    if (at == fraction) fallBack(SYNTAX);
  }
  if ((load<u8>(at) | 0x20) == 0x65) {
    at++;
    const sign = load<u8>(at);
    if (sign == 0x2b || sign == MINUS) at++;
    const exponent = at;
    at = digitsEnd(at);
    if (at == exponent) fallBack(SYNTAX);
  }
  return at;
}

function digitsEnd(at: usize): usize {
  while (isDigit(load<u8>(at))) at++;
  return at;
}

/** An unsigned integer of at most 19 digits, as a number or a string; null is 0. The text that was read last is its digits. */
export function unsigned(at: usize): usize {
  if (isNull(at)) {
    integer = 0;
    setText(at, 0);
    return at + 4;
  }
  const isText = load<u8>(at) == QUOTE;
  if (isText) at++;
  const start = at;
  let value: u64 = 0;
  while (areDigits(load<u64>(at)) && at - start < 16) {
    value = value * 100000000 + eightDigits(load<u64>(at));
    at += 8;
  }
  for (; isDigit(load<u8>(at)); at++) {
    value = value * 10 + (load<u8>(at) - ZERO);
    if (at - start >= 19) fallBack(UNUSUAL);
  }
  if (at == start || (load<u8>(start) == ZERO && at > start + 1)) fallBack(UNUSUAL);
  integer = value;
  setText(start, <u32>(at - start));
  if (!isText) return at;
  if (load<u8>(at) != QUOTE) fallBack(UNUSUAL);
  return at + 1;
}

function areDigits(word: u64): bool {
  return (
    (((word & 0xf0f0f0f0f0f0f0f0) ^ 0x3030303030303030) | (((word + 0x0606060606060606) & 0xf0f0f0f0f0f0f0f0) ^ 0x3030303030303030)) == 0
  );
}

function eightDigits(word: u64): u64 {
  word -= 0x3030303030303030;
  word = word * 10 + (word >> 8);
  const low = (word & 0x000000ff000000ff) * 0x000f424000000064;
  const high = ((word >> 16) & 0x000000ff000000ff) * 0x0000271000000001;
  return ((low + high) >> 32) & 0xffffffff;
}

/** Validated but not stored. */
export function unsigned32(at: usize): usize {
  at = unsigned(at);
  if (integer > 0xffffffff) fallBack(UNUSUAL);
  return at;
}

/** An enum's number, not negative; null is 0. */
export function enumeration(at: usize): usize {
  if (load<u8>(at) == QUOTE) fallBack(UNUSUAL);
  at = unsigned(at);
  if (integer > 999999999) fallBack(UNUSUAL);
  return at;
}

/** An id of `length` hex digits, converted to lower case in place; `textLength` is 0 if it is null, empty or zero. */
export function hexId(at: usize, length: u32): usize {
  at = optionalString(at);
  if (textLength == 0) return at;
  if (textLength != length) fallBack(UNUSUAL);
  let all = i8x16.splat(0);
  for (let index: u32 = 0; index < length; index += 16) {
    const block = v128.load(textAt + index);
    const lower = v128.or(block, i8x16.splat(0x20));
    const digits = i8x16.lt_u(i8x16.sub(block, i8x16.splat(0x30)), i8x16.splat(10));
    const letters = i8x16.lt_u(i8x16.sub(lower, i8x16.splat(0x61)), i8x16.splat(6));
    if (!i8x16.all_true(v128.or(digits, letters))) fallBack(UNUSUAL);
    v128.store(textAt + index, lower);
    all = v128.or(all, v128.xor(lower, i8x16.splat(0x30)));
  }
  if (!v128.any_true(all)) textLength = 0;
  return at;
}

/** Whether JavaScript prints the number unchanged: at most 15 digits, no exponent, no redundant zeros, not below 0.000001. */
export function isPlain(at: usize, end: usize): bool {
  const digits = load<u8>(at) == 0x2d ? at + 1 : at;
  if (end - digits > 16) return false;
  // A single 0, but not -0 or 0e1.
  if (end - digits == 1 && load<u8>(digits) == 0x30) return digits == at;
  let hasPoint = false;
  let isZero = true;
  let leading: u32 = 0;
  for (let index = digits; index < end; index++) {
    const byte = load<u8>(index);
    if (byte == 0x2e) hasPoint = true;
    else if (!isDigit(byte)) return false;
    else if (byte != 0x30) isZero = false;
    else if (isZero && hasPoint) leading++;
  }
  if (isZero || leading > 5) return false;
  return hasPoint ? load<u8>(end - 1) != 0x30 : end - digits <= 15;
}

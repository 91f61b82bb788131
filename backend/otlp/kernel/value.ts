// AnyValue of OTLP as text, as backend/otlp/value.ts says it: scalars as they read, lists and maps as plain JSON. Invariant: the text is
// written over the value that it was read from, never before the place that is read next; what would be longer gives up.
import { number } from "./host";
import {
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  isDigit,
  isNull,
  name,
  nameAt,
  nameLength,
  next,
  numberEnd,
  once,
  open,
  OPEN_ARRAY,
  OPEN_OBJECT,
  QUOTE,
  blanks,
  setText,
  skip,
  stringBody,
  textAt,
  textLength,
} from "./json";
import { KEY_STACK, refuse, UNUSUAL } from "./memory";
import {
  isArrayValue,
  isBoolValue,
  isBytesValue,
  isDoubleValue,
  isIntValue,
  isKey,
  isKvlistValue,
  isStringValue,
  isValue,
  isValues,
} from "./names";
import { KEY_BYTES, keyJson, startWriting, write, writeNull, writeString, writeText, written } from "./writer";

/** `{"stringValue":"`: how nearly every value begins. */
const STRING_VALUE: v128 = i8x16(0x7b, 0x22, 0x73, 0x74, 0x72, 0x69, 0x6e, 0x67, 0x56, 0x61, 0x6c, 0x75, 0x65, 0x22, 0x3a, 0x22);
const MOST_DEPTH: i32 = 16;
/** The host writes a number at most so much longer than it was; the name of its kind, which is read, stands before it. */
const MOST_LONGER: u32 = 12;

/** Bits of the kinds of a value. */
export const STRING: u32 = 1;
const BOOL: u32 = 2;
const INT: u32 = 4;
const DOUBLE: u32 = 8;
export const ARRAY: u32 = 16;
export const MAP: u32 = 32;
const BYTES: u32 = 64;

/** Of the scalar that was read last: JSON has it without quotes. */
let isBare: bool = false;

/** An AnyValue, or null: its text. */
export function value(at: usize): usize {
  at = blanks(at);
  let seen: u32 = 0;
  let isSet = false;
  let foundAt = at;
  let foundLength: u32 = 0;
  if (v128.all_true<u8>(i8x16.eq(v128.load(at), STRING_VALUE))) {
    at = stringBody(at + 16);
    if (load<u8>(at) == CLOSE_OBJECT) return at + 1;
    foundAt = textAt;
    foundLength = textLength;
    isSet = true;
    seen = STRING;
    at = next(at, CLOSE_OBJECT);
  } else if (isNull(at)) {
    setText(at, 0);
    return at + 4;
  } else at = open(at, OPEN_OBJECT);
  const start = foundAt;
  for (; load<u8>(at) != CLOSE_OBJECT; at = next(at, CLOSE_OBJECT)) {
    at = name(at);
    const kind = kindOf(nameAt, nameLength);
    seen = once(seen, kind);
    if (kind == 0) at = skip(at, 0);
    else if (isNull(at)) at += 4;
    else {
      if (isSet) refuse(UNUSUAL);
      isSet = true;
      if (kind != ARRAY && kind != MAP) at = scalar(at, kind);
      else {
        startWriting(start);
        at = kind == ARRAY ? listJson(at, 1, KEY_STACK) : mapJson(at, 1, KEY_STACK);
        setText(start, <u32>(written - start));
      }
      foundAt = textAt;
      foundLength = textLength;
    }
  }
  setText(foundAt, foundLength);
  return at + 1;
}

/** 0: none that the kernel knows. */
export function kindOf(at: usize, length: u32): u32 {
  switch (length) {
    case 8:
      return isIntValue(at, length) ? INT : 0;
    case 9:
      return isBoolValue(at, length) ? BOOL : 0;
    case 10:
      return isArrayValue(at, length) ? ARRAY : isBytesValue(at, length) ? BYTES : 0;
    case 11:
      return isStringValue(at, length) ? STRING : isDoubleValue(at, length) ? DOUBLE : isKvlistValue(at, length) ? MAP : 0;
    default:
      return 0;
  }
}

/** The text of a kind that is neither list nor map. */
export function scalar(at: usize, kind: u32): usize {
  isBare = kind != STRING;
  switch (kind) {
    case STRING:
      if (load<u8>(at) != QUOTE) refuse(UNUSUAL);
      return stringBody(at + 1);
    case BOOL: {
      const length: u32 = load<u8>(at) == 0x74 ? 4 : 5;
      if (load<u8>(at) != 0x74 && load<u8>(at) != 0x66) refuse(UNUSUAL);
      setText(at, length);
      return skip(at, 0);
    }
    case INT:
      return signed(at);
    case DOUBLE:
      return double(at);
    default:
      refuse(UNUSUAL);
      return at;
  }
}

/** An integer of at most 15 digits, as a number or a string; of a string, which no double rounds, 18. */
function signed(at: usize): usize {
  const isText = load<u8>(at) == QUOTE;
  if (isText) at++;
  const start = at;
  if (load<u8>(at) == 0x2d) at++;
  const digits = at;
  while (isDigit(load<u8>(at))) at++;
  const count = <u32>(at - digits);
  if (count == 0 || count > <u32>(isText ? 18 : 15)) refuse(UNUSUAL);
  // 0 alone, and neither -0 nor 07.
  if (load<u8>(digits) == 0x30 && (count > 1 || digits != start)) refuse(UNUSUAL);
  setText(start, <u32>(at - start));
  if (!isText) {
    if (load<u8>(at) == 0x2e || (load<u8>(at) | 0x20) == 0x65) refuse(UNUSUAL);
    return at;
  }
  if (load<u8>(at) != QUOTE) refuse(UNUSUAL);
  return at + 1;
}

/** A number as JavaScript writes it; of strings "NaN", "Infinity" and "-Infinity". */
function double(at: usize): usize {
  if (load<u8>(at) == QUOTE) {
    at = stringBody(at + 1);
    isBare = false;
    const start = textLength == 9 ? textAt + 1 : textAt;
    if (textLength == 9 && load<u8>(textAt) != 0x2d) refuse(UNUSUAL);
    const isNaN = textLength == 3 && load<u8>(start) == 0x4e && load<u16>(start + 1) == 0x4e61;
    if (!isNaN && !((textLength == 8 || textLength == 9) && load<u64>(start) == 0x7974696e69666e49)) refuse(UNUSUAL);
    return at;
  }
  const end = numberEnd(at);
  const length = <u32>(end - at);
  if (isPlain(at, end)) setText(at, length);
  else {
    if (length > 64) refuse(UNUSUAL);
    const size = number(at, length);
    if (size > length + MOST_LONGER) refuse(UNUSUAL);
    // "Infinity" is no JSON.
    if (load<u8>(end - 1) == 0x79) isBare = false;
    setText(end - size, size);
  }
  return end;
}

/** Whether JavaScript writes the number as it stands: at most 15 digits, no exponent, no zeros that say nothing, not below 0.000001. */
function isPlain(at: usize, end: usize): bool {
  const digits = load<u8>(at) == 0x2d ? at + 1 : at;
  if (end - digits > 16) return false;
  // 0 alone, and neither -0 nor 0e1.
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

/** An AnyValue or null as JSON. */
function anyJson(at: usize, depth: i32, keys: usize): usize {
  if (isNull(at)) refuse(UNUSUAL);
  let seen: u32 = 0;
  let isSet = false;
  for (at = open(at, OPEN_OBJECT); load<u8>(at) != CLOSE_OBJECT; at = next(at, CLOSE_OBJECT)) {
    at = name(at);
    const kind = kindOf(nameAt, nameLength);
    seen = once(seen, kind);
    if (kind == 0) at = skip(at, 0);
    else if (isNull(at)) at += 4;
    else {
      if (isSet) refuse(UNUSUAL);
      isSet = true;
      at = kindJson(at, kind, depth, keys);
    }
  }
  at++;
  if (!isSet) writeNull(at);
  return at;
}

function kindJson(at: usize, kind: u32, depth: i32, keys: usize): usize {
  if (kind == STRING) {
    if (load<u8>(at) != QUOTE) refuse(UNUSUAL);
    return writeString(at + 1);
  }
  if (kind == ARRAY || kind == MAP) {
    if (depth >= MOST_DEPTH) refuse(UNUSUAL);
    return kind == ARRAY ? listJson(at, depth + 1, keys) : mapJson(at, depth + 1, keys);
  }
  at = scalar(at, kind);
  writeText(textAt, textLength, !isBare, at);
  return at;
}

/** The message of an arrayValue. */
function listJson(at: usize, depth: i32, keys: usize): usize {
  let seen: u32 = 0;
  write(OPEN_ARRAY, at);
  for (at = open(at, OPEN_OBJECT); load<u8>(at) != CLOSE_OBJECT; at = next(at, CLOSE_OBJECT)) {
    at = name(at);
    if (!isValues(nameAt, nameLength)) at = skip(at, 0);
    else {
      seen = once(seen, 1);
      if (isNull(at)) {
        at += 4;
        continue;
      }
      let isFirst = true;
      for (at = open(at, OPEN_ARRAY); load<u8>(at) != CLOSE_ARRAY; at = next(at, CLOSE_ARRAY)) {
        if (!isFirst) write(COMMA, at);
        isFirst = false;
        at = anyJson(at, depth, keys);
      }
      at++;
    }
  }
  at++;
  write(CLOSE_ARRAY, at);
  return at;
}

/** The message of a kvlistValue. */
function mapJson(at: usize, depth: i32, keys: usize): usize {
  let seen: u32 = 0;
  const first = keys;
  write(OPEN_OBJECT, at);
  for (at = open(at, OPEN_OBJECT); load<u8>(at) != CLOSE_OBJECT; at = next(at, CLOSE_OBJECT)) {
    at = name(at);
    if (!isValues(nameAt, nameLength)) at = skip(at, 0);
    else {
      seen = once(seen, 1);
      if (isNull(at)) {
        at += 4;
        continue;
      }
      for (at = open(at, OPEN_ARRAY); load<u8>(at) != CLOSE_ARRAY; at = next(at, CLOSE_ARRAY)) {
        if (keys != first) write(COMMA, at);
        at = pairJson(at, depth, first, keys);
        keys += KEY_BYTES;
      }
      at++;
    }
  }
  at++;
  write(CLOSE_OBJECT, at);
  return at;
}

/** A pair of a map, its key before its value. */
function pairJson(at: usize, depth: i32, first: usize, keys: usize): usize {
  let seen: u32 = 0;
  for (at = open(at, OPEN_OBJECT); load<u8>(at) != CLOSE_OBJECT; at = next(at, CLOSE_OBJECT)) {
    at = name(at);
    if (isKey(nameAt, nameLength)) {
      seen = once(seen, 1);
      if (load<u8>(at) != QUOTE) refuse(UNUSUAL);
      at = keyJson(at + 1, first, keys);
      write(COLON, at);
    } else if (isValue(nameAt, nameLength)) {
      if (seen != 1) refuse(UNUSUAL);
      seen = 3;
      if (isNull(at)) {
        at += 4;
        writeNull(at);
      } else at = anyJson(at, depth, keys + KEY_BYTES);
    } else at = skip(at, 0);
  }
  at++;
  if (seen == 1) writeNull(at);
  else if (seen != 3) refuse(UNUSUAL);
  return at;
}

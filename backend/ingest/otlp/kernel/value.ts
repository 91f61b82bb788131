// AnyValue of OTLP as text, as backend/ingest/otlp/value.ts says it: scalars as they read, lists and maps as plain JSON. Invariant: the text is
// written over the value that it was read from, never before the place that is read next; what would be longer gives up.
import {
  CLOSE_ARRAY,
  CLOSE_OBJECT,
  COLON,
  COMMA,
  isNull,
  name,
  nameAt,
  nameLength,
  next,
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
} from "../../../../common/kernel/json";
import { refuse, UNUSUAL } from "../../../../common/kernel/bytes";
import { KEY_STACK } from "./memory";
import { isKey, isValue, isValues } from "./names";
import { ARRAY, isBare, kindOf, MAP, scalar, STRING } from "./scalar";
import { KEY_BYTES, keyJson, startWriting, write, writeNull, writeString, writeText, written } from "./writer";

/** `{"stringValue":"`: how nearly every value begins. */
const STRING_VALUE: v128 = i8x16(0x7b, 0x22, 0x73, 0x74, 0x72, 0x69, 0x6e, 0x67, 0x56, 0x61, 0x6c, 0x75, 0x65, 0x22, 0x3a, 0x22);
const MOST_DEPTH: i32 = 16;

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
        at = valuesJson(at, kind == MAP, 1, KEY_STACK);
        setText(start, <u32>(written - start));
      }
      foundAt = textAt;
      foundLength = textLength;
    }
  }
  setText(foundAt, foundLength);
  return at + 1;
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
    return valuesJson(at, kind == MAP, depth + 1, keys);
  }
  at = scalar(at, kind);
  writeText(textAt, textLength, !isBare, at);
  return at;
}

/** The message of an arrayValue or a kvlistValue. Keys of a map stand on the stack from `first` on. */
function valuesJson(at: usize, isMap: bool, depth: i32, first: usize): usize {
  let seen: u32 = 0;
  let keys = first;
  let isFirst = true;
  write(isMap ? OPEN_OBJECT : OPEN_ARRAY, at);
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
        if (!isFirst) write(COMMA, at);
        isFirst = false;
        if (isMap) {
          at = pairJson(at, depth, first, keys);
          keys += KEY_BYTES;
        } else at = anyJson(at, depth, first);
      }
      at++;
    }
  }
  at++;
  write(isMap ? CLOSE_OBJECT : CLOSE_ARRAY, at);
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

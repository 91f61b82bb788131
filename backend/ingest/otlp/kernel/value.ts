// AssemblyScript, compiled to WebAssembly (hack/kernel.mjs). Converts OTLP's AnyValue to text, as backend/ingest/otlp/value.ts does:
// scalars as they are written, lists and maps as plain JSON. `fallBack(UNUSUAL)` leaves the document to the TypeScript decoder.
// Invariant: the text overwrites only what was already read; the kernel falls back if it would be longer.
import * as json from "../../kernel/json";
import { fallBack, UNUSUAL } from "../../kernel/bytes";
import { KEY_STACK } from "./memory";
import { ARRAY, isBare, kindOf, MAP, scalar, STRING } from "./scalar";
import { KEY_BYTES, keyJson, startWriting, write, writeNull, writeString, writeText, written } from "./writer";

/** `{"stringValue":"`, as nearly every value begins. */
const STRING_VALUE: v128 = i8x16(0x7b, 0x22, 0x73, 0x74, 0x72, 0x69, 0x6e, 0x67, 0x56, 0x61, 0x6c, 0x75, 0x65, 0x22, 0x3a, 0x22);
const MAX_DEPTH: i32 = 16;

/** Reads the text of an AnyValue, or null. */
export function value(at: usize): usize {
  at = json.blanks(at);
  let seen: u32 = 0;
  let isSet = false;
  let foundAt = at;
  let foundLength: u32 = 0;
  if (v128.all_true<u8>(i8x16.eq(v128.load(at), STRING_VALUE))) {
    at = json.stringBody(at + 16);
    if (load<u8>(at) == json.CLOSE_OBJECT) return at + 1;
    foundAt = json.textAt;
    foundLength = json.textLength;
    isSet = true;
    seen = STRING;
    at = json.next(at, json.CLOSE_OBJECT);
  } else if (json.isNull(at)) {
    json.setText(at, 0);
    return at + 4;
  } else at = json.open(at, json.OPEN_OBJECT);
  const start = foundAt;
  for (; load<u8>(at) != json.CLOSE_OBJECT; at = json.next(at, json.CLOSE_OBJECT)) {
    at = json.name(at);
    const kind = kindOf(json.nameAt, json.nameLength);
    seen = json.once(seen, kind);
    if (kind == 0) at = json.unknown(at);
    else if (json.isNull(at)) at += 4;
    else {
      if (isSet) fallBack(UNUSUAL);
      isSet = true;
      if (kind != ARRAY && kind != MAP) at = scalar(at, kind);
      else {
        startWriting(start);
        at = valuesJson(at, kind == MAP, 1, KEY_STACK);
        json.setText(start, <u32>(written - start));
      }
      foundAt = json.textAt;
      foundLength = json.textLength;
    }
  }
  json.setText(foundAt, foundLength);
  return at + 1;
}

/** Reads an AnyValue as JSON. Falls back on null, which only a list can contain here. */
function anyJson(at: usize, depth: i32, keys: usize): usize {
  if (json.isNull(at)) fallBack(UNUSUAL);
  let seen: u32 = 0;
  let isSet = false;
  for (at = json.open(at, json.OPEN_OBJECT); load<u8>(at) != json.CLOSE_OBJECT; at = json.next(at, json.CLOSE_OBJECT)) {
    at = json.name(at);
    const kind = kindOf(json.nameAt, json.nameLength);
    seen = json.once(seen, kind);
    if (kind == 0) at = json.unknown(at);
    else if (json.isNull(at)) at += 4;
    else {
      if (isSet) fallBack(UNUSUAL);
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
    if (load<u8>(at) != json.QUOTE) fallBack(UNUSUAL);
    return writeString(at + 1);
  }
  if (kind == ARRAY || kind == MAP) {
    if (depth >= MAX_DEPTH) fallBack(UNUSUAL);
    return valuesJson(at, kind == MAP, depth + 1, keys);
  }
  at = scalar(at, kind);
  writeText(json.textAt, json.textLength, !isBare, at);
  return at;
}

/** Reads the message of an arrayValue or a kvlistValue. The keys of a map are on the stack from `first` on. */
function valuesJson(at: usize, isMap: bool, depth: i32, first: usize): usize {
  let seen: u32 = 0;
  let keys = first;
  let isFirst = true;
  write(isMap ? json.OPEN_OBJECT : json.OPEN_ARRAY, at);
  for (at = json.open(at, json.OPEN_OBJECT); load<u8>(at) != json.CLOSE_OBJECT; at = json.next(at, json.CLOSE_OBJECT)) {
    at = json.name(at);
    if (!isText("values", json.nameAt, json.nameLength)) at = json.unknown(at);
    else {
      seen = json.once(seen, 1);
      if (json.isNull(at)) {
        at += 4;
        continue;
      }
      for (at = json.open(at, json.OPEN_ARRAY); load<u8>(at) != json.CLOSE_ARRAY; at = json.next(at, json.CLOSE_ARRAY)) {
        if (!isFirst) write(json.COMMA, at);
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
  write(isMap ? json.CLOSE_OBJECT : json.CLOSE_ARRAY, at);
  return at;
}

/** Reads a pair of a map whose key precedes its value. */
function pairJson(at: usize, depth: i32, first: usize, keys: usize): usize {
  let seen: u32 = 0;
  for (at = json.open(at, json.OPEN_OBJECT); load<u8>(at) != json.CLOSE_OBJECT; at = json.next(at, json.CLOSE_OBJECT)) {
    at = json.name(at);
    if (isText("key", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 1);
      if (load<u8>(at) != json.QUOTE) fallBack(UNUSUAL);
      at = keyJson(at + 1, first, keys);
      write(json.COLON, at);
    } else if (isText("value", json.nameAt, json.nameLength)) {
      if (seen != 1) fallBack(UNUSUAL);
      seen = 3;
      if (json.isNull(at)) {
        at += 4;
        writeNull(at);
      } else at = anyJson(at, depth, keys + KEY_BYTES);
    } else at = json.unknown(at);
  }
  at++;
  if (seen == 1) writeNull(at);
  else if (seen != 3) fallBack(UNUSUAL);
  return at;
}

// Reads the kinds of an AnyValue, and the text of those that are neither list nor map. Invariant: no text extends beyond its value.
import { number } from "./host";
import * as json from "../../kernel/json";
import { isPlain } from "../../kernel/json";
import { fallBack, UNUSUAL } from "../../kernel/bytes";

/** The host makes a number at most this much longer. The name of its kind precedes it and has been read, so it may be overwritten. */
const MAX_LONGER: u32 = 12;

/** Bits of the kinds of a value. */
export const STRING: u32 = 1;
const BOOL: u32 = 2;
const INT: u32 = 4;
const DOUBLE: u32 = 8;
export const ARRAY: u32 = 16;
export const MAP: u32 = 32;
const BYTES: u32 = 64;

/** Whether the last scalar is written without quotes in JSON. */
export let isBare: bool = false;

/** The kind of a value by its name; 0 if the kernel does not know it. */
export function kindOf(at: usize, length: u32): u32 {
  switch (length) {
    case 8:
      return isText("intValue", at, length) ? INT : 0;
    case 9:
      return isText("boolValue", at, length) ? BOOL : 0;
    case 10:
      return isText("arrayValue", at, length) ? ARRAY : isText("bytesValue", at, length) ? BYTES : 0;
    case 11:
      return isText("stringValue", at, length)
        ? STRING
        : isText("doubleValue", at, length)
          ? DOUBLE
          : isText("kvlistValue", at, length)
            ? MAP
            : 0;
    default:
      return 0;
  }
}

/** Reads the text of a kind that is neither list nor map. */
export function scalar(at: usize, kind: u32): usize {
  isBare = kind != STRING;
  switch (kind) {
    case STRING:
      if (load<u8>(at) != json.QUOTE) fallBack(UNUSUAL);
      return json.stringBody(at + 1);
    case BOOL: {
      const length: u32 = load<u8>(at) == 0x74 ? 4 : 5;
      if (load<u8>(at) != 0x74 && load<u8>(at) != 0x66) fallBack(UNUSUAL);
      json.setText(at, length);
      return json.skip(at, 0);
    }
    case INT:
      return signed(at);
    case DOUBLE:
      return double(at);
    default:
      fallBack(UNUSUAL);
      return at;
  }
}

/** Reads an integer of at most 15 digits, as a number or a string; as a string, which no double rounds, 18. */
function signed(at: usize): usize {
  const isText = load<u8>(at) == json.QUOTE;
  if (isText) at++;
  const start = at;
  if (load<u8>(at) == 0x2d) at++;
  const digits = at;
  while (json.isDigit(load<u8>(at))) at++;
  const count = <u32>(at - digits);
  if (count == 0 || count > <u32>(isText ? 18 : 15)) fallBack(UNUSUAL);
  // Accepts 0, but neither -0 nor 07.
  if (load<u8>(digits) == 0x30 && (count > 1 || digits != start)) fallBack(UNUSUAL);
  json.setText(start, <u32>(at - start));
  if (!isText) {
    if (load<u8>(at) == 0x2e || (load<u8>(at) | 0x20) == 0x65) fallBack(UNUSUAL);
    return at;
  }
  if (load<u8>(at) != json.QUOTE) fallBack(UNUSUAL);
  return at + 1;
}

/** Reads a number as JavaScript writes it; as a string, also "NaN", "Infinity" and "-Infinity". */
function double(at: usize): usize {
  if (load<u8>(at) == json.QUOTE) {
    at = json.stringBody(at + 1);
    isBare = false;
    const start = json.textLength == 9 ? json.textAt + 1 : json.textAt;
    if (json.textLength == 9 && load<u8>(json.textAt) != 0x2d) fallBack(UNUSUAL);
    const isNaN = json.textLength == 3 && load<u8>(start) == 0x4e && load<u16>(start + 1) == 0x4e61;
    if (!isNaN && !((json.textLength == 8 || json.textLength == 9) && load<u64>(start) == 0x7974696e69666e49)) fallBack(UNUSUAL);
    return at;
  }
  const end = json.numberEnd(at);
  const length = <u32>(end - at);
  if (isPlain(at, end)) json.setText(at, length);
  else {
    if (length > 64) fallBack(UNUSUAL);
    const size = number(at, length);
    if (size > length + MAX_LONGER) fallBack(UNUSUAL);
    // "Infinity" is not valid in JSON without quotes.
    if (load<u8>(end - 1) == 0x79) isBare = false;
    json.setText(end - size, size);
  }
  return end;
}

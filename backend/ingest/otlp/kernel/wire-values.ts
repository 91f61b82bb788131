// Reads strings, ids, numbers and AnyValues of OTLP/protobuf as text, as value.ts does for JSON. Invariants: text that differs from the
// bytes of the input is stored at the end of the index; the kernel falls back for values of bytes, and on a value of two kinds.
import { fallBack, UNUSUAL } from "../../kernel/bytes";
import * as json from "../../kernel/json";
import * as wire from "../../kernel/wire";
import { double } from "./host";
import { takeText } from "./memory";
import { listText } from "./wire-json";

const DIGITS: u32 = 20;
const DOUBLE_BYTES: u32 = 32;
const MAX_ENUMERATION: u64 = 999999999;
/** The first field of a KeyValue and of an AnyValue, and the second of a KeyValue. */
const STRING_TAG: u8 = 0x0a;
const VALUE_TAG: u8 = 0x12;

const TRUE = text("true");
const FALSE = text("false");
const HEX: v128 = i8x16(0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66);

/** Reads the string from `at` to `end`. */
export function wireString(at: usize, end: usize): void {
  wire.expect(wire.BYTES);
  wire.checkText(at, <u32>(end - at));
  json.setText(at, <u32>(end - at));
}

/** Reads the id of `digits` hex digits from `at` to `end`; the place is unchanged if it is empty or all zeros. */
export function wireId(at: usize, end: usize, digits: u32, place: usize): void {
  wire.expect(wire.BYTES);
  if (at == end) return;
  if ((<u32>(end - at)) << 1 != digits) fallBack(UNUSUAL);
  if ((load<u64>(at) | load<u64>(end - 8)) == 0) return;
  const to = takeText(digits);
  store<u32>(place, to);
  for (let index: u32 = 0; index << 1 < digits; index += 8) {
    const bytes = i64x2.splat(load<i64>(at + index));
    const high = i8x16.shr_u(bytes, 4);
    const low = v128.and(bytes, i8x16.splat(15));
    v128.store(to + (index << 1), i8x16.swizzle(HEX, i8x16.shuffle(high, low, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23)));
  }
}

/** Writes an unsigned integer as decimal digits. */
export function digitsText(value: u64): void {
  const end = takeText(DIGITS) + DIGITS;
  let at = end;
  do {
    at--;
    store<u8>(at, <u8>(0x30 + (value % 10)));
    value /= 10;
  } while (value != 0);
  json.setText(at, <u32>(end - at));
}

/** Reads the number of an enum, which is not negative. */
export function wireEnumeration(): u32 {
  wire.expect(wire.VARINT);
  if (wire.integer > MAX_ENUMERATION) fallBack(UNUSUAL);
  return <u32>wire.integer;
}

/** Reads the text of the AnyValue from `at` to `end`. */
export function wireValue(at: usize, end: usize): void {
  if (isShort(at, STRING_TAG) && shortEnd(at) == end) {
    wire.checkText(at + 2, <u32>(end - at - 2));
    return json.setText(at + 2, <u32>(end - at - 2));
  }
  let isSet = false;
  let textStart = at;
  let size: u32 = 0;
  while (at < end) {
    at = wire.field(at, end);
    if (wire.number == 0 || wire.number > 7) continue;
    if (isSet) fallBack(UNUSUAL);
    isSet = true;
    if (wire.number == 1) wireString(wire.content, at);
    else if (wire.number <= 4) scalarText();
    else listText(wire.content, at);
    textStart = json.textAt;
    size = json.textLength;
  }
  json.setText(textStart, size);
}

/** Whether a field begins with this one-byte tag and a length of one byte, as nearly every key and value does. */
function isShort(at: usize, tag: u8): bool {
  return load<u8>(at) == tag && load<u8>(at + 1) < 0x80;
}

/** The end of a field for which `isShort` is true. */
function shortEnd(at: usize): usize {
  return at + 2 + load<u8>(at + 1);
}

/** Writes the text of the last boolean, integer or double. */
export function scalarText(): void {
  if (wire.number == 2) {
    wire.expect(wire.VARINT);
    if (wire.integer != 0) json.setText(TRUE, 4);
    else json.setText(FALSE, 5);
  } else if (wire.number == 3) {
    wire.expect(wire.VARINT);
    const isNegative = <i64>wire.integer < 0;
    digitsText(isNegative ? 0 - wire.integer : wire.integer);
    if (!isNegative) return;
    // A number of twenty digits is never negative, and nineteen digits leave a byte for the sign.
    store<u8>(json.textAt - 1, 0x2d);
    json.setText(json.textAt - 1, json.textLength + 1);
  } else {
    wire.expect(wire.FIXED64);
    const to = takeText(DOUBLE_BYTES);
    json.setText(to, double(load<f64>(wire.content), to));
  }
}

/** The last pair: its key, and the message of its value, which may be empty. */
export let pairKey: usize = 0;
export let pairKeyLength: u32 = 0;
export let pairValue: usize = 0;
export let pairEnd: usize = 0;

/** Reads the KeyValue from `at` to `end`. */
export function readPair(at: usize, end: usize): void {
  if (isShort(at, STRING_TAG) && shortEnd(at) < end) {
    const value = shortEnd(at);
    if (isShort(value, VALUE_TAG) && shortEnd(value) == end) {
      pairKey = at + 2;
      pairKeyLength = <u32>(value - pairKey);
      wire.checkText(pairKey, pairKeyLength);
      pairValue = value + 2;
      pairEnd = end;
      return;
    }
  }
  pairKey = at;
  pairKeyLength = 0;
  pairValue = at;
  pairEnd = at;
  let seen: u32 = 0;
  while (at < end) {
    at = wire.field(at, end);
    if (wire.number == 1) {
      seen = json.once(seen, 1);
      wireString(wire.content, at);
      pairKey = json.textAt;
      pairKeyLength = json.textLength;
    } else if (wire.number == 2) {
      seen = json.once(seen, 2);
      wire.expect(wire.BYTES);
      pairValue = wire.content;
      pairEnd = at;
    }
  }
}

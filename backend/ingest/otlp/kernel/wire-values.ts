// AnyValue of OTLP/protobuf as text, as value.ts makes it of JSON, and as JSON within lists, maps and events. Texts that are not as they stand in
// the input are written behind the rows of the index, and kept at its end. Invariants: nothing is written over texts that are kept; bytes as a
// value, keys that come twice and values of two kinds give up.
import * as json from "../../../../common/kernel/json";
import { refuse, same, TOO_LARGE, UNUSUAL } from "../../../../common/kernel/bytes";
import * as wire from "../../../../common/kernel/wire";
import { placeText } from "./fields";
import { double } from "./host";
import { giveBackTexts, indexEnd, KEY_STACK, KEY_STACK_END, takeText, top } from "./memory";
import { shortEscape } from "./writer";

const MOST_DEPTH: i32 = 16;
const MOST_KEYS: u32 = 64;
/** Address and length. */
const KEY_BYTES: u32 = 8;
const DIGITS: u32 = 20;
/** The first field of a KeyValue and of an AnyValue, and the second of a KeyValue. */
const STRING_TAG: u8 = 0x0a;
const VALUE_TAG: u8 = 0x12;
const DOUBLE_BYTES: u32 = 32;

const TRUE = memory.data<u8>([0x74, 0x72, 0x75, 0x65]);
const FALSE = memory.data<u8>([0x66, 0x61, 0x6c, 0x73, 0x65]);
const NULL = memory.data<u8>([0x6e, 0x75, 0x6c, 0x6c]);
const HEX: v128 = i8x16(0x30, 0x31, 0x32, 0x33, 0x34, 0x35, 0x36, 0x37, 0x38, 0x39, 0x61, 0x62, 0x63, 0x64, 0x65, 0x66);

/** Where JSON is written next; 0: none is being written. */
let written: usize = 0;

/** Before a document: the one before may have ended anywhere. */
export function startWire(): void {
  written = 0;
}

/** The string from `at` to `end`. */
export function wireString(at: usize, end: usize): void {
  wire.expect(wire.BYTES);
  wire.checkText(at, <u32>(end - at));
  json.setText(at, <u32>(end - at));
}

/** The id of `digits` hex digits from `at` to `end`; the place stays as it is when it is empty or zeros. */
export function wireId(at: usize, end: usize, digits: u32, place: usize): void {
  wire.expect(wire.BYTES);
  if (at == end) return;
  if ((<u32>(end - at)) << 1 != digits) refuse(UNUSUAL);
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

/** An unsigned integer as digits. */
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

/** The AnyValue from `at` to `end`: its text. */
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
    if (isSet) refuse(UNUSUAL);
    isSet = true;
    if (wire.number == 1) wireString(wire.content, at);
    else if (wire.number <= 4) scalarText();
    else listText(wire.content, at);
    textStart = json.textAt;
    size = json.textLength;
  }
  json.setText(textStart, size);
}

/** Whether a field begins with this tag of one byte and a length of one byte: as nearly every key and value is written. */
function isShort(at: usize, tag: u8): bool {
  return load<u8>(at) == tag && load<u8>(at + 1) < 0x80;
}

/** Behind such a field. */
function shortEnd(at: usize): usize {
  return at + 2 + load<u8>(at + 1);
}

/** The text of the boolean, the integer or the double that was read last. */
function scalarText(): void {
  if (wire.number == 2) {
    wire.expect(wire.VARINT);
    if (wire.integer != 0) json.setText(TRUE, 4);
    else json.setText(FALSE, 5);
  } else if (wire.number == 3) {
    wire.expect(wire.VARINT);
    const isNegative = <i64>wire.integer < 0;
    digitsText(isNegative ? 0 - wire.integer : wire.integer);
    if (!isNegative) return;
    // Twenty digits have no sign, and nineteen leave a byte for it.
    store<u8>(json.textAt - 1, 0x2d);
    json.setText(json.textAt - 1, json.textLength + 1);
  } else {
    wire.expect(wire.FIXED64);
    const to = takeText(DOUBLE_BYTES);
    json.setText(to, double(load<f64>(wire.content), to));
  }
}

/** The text of a list or a map, which is JSON. */
function listText(at: usize, end: usize): void {
  const start = startWriting();
  const mark = indexEnd;
  listJson(at, end, 1, KEY_STACK);
  endWriting(start, mark);
}

/** JSON begins here: behind the index, or within other JSON, behind what was written of it. */
function startWriting(): usize {
  if (written == 0) written = top;
  return written;
}

/** Keeps what was written since as the text; texts that were taken since are no longer needed. */
function endWriting(start: usize, mark: usize): void {
  if (written > indexEnd) refuse(TOO_LARGE);
  const length = <u32>(written - start);
  giveBackTexts(mark);
  const to = takeText(length);
  memory.copy(to, start, length);
  json.setText(to, length);
  written = start == top ? 0 : start;
}

/** The string from `at` to `end` as JSON, into a place. */
export function stringJsonInto(at: usize, end: usize, place: usize): void {
  wireString(at, end);
  const mark = indexEnd;
  const start = startWriting();
  writeString();
  endWriting(start, mark);
  placeText(place, json.textAt, json.textLength);
}

/** All attributes in the fields `fieldNumber` of the message from `at` to `end`, as a JSON object of texts, into a place. */
export function attributesJsonInto(at: usize, end: usize, fieldNumber: u32, place: usize): void {
  const start = startWriting();
  const mark = indexEnd;
  let keys = KEY_STACK;
  write(json.OPEN_OBJECT);
  while (at < end) {
    at = wire.field(at, end);
    if (wire.number != fieldNumber) continue;
    wire.expect(wire.BYTES);
    if (keys != KEY_STACK) write(json.COMMA);
    readPair(wire.content, at);
    keys = writeKey(KEY_STACK, keys);
    wireValue(pairValue, pairEnd);
    writeString();
  }
  write(json.CLOSE_OBJECT);
  endWriting(start, mark);
  placeText(place, json.textAt, json.textLength);
}

/** The pair that was read last: its key, and the message of its value, which may be empty. */
export let pairKey: usize = 0;
export let pairKeyLength: u32 = 0;
export let pairValue: usize = 0;
export let pairEnd: usize = 0;

/** The KeyValue from `at` to `end`. */
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

/** An ArrayValue, or a KeyValueList if its field number is 6. The keys of a map are on the stack from `first` on. */
function listJson(at: usize, end: usize, depth: i32, first: usize): void {
  wire.expect(wire.BYTES);
  if (wire.number == 7 || depth > MOST_DEPTH) refuse(UNUSUAL);
  const isMap = wire.number == 6;
  let keys = first;
  let isFirst = true;
  write(isMap ? json.OPEN_OBJECT : json.OPEN_ARRAY);
  while (at < end) {
    at = wire.field(at, end);
    if (wire.number != 1) continue;
    wire.expect(wire.BYTES);
    if (!isFirst) write(json.COMMA);
    isFirst = false;
    if (isMap) {
      readPair(wire.content, at);
      keys = writeKey(first, keys);
      anyJson(pairValue, pairEnd, depth, keys);
    } else anyJson(wire.content, at, depth, first);
  }
  write(isMap ? json.CLOSE_OBJECT : json.CLOSE_ARRAY);
}

function anyJson(at: usize, end: usize, depth: i32, keys: usize): void {
  let isSet = false;
  while (at < end) {
    at = wire.field(at, end);
    if (wire.number == 0 || wire.number > 7) continue;
    if (isSet) refuse(UNUSUAL);
    isSet = true;
    if (wire.number >= 5) listJson(wire.content, at, depth + 1, keys);
    else if (wire.number == 1) {
      wireString(wire.content, at);
      writeString();
    } else {
      const isBare = wire.number != 4 || isFinite(load<f64>(wire.content));
      scalarText();
      if (isBare) writeBytes(json.textAt, json.textLength);
      else writeString();
    }
  }
  if (!isSet) writeBytes(NULL, 4);
}

/** The key of the pair that was read last, with its colon. One that the map has already gives up. Returns the end of the map's keys. */
function writeKey(first: usize, keys: usize): usize {
  if (keys + KEY_BYTES > KEY_STACK_END || keys - first >= MOST_KEYS * KEY_BYTES) refuse(UNUSUAL);
  for (let key = first; key < keys; key += KEY_BYTES) {
    if (load<u32>(key, 4) == pairKeyLength && same(load<u32>(key), pairKey, pairKeyLength)) refuse(UNUSUAL);
  }
  placeText(keys, pairKey, pairKeyLength);
  json.setText(pairKey, pairKeyLength);
  writeString();
  write(json.COLON);
  return keys + KEY_BYTES;
}

function write(byte: u8): void {
  if (written >= indexEnd) refuse(TOO_LARGE);
  store<u8>(written, byte);
  written++;
}

function writeBytes(at: usize, length: u32): void {
  if (written + length > indexEnd) refuse(TOO_LARGE);
  memory.copy(written, at, length);
  written += length;
}

/** The text that was read last, as JSON.stringify writes it. */
function writeString(): void {
  const end = json.textAt + json.textLength;
  write(json.QUOTE);
  for (let at = json.textAt; at < end; at++) {
    const byte = load<u8>(at);
    if (byte >= 0x20 && byte != json.QUOTE && byte != json.BACKSLASH) write(byte);
    else writeEscape(byte);
  }
  write(json.QUOTE);
}

function writeEscape(byte: u8): void {
  write(json.BACKSLASH);
  const short = shortEscape(byte);
  if (byte >= 0x20 || short != byte) return write(byte >= 0x20 ? byte : short);
  write(0x75);
  write(0x30);
  write(0x30);
  write(0x30 + (byte >> 4));
  write((byte & 15) < 10 ? 0x30 + (byte & 15) : 0x57 + (byte & 15));
}

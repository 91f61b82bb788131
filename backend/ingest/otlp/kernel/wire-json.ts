// Writes the JSON that OTLP/protobuf needs: lists and maps of an AnyValue, and the texts and attributes of events and links. It is written
// after the rows of the index, then moved to the end of the index. Invariants: no stored text is overwritten; the kernel falls back for a map
// with the same key twice.
import { fallBack, same, TOO_LARGE, UNUSUAL } from "../../kernel/bytes";
import * as json from "../../kernel/json";
import * as wire from "../../kernel/wire";
import { placeText } from "./fields";
import { giveBackTexts, indexEnd, KEY_STACK, KEY_STACK_END, takeText, top } from "./memory";
import { pairEnd, pairKey, pairKeyLength, pairValue, readPair, scalarText, wireString, wireValue } from "./wire-values";
import { shortEscape } from "./writer";

const MAX_DEPTH: i32 = 16;
const MAX_KEYS: u32 = 64;
/** Address and length. */
const KEY_BYTES: u32 = 8;

const NULL = text("null");

/** Where JSON is written next; 0 while none is written. */
let written: usize = 0;

/** Call before a document, because decoding the previous one may have ended anywhere. */
export function startWire(): void {
  written = 0;
}

/** Makes the JSON of a list or a map the current text. */
export function listText(at: usize, end: usize): void {
  const start = startWriting();
  const mark = indexEnd;
  listJson(at, end, 1, KEY_STACK);
  endWriting(start, mark);
}

/** Begins JSON after the index or, within other JSON, after what is written of it. */
function startWriting(): usize {
  if (written == 0) written = top;
  return written;
}

/** Makes what was written the current text, and frees texts that were stored since `mark`. */
function endWriting(start: usize, mark: usize): void {
  if (written > indexEnd) fallBack(TOO_LARGE);
  const length = <u32>(written - start);
  giveBackTexts(mark);
  const to = takeText(length);
  memory.copy(to, start, length);
  json.setText(to, length);
  written = start == top ? 0 : start;
}

/** Stores the string from `at` to `end` as JSON in a place. */
export function stringJsonInto(at: usize, end: usize, place: usize): void {
  wireString(at, end);
  const mark = indexEnd;
  const start = startWriting();
  writeString();
  endWriting(start, mark);
  placeText(place, json.textAt, json.textLength);
}

/** Stores all attributes in the fields `fieldNumber` of the message from `at` to `end` in a place, as a JSON object of texts. */
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

/** An ArrayValue, or a KeyValueList if its field number is 6. The keys of a map are on the stack from `first` on. */
function listJson(at: usize, end: usize, depth: i32, first: usize): void {
  wire.expect(wire.BYTES);
  if (wire.number == 7 || depth > MAX_DEPTH) fallBack(UNUSUAL);
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
    if (isSet) fallBack(UNUSUAL);
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

/** Writes the key of the last pair and a colon; falls back if the map already has the key. Returns the end of the map's keys. */
function writeKey(first: usize, keys: usize): usize {
  if (keys + KEY_BYTES > KEY_STACK_END || keys - first >= MAX_KEYS * KEY_BYTES) fallBack(UNUSUAL);
  for (let key = first; key < keys; key += KEY_BYTES) {
    if (load<u32>(key, 4) == pairKeyLength && same(load<u32>(key), pairKey, pairKeyLength)) fallBack(UNUSUAL);
  }
  placeText(keys, pairKey, pairKeyLength);
  json.setText(pairKey, pairKeyLength);
  writeString();
  write(json.COLON);
  return keys + KEY_BYTES;
}

function write(byte: u8): void {
  if (written >= indexEnd) fallBack(TOO_LARGE);
  store<u8>(written, byte);
  written++;
}

function writeBytes(at: usize, length: u32): void {
  if (written + length > indexEnd) fallBack(TOO_LARGE);
  memory.copy(written, at, length);
  written += length;
}

/** Writes the last text as JSON.stringify does. */
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

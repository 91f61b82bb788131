// Writes events and links of a span as JSON, as backend/ingest/otlp/decode-spans.ts does. An index entry stores where in the document each
// part is; `putEvents` and `putLinks` combine them. Invariant: lengths are known before anything is written.
import { idInto, idLength, placeText, SPAN_DIGITS, TRACE_DIGITS } from "./fields";
import * as json from "../../kernel/json";
import { fallBack, UNUSUAL } from "../../kernel/bytes";
import { KEY_STACK, putBytes, take } from "./memory";
import { ARRAY, kindOf, MAP, scalar, STRING } from "./scalar";
import { KEY_BYTES, keyJson, startWriting, write, writeString, writeText, written } from "./writer";

/** The places of two texts, or of two ids and a text; then the place of the attributes. */
export const PART_BYTES: u32 = 24;

const EMPTY_TEXT = text('""');
const EMPTY_MAP = text("{}");
const NO_TIME = text("0");
const TIME = text('{"time":"');
const NAME = text('","name":');
const ATTRIBUTES = text(',"attributes":');
const TRACE_ID = text('{"trace_id":"');
const SPAN_ID = text('","span_id":"');
const TRACE_STATE = text('","trace_state":');

/** The number of events or links in the last list, and the size of all as a JSON list; 0 if there were none. */
export let parts: u32 = 0;
export let partsBytes: u32 = 0;

/** Reads a list of events, or null, into entries from `top` on. */
export function events(at: usize): usize {
  startList();
  if (json.isNull(at)) return at + 4;
  for (at = json.open(at, json.OPEN_ARRAY); load<u8>(at) != json.CLOSE_ARRAY; at = json.next(at, json.CLOSE_ARRAY))
    at = event(at, startEvent());
  return at + 1;
}

/** Reads a list of links, or null, into entries from `top` on. */
export function links(at: usize): usize {
  startList();
  if (json.isNull(at)) return at + 4;
  for (at = json.open(at, json.OPEN_ARRAY); load<u8>(at) != json.CLOSE_ARRAY; at = json.next(at, json.CLOSE_ARRAY))
    at = link(at, startLink());
  return at + 1;
}

function startList(): void {
  continueList(0, 0);
}

/** Continues a list that has `count` parts of `bytes` bytes so far. */
export function continueList(count: u32, bytes: u32): void {
  parts = count;
  partsBytes = bytes;
}

/** Starts an event without any fields. */
export function startEvent(): usize {
  const entry = take(PART_BYTES);
  placeText(entry, NO_TIME, 1);
  placeText(entry + 8, EMPTY_TEXT, 2);
  placeText(entry + 16, EMPTY_MAP, 2);
  return entry;
}

export function endEvent(entry: usize): void {
  countPart(9 + load<u32>(entry, 4) + 9 + load<u32>(entry, 12) + 14 + load<u32>(entry, 20) + 1);
}

/** Starts a link without any fields. */
export function startLink(): usize {
  const entry = take(PART_BYTES);
  store<u32>(entry, 0);
  store<u32>(entry, 0, 4);
  placeText(entry + 8, EMPTY_TEXT, 2);
  placeText(entry + 16, EMPTY_MAP, 2);
  return entry;
}

export function endLink(entry: usize): void {
  const ids = idLength(entry, TRACE_DIGITS) + idLength(entry + 4, SPAN_DIGITS);
  countPart(13 + ids + 13 + 16 + load<u32>(entry, 12) + 14 + load<u32>(entry, 20) + 1);
}

function countPart(bytes: u32): void {
  // Includes its comma or, for the first, the brackets of the list.
  partsBytes += bytes + (parts == 0 ? 2 : 1);
  parts++;
}

function event(at: usize, entry: usize): usize {
  let seen: u32 = 0;
  for (at = json.open(at, json.OPEN_OBJECT); load<u8>(at) != json.CLOSE_OBJECT; at = json.next(at, json.CLOSE_OBJECT)) {
    at = json.name(at);
    if (isText("timeUnixNano", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 1);
      at = json.unsigned(at);
      if (json.integer != 0) placeText(entry, json.textAt, json.textLength);
    } else if (isText("name", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 2);
      at = textJson(at, entry + 8);
    } else if (isText("attributes", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 4);
      at = attributesJson(at, entry + 16);
    } else if (isText("droppedAttributesCount", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 8);
      at = json.unsigned32(at);
    } else at = json.unknown(at);
  }
  endEvent(entry);
  return at + 1;
}

function link(at: usize, entry: usize): usize {
  let seen: u32 = 0;
  for (at = json.open(at, json.OPEN_OBJECT); load<u8>(at) != json.CLOSE_OBJECT; at = json.next(at, json.CLOSE_OBJECT)) {
    at = json.name(at);
    if (isText("traceId", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 1);
      at = idInto(at, TRACE_DIGITS, entry);
    } else if (isText("spanId", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 2);
      at = idInto(at, SPAN_DIGITS, entry + 4);
    } else if (isText("traceState", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 4);
      at = textJson(at, entry + 8);
    } else if (isText("attributes", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 8);
      at = attributesJson(at, entry + 16);
    } else if (isText("droppedAttributesCount", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 16);
      at = json.unsigned32(at);
    } else if (isText("flags", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 32);
      at = json.unsigned32(at);
    } else at = json.unknown(at);
  }
  endLink(entry);
  return at + 1;
}

/** Reads a string, or null, as JSON. */
function textJson(at: usize, part: usize): usize {
  if (json.isNull(at)) return at + 4;
  if (load<u8>(at) != json.QUOTE) fallBack(UNUSUAL);
  startWriting(at);
  const end = writeString(at + 1);
  placeText(part, at, <u32>(written - at));
  return end;
}

/** Reads attributes, or null, as a JSON object of texts. */
function attributesJson(at: usize, part: usize): usize {
  if (json.isNull(at)) return at + 4;
  const start = at;
  let keys = KEY_STACK;
  at = json.open(at, json.OPEN_ARRAY);
  startWriting(start);
  write(json.OPEN_OBJECT, at);
  for (; load<u8>(at) != json.CLOSE_ARRAY; at = json.next(at, json.CLOSE_ARRAY)) {
    if (keys != KEY_STACK) write(json.COMMA, at);
    at = pairJson(at, keys);
    keys += KEY_BYTES;
  }
  at++;
  write(json.CLOSE_OBJECT, at);
  placeText(part, start, <u32>(written - start));
  return at;
}

/** Reads an attribute whose key precedes its value. */
function pairJson(at: usize, keys: usize): usize {
  let seen: u32 = 0;
  for (at = json.open(at, json.OPEN_OBJECT); load<u8>(at) != json.CLOSE_OBJECT; at = json.next(at, json.CLOSE_OBJECT)) {
    at = json.name(at);
    if (isText("key", json.nameAt, json.nameLength)) {
      seen = json.once(seen, 1);
      if (load<u8>(at) != json.QUOTE) fallBack(UNUSUAL);
      at = keyJson(at + 1, KEY_STACK, keys);
      write(json.COLON, at);
    } else if (isText("value", json.nameAt, json.nameLength)) {
      if (seen != 1) fallBack(UNUSUAL);
      seen = 3;
      at = valueJson(at);
    } else at = json.unknown(at);
  }
  at++;
  if (seen == 1) writeEmpty(at);
  else if (seen != 3) fallBack(UNUSUAL);
  return at;
}

function writeEmpty(at: usize): void {
  write(json.QUOTE, at);
  write(json.QUOTE, at);
}

/** Reads the text of an AnyValue, or null, in quotes. Falls back for lists and maps, whose text would be quoted twice. */
function valueJson(at: usize): usize {
  if (json.isNull(at)) {
    at += 4;
    writeEmpty(at);
    return at;
  }
  let seen: u32 = 0;
  let isSet = false;
  for (at = json.open(at, json.OPEN_OBJECT); load<u8>(at) != json.CLOSE_OBJECT; at = json.next(at, json.CLOSE_OBJECT)) {
    at = json.name(at);
    const kind = kindOf(json.nameAt, json.nameLength);
    seen = json.once(seen, kind);
    if (kind == 0) at = json.unknown(at);
    else if (json.isNull(at)) at += 4;
    else {
      if (isSet || kind == ARRAY || kind == MAP) fallBack(UNUSUAL);
      isSet = true;
      if (kind == STRING) {
        if (load<u8>(at) != json.QUOTE) fallBack(UNUSUAL);
        at = writeString(at + 1);
      } else {
        at = scalar(at, kind);
        writeText(json.textAt, json.textLength, true, at);
      }
    }
  }
  at++;
  if (!isSet) writeEmpty(at);
  return at;
}

/** Writes the JSON list of `count` events; `count` is not 0. */
export function putEvents(to: usize, entry: usize, count: u32): usize {
  store<u8>(to, json.OPEN_ARRAY);
  for (let index: u32 = 0; index < count; index++) {
    if (index != 0) store<u8>(to, json.COMMA);
    to = putBytes(to + 1, TIME, 9);
    to = putBytes(to, load<u32>(entry), load<u32>(entry, 4));
    to = putBytes(to, NAME, 9);
    to = putBytes(to, load<u32>(entry, 8), load<u32>(entry, 12));
    to = putAttributes(to, entry);
    entry += PART_BYTES;
  }
  store<u8>(to, json.CLOSE_ARRAY);
  return to + 1;
}

/** Writes the JSON list of `count` links; `count` is not 0. */
export function putLinks(to: usize, entry: usize, count: u32): usize {
  store<u8>(to, json.OPEN_ARRAY);
  for (let index: u32 = 0; index < count; index++) {
    if (index != 0) store<u8>(to, json.COMMA);
    to = putBytes(to + 1, TRACE_ID, 13);
    to = putBytes(to, load<u32>(entry), idLength(entry, TRACE_DIGITS));
    to = putBytes(to, SPAN_ID, 13);
    to = putBytes(to, load<u32>(entry, 4), idLength(entry + 4, SPAN_DIGITS));
    to = putBytes(to, TRACE_STATE, 16);
    to = putBytes(to, load<u32>(entry, 8), load<u32>(entry, 12));
    to = putAttributes(to, entry);
    entry += PART_BYTES;
  }
  store<u8>(to, json.CLOSE_ARRAY);
  return to + 1;
}

function putAttributes(to: usize, entry: usize): usize {
  to = putBytes(to, ATTRIBUTES, 14);
  to = putBytes(to, load<u32>(entry, 16), load<u32>(entry, 20));
  store<u8>(to, json.CLOSE_OBJECT);
  return to + 1;
}

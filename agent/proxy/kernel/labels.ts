// Writes the labels of a series like common/otlp-metrics/series-labels.ts: the resource's, then the point's. Invariant: the host writes
// them if two labels could have the same name, if one is empty, too long or beyond the store's limit, or if an attribute is not spelled the
// way collectors spell it.
import { escape, escapedCode, escapedTo } from "../../../common/kernel/escapes";
import * as json from "../../../common/kernel/json";
import { answerAt, answerLength, find, following, forgetAll, KEY, keyLength, RESOURCE, setFollowing, startsWithKey } from "./dictionary";
import { labels } from "./host";
import { INPUT, MAX_LABEL_IDS, MAX_LINE_BYTES, MAX_PREDICTED, POINT_MARKS, PREDICTED, RESOURCE_MARKS } from "./memory";
import { out, put, putText, setOut } from "./output";

/** The store's limit, minus the labels that the backend adds (common/otlp-metrics/series-labels.ts). */
const MAX_LABELS: u32 = 35;
/** The number of the label `le`. */
const LE: u32 = 1;
/** At most this many bytes always fit into the limit of characters; longer values may have to be cut. */
const MAX_VALUE_BYTES: usize = 341;

/** `{"key":"` */
const KEY_OPENS: u64 = 0x223a2279656b227b;
/** `","value":{"stri` and `ngValue":"`, which follow almost every key. */
const STRING_OPENS: v128 = i8x16(0x22, 0x2c, 0x22, 0x76, 0x61, 0x6c, 0x75, 0x65, 0x22, 0x3a, 0x7b, 0x22, 0x73, 0x74, 0x72, 0x69);
const STRING_GOES_ON: u64 = 0x2265756c6156676e;
/** `:"` */
const COLON_QUOTE: u16 = 0x223a;
/** `}}` */
const CLOSES: u16 = 0x7d7d;
/** `","value":{"intV` and `alue":"`; then, for a boolean, `","value":{"bool` and `Value":`. */
const INT_OPENS: v128 = i8x16(0x22, 0x2c, 0x22, 0x76, 0x61, 0x6c, 0x75, 0x65, 0x22, 0x3a, 0x7b, 0x22, 0x69, 0x6e, 0x74, 0x56);
const BOOL_OPENS: v128 = i8x16(0x22, 0x2c, 0x22, 0x76, 0x61, 0x6c, 0x75, 0x65, 0x22, 0x3a, 0x7b, 0x22, 0x62, 0x6f, 0x6f, 0x6c);

let inputEnd: usize = 0;
let resource: usize = 0;
let resourceLabels: u32 = 0;
let headAt: usize = 0;
let headLength: u32 = 0;
/** Whether the resource may have a target_info. */
export let isTarget: bool = false;
/** The resource's message, empty for none. */
export let resourceAt: usize = 0;
export let resourceLength: u32 = 0;
let resourceMark: u32 = 0;
let pointMark: u32 = 0;
/** Precedes the first resource of a document. */
let first: usize = 0;

export function startLabels(length: u32): void {
  inputEnd = INPUT + length;
  resource = 0;
}

export function forget(): void {
  forgetAll();
  first = 0;
  resource = 0;
  memory.fill(PREDICTED, 0, 4 * MAX_PREDICTED);
}

/** A resource without a message, until `readResource`. */
export function noResource(): void {
  useResource(INPUT, 0, find(RESOURCE, INPUT, 0));
}

/** Reads the message of a resource; returns the address after it. */
export function readResource(at: usize): usize {
  const expected = resource == 0 ? first : following(resource);
  if (expected != 0 && keyLength(expected) != 0 && startsWithKey(expected, at, inputEnd)) {
    useResource(at, keyLength(expected), expected);
    return at + keyLength(expected);
  }
  const end = json.skip(at, 0);
  const length = <u32>(end - at);
  const entry = find(RESOURCE, at, length);
  if (resource == 0) first = entry;
  else setFollowing(resource, entry);
  useResource(at, length, entry);
  return end;
}

function useResource(at: usize, length: u32, entry: usize): void {
  if (length != 0) resource = entry;
  resourceAt = at;
  resourceLength = length;
  const answer = answerAt(entry);
  resourceLabels = load<u32>(answer);
  isTarget = load<u32>(answer, 4) != 0;
  headAt = answer + 8 + 4 * resourceLabels;
  headLength = answerLength(entry) - 8 - 4 * resourceLabels;
  resourceMark++;
  for (let index: u32 = 0; index < resourceLabels; index++) {
    store<u32>(RESOURCE_MARKS + 4 * load<u32>(answer + 8 + 4 * index), resourceMark);
  }
}

/** Labels of a point without attributes. */
export function writeHead(isHistogram: bool): void {
  if (resourceLabels <= MAX_LABELS) putText(headAt, headLength);
  else setOut(out + labels(0, 0, isHistogram, out, MAX_LINE_BYTES / 2));
}

/** Writes the labels of a point whose attributes are the array at `at`, and its resource's; returns the address after it. */
export function writeLabels(at: usize, isHistogram: bool): usize {
  const start = out;
  const end = usualLabels(at, isHistogram);
  if (end != 0) return end;
  setOut(start);
  const close = json.skip(at, 0);
  setOut(start + labels(at, <u32>(close - at), isHistogram, start, MAX_LINE_BYTES / 2));
  return close;
}

/** 0 if the host has to write them. */
function usualLabels(at: usize, isHistogram: bool): usize {
  let count: u32 = 0;
  pointMark++;
  putText(headAt, headLength);
  let needsComma = headLength != 0;
  at = json.open(at, json.OPEN_ARRAY);
  if (load<u8>(at) == json.CLOSE_ARRAY) return resourceLabels <= MAX_LABELS ? at + 1 : 0;
  while (true) {
    if (load<u64>(at) != KEY_OPENS || count == MAX_LABELS) return 0;
    const key = keyAt(at + 8, count);
    if (key == 0) return 0;
    at += 8 + keyLength(key);
    const answer = answerAt(key);
    const id = load<u32>(answer);
    if (
      id == 0 ||
      (isHistogram && id == LE) ||
      load<u32>(RESOURCE_MARKS + 4 * id) == resourceMark ||
      load<u32>(POINT_MARKS + 4 * id) == pointMark
    )
      return 0;
    store<u32>(POINT_MARKS + 4 * id, pointMark);
    count++;
    const before = out;
    if (needsComma) put(json.COMMA);
    putText(answer + 4, answerLength(key) - 4);
    const opened = out;
    at = writeValue(at);
    if (at == 0) return 0;
    // An empty label is the same as an absent one.
    if (out == opened) setOut(before);
    else {
      put(json.QUOTE);
      needsComma = true;
    }
    if (load<u16>(at) != CLOSES) return 0;
    const byte = load<u8>(at + 2);
    at += 3;
    if (byte == json.CLOSE_ARRAY) break;
    if (byte != json.COMMA) return 0;
  }
  return resourceLabels + count <= MAX_LABELS ? at : 0;
}

/** The entry of the key at `at`, after its quote; 0 for a key with an escape. */
function keyAt(at: usize, position: u32): usize {
  const slot = PREDICTED + 4 * position;
  const expected: usize = load<u32>(slot);
  if (expected != 0 && startsWithKey(expected, at, inputEnd) && load<u8>(at + keyLength(expected)) == json.QUOTE) return expected;
  const stop = json.stringStop(at);
  if (load<u8>(stop) != json.QUOTE) return 0;
  const entry = find(KEY, at, <u32>(stop - at));
  store<u32>(slot, <u32>entry);
  return entry;
}

/** From the quote after a key to the end of its value; writes the value, escaped for a label. Returns 0 if the host has to write it. */
function writeValue(at: usize): usize {
  const block = v128.load(at);
  if (v128.all_true<u8>(i8x16.eq(block, STRING_OPENS)) && load<u64>(at + 16) == STRING_GOES_ON && load<u16>(at + 24) == COLON_QUOTE) {
    return writeString(at + 26);
  }
  // `alue":"`
  if (v128.all_true<u8>(i8x16.eq(block, INT_OPENS)) && (load<u64>(at + 16) & 0x00ffffffffffffff) == 0x223a2265756c61) {
    const digits = at + 23;
    let end = load<u8>(digits) == 0x2d ? digits + 1 : digits;
    const whole = end;
    while (json.isDigit(load<u8>(end))) end++;
    const isPlain = end - whole == 1 ? load<u8>(whole) != 0x30 || whole == digits : load<u8>(whole) != 0x30;
    if (end == whole || end - whole > 15 || !isPlain || load<u8>(end) != json.QUOTE) return 0;
    putText(digits, <u32>(end - digits));
    return end + 1;
  }
  // `Value":`
  if (v128.all_true<u8>(i8x16.eq(block, BOOL_OPENS)) && (load<u64>(at + 16) & 0x00ffffffffffffff) == 0x3a2265756c6156) {
    const truth = at + 23;
    const length: u32 = load<u32>(truth) == 0x65757274 ? 4 : load<u8>(truth) == 0x66 && load<u32>(truth + 1) == 0x65736c61 ? 5 : 0;
    if (length == 0) return 0;
    putText(truth, length);
    return truth + length;
  }
  return 0;
}

/** From after a string's opening quote to after its closing one. Escapes that JSON and labels share are copied. */
function writeString(start: usize): usize {
  let at = start;
  while (true) {
    const block = v128.load(at);
    v128.store(out, block);
    const ends = v128.or(i8x16.eq(block, i8x16.splat(json.QUOTE)), i8x16.eq(block, i8x16.splat(json.BACKSLASH)));
    const mask = i8x16.bitmask(v128.or(ends, i8x16.lt_u(block, i8x16.splat(0x20))));
    if (mask == 0) {
      at += 16;
      setOut(out + 16);
      if (at - start > MAX_VALUE_BYTES) return 0;
      continue;
    }
    const length = ctz(mask);
    at += length;
    setOut(out + length);
    if (at - start > MAX_VALUE_BYTES) return 0;
    const byte = load<u8>(at);
    if (byte == json.QUOTE) return at + 1;
    if (byte != json.BACKSLASH) return 0;
    const next = load<u8>(at + 1);
    if (next == json.QUOTE || next == json.BACKSLASH || next == 0x6e) {
      store<u16>(out, load<u16>(at));
      setOut(out + 2);
      at += 2;
    } else {
      const code = escapedCode(at);
      // An escape by character number.
      if (code == 0x22 || code == 0x5c || code == 0x0a) return 0;
      at = escape(at, out);
      setOut(escapedTo);
    }
  }
}

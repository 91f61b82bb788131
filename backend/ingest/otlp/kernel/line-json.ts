// Reads log lines in JSON, and Docker's json-file format. Invariants: the members of an object are read one after the other without recursion,
// at most MAX_TOKENS values and MAX_DEPTH levels; the byte after the text is 0, which ends every loop. Values are not checked beyond what
// finding their end needs.
import { BACKSLASH, CLOSE_ARRAY, CLOSE_OBJECT, COLON, COMMA, OPEN_ARRAY, OPEN_OBJECT, QUOTE } from "../../kernel/json";
import { holderOf, keyOf, nestedKey, takeNumber, takeText } from "./line-fields";
import { readNumber } from "./line-time";

/** The bits of `stack` are the enclosing objects (1) and arrays (0). */
const MAX_DEPTH: u32 = 60;
const MAX_TOKENS: u32 = 512;

/** The result of reading: not JSON; JSON that ends early; more than the limits; a whole document. */
export const INVALID: i32 = 0;
export const ENDED: i32 = 1;
const LIMITED: i32 = 2;
export const COMPLETE: i32 = 3;

/** Docker's members: where their strings begin after the quote, and end; 0 if there is none. */
export let dockerLog: usize = 0;
export let dockerLogEnd: usize = 0;
export let dockerStream: usize = 0;
export let dockerStreamEnd: usize = 0;
export let dockerTime: usize = 0;
export let dockerTimeEnd: usize = 0;

/** Reads the object from `at` to `end`, and takes the fields of a log line from its members. */
export function readJsonLine(at: usize, end: usize): i32 {
  return read(at, end, false);
}

/** Reads the members of Docker's object from `at` to `end`. */
export function readDockerLine(at: usize, end: usize): i32 {
  dockerLog = 0;
  dockerStream = 0;
  dockerTime = 0;
  return read(at, end, true);
}

function read(at: usize, end: usize, isDocker: bool): i32 {
  let stack: u64 = 1;
  let depth: u32 = 1;
  let tokens: u32 = 0;
  /** The object at the second level that may contain fields. */
  let holder: u32 = 0;
  at = blanks(at + 1);
  let isFirst = true;
  while (true) {
    const isObject = (stack & 1) != 0;
    const close = isObject ? CLOSE_OBJECT : CLOSE_ARRAY;
    if (!isFirst || load<u8>(at) != close) {
      tokens++;
      if (tokens > MAX_TOKENS) return LIMITED;
      let key: u32 = 0;
      let name: usize = 0;
      let nameLength: u32 = 0;
      if (isObject) {
        if (load<u8>(at) != QUOTE) return stoppedAt(at, end);
        name = at + 1;
        at = stringEnd(name);
        nameLength = <u32>(at - name);
        if (load<u8>(at) != QUOTE) return stoppedAt(at, end);
        if (!isDocker) key = depth == 1 ? keyOf(name, nameLength) : depth == 2 && holder != 0 ? nestedKey(holder, name, nameLength) : 0;
        at = blanks(at + 1);
        if (load<u8>(at) != COLON) return stoppedAt(at, end);
        at = blanks(at + 1);
      }
      const byte = load<u8>(at);
      if (byte == QUOTE) {
        const start = at + 1;
        at = stringEnd(start);
        if (load<u8>(at) != QUOTE) return stoppedAt(at, end);
        if (key != 0) takeText(key, start, at);
        else if (isDocker && depth == 1) takeDocker(name, nameLength, start, at);
        at++;
      } else if (byte == OPEN_OBJECT || byte == OPEN_ARRAY) {
        if (depth == MAX_DEPTH) return LIMITED;
        if (depth == 1) holder = byte == OPEN_OBJECT ? holderOf(name, nameLength) : 0;
        depth++;
        stack = (stack << 1) | <u64>(byte == OPEN_OBJECT);
        at = blanks(at + 1);
        isFirst = true;
        continue;
      } else {
        const start = at;
        at = scalarEnd(at, byte, key != 0);
        if (at == start) return stoppedAt(at, end);
        // In arrays, most numbers follow each other without blanks.
        while (!isObject && load<u8>(at) == COMMA && <u8>(load<u8>(at, 1) - 0x30) < 10) {
          tokens++;
          at = numberEnd(at + 1);
        }
        // A number that the end of the line cuts off has another value.
        if (at >= end) return ENDED;
        if (key != 0 && byte < 0x3a) takeNumber(key);
      }
    }
    isFirst = false;
    at = blanks(at);
    // After a value: the end of any number of objects and arrays, or a comma.
    while (load<u8>(at) != COMMA) {
      if (load<u8>(at) != ((stack & 1) != 0 ? CLOSE_OBJECT : CLOSE_ARRAY)) return stoppedAt(at, end);
      stack >>= 1;
      depth--;
      at = blanks(at + 1);
      if (depth == 0) return at == end ? COMPLETE : INVALID;
    }
    at = blanks(at + 1);
  }
}

function stoppedAt(at: usize, end: usize): i32 {
  return at >= end ? ENDED : INVALID;
}

function takeDocker(name: usize, length: u32, at: usize, end: usize): void {
  if (isText("log", name, length)) {
    dockerLog = at;
    dockerLogEnd = end;
  } else if (isText("stream", name, length)) {
    dockerStream = at;
    dockerStreamEnd = end;
  } else if (isText("time", name, length)) {
    dockerTime = at;
    dockerTimeEnd = end;
  }
}

/** The address of the quote that ends a string, or of a control character. What follows a backslash is skipped unless it ends the line. */
function stringEnd(at: usize): usize {
  while (true) {
    const block = v128.load(at);
    const ends = v128.or(i8x16.eq(block, i8x16.splat(QUOTE)), i8x16.eq(block, i8x16.splat(BACKSLASH)));
    let mask: i32 = i8x16.bitmask(v128.or(ends, i8x16.lt_u(block, i8x16.splat(0x20))));
    let next = at + 16;
    while (mask != 0) {
      const index = ctz(mask);
      const stop = at + index;
      if (load<u8>(stop) != BACKSLASH) return stop;
      if (load<u8>(stop, 1) < 0x20) return stop + 1;
      if (index == 15) next++;
      mask &= -4 << index;
    }
    at = next;
  }
}

/** The end of a number, or of true, false or null; `at` if it is neither. */
function scalarEnd(at: usize, first: u8, isKept: bool): usize {
  if (first == 0x2d || <u8>(first - 0x30) < 10) return isKept ? readNumber(at) : numberEnd(at);
  if (load<u32>(at) == 0x6c6c756e || load<u32>(at) == 0x65757274) return at + 4;
  return first == 0x66 && load<u32>(at + 1) == 0x65736c61 ? at + 5 : at;
}

function numberEnd(at: usize): usize {
  // Digits, - . e and +
  do at++;
  while (<u8>(load<u8>(at) - 0x2d) < 13 || (load<u8>(at) | 0x20) == 0x65 || load<u8>(at) == 0x2b);
  return at;
}

/** The first byte that is no white space of JSON. */
export function blanks(at: usize): usize {
  while (load<u8>(at) <= 0x20) {
    const block = v128.load(at);
    const lines = v128.or(i8x16.eq(block, i8x16.splat(0x0a)), i8x16.eq(block, i8x16.splat(0x0d)));
    const spaces = v128.or(i8x16.eq(block, i8x16.splat(0x20)), i8x16.eq(block, i8x16.splat(9)));
    const mask = ~i8x16.bitmask(v128.or(lines, spaces)) & 0xffff;
    if (mask != 0) return at + ctz(mask);
    at += 16;
  }
  return at;
}

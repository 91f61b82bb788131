// Defines the layout of the kernel's memory: tables, input, guard, index, rows. Invariants: nothing is allocated; a byte is read only
// within the input or its guard, because a byte of the guard (0) ends every loop.
import { copy, fallBack, TOO_LARGE } from "../../kernel/bytes";

/** Zeros after the input: more than a single step reads ahead. */
const GUARD: u32 = 64;

/** Each slot has the generation that it belongs to and the address of an entry. */
export const SLOTS: u32 = 512;
const BASE: usize = (__heap_base + 63) & ~63;
export const RECORD_KEYS: usize = BASE;
export const RESOURCE_KEYS: usize = BASE + 4096;
/** Keys of the enclosing maps, KEY_BYTES each. */
export const KEY_STACK: usize = BASE + 8192;
export const KEY_STACK_END: usize = BASE + 16384;
/** Slots for rows by the operation that they name; each has the first such row. */
export const OPERATION_SLOTS: u32 = 4096;
export const OPERATION_TABLE: usize = BASE + 16384;
export const OPERATION_LIST: usize = BASE + 32768;
/** A dictionary: slots of one byte, addresses and lengths of its strings, the strings. */
export const WORD_SLOTS: usize = BASE + 40960;
export const WORD_SLOT_COUNT: u32 = 512;
export const WORD_ENTRIES: usize = BASE + 41472;
export const MAX_WORDS: u32 = 128;
export const WORDS: usize = BASE + 42496;
export const MAX_WORDS_BYTES: u32 = 8192;
/** At most this much of a log line is parsed for fields: a copy of it without colour codes, and a 0 after it. */
export const MAX_PARSED_BYTES: u32 = 65536;
export const LINE_COPY: usize = BASE + 50688;
export const INPUT: usize = LINE_COPY + MAX_PARSED_BYTES + GUARD;

/** Where the index is written next, and where it must end: where texts begin that differ from the input. */
export let top: usize = 0;
export let indexEnd: usize = 0;
let textsEnd: usize = 0;

export function startIndex(length: u32, indexBytes: u32): void {
  memory.fill(INPUT + length, 0, GUARD);
  top = (INPUT + length + GUARD + 15) & ~15;
  indexEnd = top + indexBytes;
  textsEnd = indexEnd;
}

/** Allocates `bytes` for a text at the end of the index. */
export function takeText(bytes: u32): usize {
  indexEnd -= bytes;
  if (indexEnd < top) fallBack(TOO_LARGE);
  return indexEnd;
}

/** Frees texts that were allocated since `end`. */
export function giveBackTexts(end: usize): void {
  indexEnd = end;
}

/** The address after everything that rows refer to. */
export function freeAt(): usize {
  return indexEnd < textsEnd ? textsEnd : top;
}

/** Allocates `bytes` in the index. */
export function take(bytes: u32): usize {
  const at = top;
  top = at + bytes;
  if (top > indexEnd) fallBack(TOO_LARGE);
  return at;
}

/** Allocates `bytes` in the index, filled with zeros. */
export function takeZeros(bytes: u32): usize {
  const at = take(bytes);
  memory.fill(at, 0, bytes);
  return at;
}

/** Frees what was allocated since `at`. */
export function giveBack(at: usize): void {
  top = at;
}

function varintLength(value: u32): u32 {
  return value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x200000 ? 3 : value < 0x10000000 ? 4 : 5;
}

export function putVarint(to: usize, value: u32): usize {
  while (value > 0x7f) {
    store<u8>(to, <u8>(value | 0x80));
    value >>= 7;
    to++;
  }
  store<u8>(to, <u8>value);
  return to + 1;
}

/** Copies bytes; returns the address after them. */
export function putBytes(to: usize, from: usize, length: u32): usize {
  copy(to, from, length);
  return to + length;
}

/** Writes a string in the format of columns; returns the address after it. */
export function putString(to: usize, from: usize, length: u32): usize {
  return putBytes(putVarint(to, length), from, length);
}

/** The number of bytes that `putString` writes. */
export function stringBytes(length: u32): u32 {
  return varintLength(length) + length;
}

/** The length of a word: the macro `words` stores each in 16 bytes, the last of which is its length. */
export function wordLength(word: usize): u32 {
  return load<u8>(word, 15);
}

/** Hashes the length, and the first and last bytes of a key. */
export function hashOf(at: usize, length: u32): u32 {
  const first = length >= 8 ? load<u64>(at) : length == 0 ? 0 : load<u64>(at) << (64 - 8 * length);
  const last = length >= 8 ? load<u64>(at + length - 8) : 0;
  const mixed = (first ^ rotl<u64>(last, 31) ^ length) * 0x9e3779b97f4a7c15;
  return <u32>(mixed >> 40);
}

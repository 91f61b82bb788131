// Reads the fields of protobuf messages one after the other, in place. Invariant: the kernel falls back for a field that does not end within its
// message, on groups, on lengths above 2 GiB, and on tags of more than 32 bits.
import { fallBack, SYNTAX, UNUSUAL } from "./bytes";
import { utf8End } from "./utf8";

export const VARINT: u32 = 0;
export const FIXED64: u32 = 1;
export const BYTES: u32 = 2;
export const FIXED32: u32 = 5;

const MAX_LENGTH: u64 = 0x7fffffff;

/** The field that was read last: its number, its wire type, and where its content begins (after the length, if it has one). */
export let number: u32 = 0;
export let wireType: u32 = 0;
export let content: usize = 0;
/** The varint that was read last. */
export let integer: u64 = 0;

/** Reads the field at `at` of a message that ends at `end`; `at` must be before `end`. Returns the address after the field. */
export function field(at: usize, end: usize): usize {
  let tag: u32 = load<u8>(at);
  if (tag < 0x80) at++;
  else {
    at = varint(at, end);
    if (integer > 0xffffffff) fallBack(UNUSUAL);
    tag = <u32>integer;
  }
  const type = tag & 7;
  number = tag >> 3;
  wireType = type;
  if (type == BYTES) {
    let length: usize = load<u8>(at);
    if (length < 0x80) at++;
    else {
      at = varint(at, end);
      if (integer > MAX_LENGTH) fallBack(SYNTAX);
      length = <usize>integer;
    }
    content = at;
    at += length;
  } else {
    content = at;
    if (type == VARINT) at = varint(at, end);
    else if (type == FIXED64) at += 8;
    else if (type == FIXED32) at += 4;
    else fallBack(SYNTAX);
  }
  if (at > end) fallBack(SYNTAX);
  return at;
}

/** Reads at most ten bytes into `integer`. */
export function varint(at: usize, end: usize): usize {
  if (at < end && load<u8>(at) < 0x80) {
    integer = load<u8>(at);
    return at + 1;
  }
  let value: u64 = 0;
  for (let shift: u64 = 0; shift < 70; shift += 7) {
    if (at >= end) fallBack(SYNTAX);
    const byte = load<u8>(at);
    at++;
    value |= (<u64>(byte & 0x7f)) << shift;
    if (byte < 0x80) {
      integer = value;
      return at;
    }
  }
  fallBack(SYNTAX);
  return at;
}

/** Falls back if the field that was read last has another wire type. */
export function expect(type: u32): void {
  if (wireType != type) fallBack(UNUSUAL);
}

/** Falls back unless the bytes are UTF-8. Reads up to 15 bytes beyond them. */
export function checkText(at: usize, length: u32): void {
  let index: u32 = 0;
  for (; index + 16 <= length; index += 16) {
    if (i8x16.bitmask(v128.load(at + index)) != 0) return checkUtf8(at + index, at + length);
  }
  if (index < length && (i8x16.bitmask(v128.load(at + index)) & ((1 << (length - index)) - 1)) != 0) checkUtf8(at + index, at + length);
}

/** Falls back unless these are characters. Checked here instead of in the host, because a body may have a hundred thousand strings. */
function checkUtf8(at: usize, end: usize): void {
  if (utf8End(at, end) != end) fallBack(SYNTAX);
}

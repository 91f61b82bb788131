// Makes the text of file lines storable and readable: replaces bytes that are not UTF-8, and removes colour codes from the copy that is
// searched for fields.
import { moveDown } from "../../../../common/kernel/bytes";
import { utf8End } from "../../../../common/kernel/wire";
import { LINE_COPY, takeText } from "./memory";

const ESCAPE: u8 = 0x1b;
/** U+FFFD */
const REPLACEMENT_LENGTH: u32 = 3;

/** Bits of `scanText`. */
export const NOT_ASCII: u32 = 1;
export const HAS_ESCAPE: u32 = 2;

/** What the text contains. Reads up to 15 bytes beyond it. */
export function scanText(at: usize, end: usize): u32 {
  let all = i8x16.splat(0);
  let escapes = i8x16.splat(0);
  for (; at + 16 <= end; at += 16) {
    const block = v128.load(at);
    all = v128.or(all, block);
    escapes = v128.or(escapes, i8x16.eq(block, i8x16.splat(ESCAPE)));
  }
  const mask = (1 << (<u32>(end - at))) - 1;
  const rest = v128.load(at);
  const isHigh = i8x16.bitmask(all) | (i8x16.bitmask(rest) & mask);
  const isEscape = i8x16.bitmask(escapes) | (i8x16.bitmask(i8x16.eq(rest, i8x16.splat(ESCAPE))) & mask);
  return (isHigh != 0 ? NOT_ASCII : 0) | (isEscape != 0 ? HAS_ESCAPE : 0);
}

/** The last text of `toUtf8`. */
export let textAt: usize = 0;
export let textEnd: usize = 0;

/** Replaces each run of bytes that are not UTF-8 by U+FFFD, as the collector's sanitize_utf8 does. */
export function toUtf8(at: usize, end: usize): void {
  textAt = at;
  textEnd = end;
  const valid = utf8End(at, end);
  if (valid == end) return;
  const length = replaced(at, end, 0);
  textAt = takeText(length);
  textEnd = textAt + length;
  replaced(at, end, textAt);
}

/** The length of the text with replacements, which is written to `to` unless that is 0. */
function replaced(at: usize, end: usize, to: usize): u32 {
  let length: u32 = 0;
  while (at < end) {
    const valid = utf8End(at, end);
    if (to != 0) memory.copy(to + length, at, valid - at);
    length += <u32>(valid - at);
    if (valid == end) break;
    if (to != 0) {
      store<u16>(to + length, 0xbfef);
      store<u8>(to + length, 0xbd, 2);
    }
    length += REPLACEMENT_LENGTH;
    // A run of bytes of which no character begins at any.
    at = valid + 1;
    while (at < end && utf8End(at, end) == at) at++;
  }
  return length;
}

/**
 * Copies the text without ANSI control sequences (ESC [, parameters, intermediate bytes, a final byte) and a 0 after it. Returns the end of the
 * copy at LINE_COPY. An incomplete sequence is kept.
 */
export function withoutColours(at: usize, end: usize): usize {
  let to = LINE_COPY;
  while (at < end) {
    const stop = escapeIn(at, end);
    moveDown(to, at, <u32>(stop - at));
    to += stop - at;
    if (stop == end) break;
    at = sequenceEnd(stop, end);
    if (at == 0) {
      store<u8>(to, ESCAPE);
      to++;
      at = stop + 1;
    }
  }
  store<u8>(to, 0);
  return to;
}

function escapeIn(at: usize, end: usize): usize {
  for (; at < end; at += 16) {
    const mask = i8x16.bitmask(i8x16.eq(v128.load(at), i8x16.splat(ESCAPE)));
    if (mask != 0) return min(at + ctz(mask), end);
  }
  return end;
}

/** The address after the control sequence at `at`, or 0 if there is none. */
function sequenceEnd(at: usize, end: usize): usize {
  at++;
  if (at >= end || load<u8>(at) != 0x5b) return 0;
  at++;
  while (at < end && <u8>(load<u8>(at) - 0x30) < 16) at++;
  while (at < end && <u8>(load<u8>(at) - 0x20) < 16) at++;
  return at < end && <u8>(load<u8>(at) - 0x40) < 63 ? at + 1 : 0;
}

// Makes the text of file lines storable and readable: replaces bytes that are not UTF-8, and removes colour codes from the copy that is
// searched for fields.
import { replaceInvalid, utf8End } from "../../kernel/utf8";
import { giveBackTexts, indexEnd, takeText } from "./memory";

const ESCAPE: u8 = 0x1b;

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
export let utf8At: usize = 0;
export let utf8Stop: usize = 0;

/** Replaces each run of bytes that are not UTF-8 by U+FFFD, as the collector's sanitize_utf8 does. */
export function toUtf8(at: usize, end: usize): void {
  utf8At = at;
  utf8Stop = end;
  const valid = utf8End(at, end);
  if (valid == end) return;
  const mark = indexEnd;
  const room = takeText(<u32>(end - at) * 2 + 40);
  memory.copy(room, at, valid - at);
  const length = <u32>(replaceInvalid(valid, end, room + (valid - at)) - room);
  giveBackTexts(mark);
  utf8At = takeText(length);
  utf8Stop = utf8At + length;
  memory.copy(utf8At, room, length);
}

/** Where `withoutColours` ended in the text. */
export let colourStop: usize = 0;

/**
 * Copies the text from `at` to `to`, which is in LINE_COPY, without ANSI control sequences (ESC [, parameters, intermediate bytes, a final byte)
 * and with a 0 after it; ends at `stop` or soon after it. Returns the end of the copy. An incomplete sequence is kept.
 */
export function withoutColours(at: usize, end: usize, to: usize, stop: usize): usize {
  while (at < stop) {
    if (load<u8>(at) == ESCAPE) {
      const isStart = load<u8>(at, 1) == 0x5b;
      const after = isStart ? sequenceEnd(at + 2, end) : 0;
      if (after != 0) {
        at = after;
        continue;
      }
      // An incomplete start is text.
      store<u16>(to, load<u16>(at));
      const length: usize = isStart ? 2 : 1;
      to += length;
      at += length;
      continue;
    }
    const block = v128.load(at);
    const mask = i8x16.bitmask(i8x16.eq(block, i8x16.splat(ESCAPE)));
    const length = min(mask == 0 ? 16 : ctz(mask), end - at);
    v128.store(to, block);
    at += length;
    to += length;
  }
  store<u8>(to, 0);
  colourStop = at;
  return to;
}

/** The end of the control sequence whose parameters are at `at`; 0 if it is incomplete. */
function sequenceEnd(at: usize, end: usize): usize {
  if (load<u8>(at) < 0x20) return 0;
  // Nearly all sequences are a few parameters and a letter.
  const others = ~i8x16.bitmask(i8x16.lt_u(i8x16.sub(v128.load(at), i8x16.splat(0x30)), i8x16.splat(16))) & 0xffff;
  if (others != 0) at += ctz(others);
  while (at < end && <u8>(load<u8>(at) - 0x30) < 16) at++;
  while (at < end && <u8>(load<u8>(at) - 0x20) < 16) at++;
  return at < end && <u8>(load<u8>(at) - 0x40) < 63 ? at + 1 : 0;
}

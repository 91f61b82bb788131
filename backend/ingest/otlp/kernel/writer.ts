// Writes JSON text over the document from which it is generated. Invariants: it is never longer than what was read, otherwise the kernel
// falls back, so unread input is never overwritten; strings are written as JSON.stringify does.
import { escape, escapedCode, escapedTo } from "../../kernel/escapes";
import { BACKSLASH, QUOTE, stringStop } from "../../kernel/json";
import { moveDown, fallBack, same, SYNTAX, UNUSUAL } from "../../kernel/bytes";
import { hashOf, KEY_STACK_END } from "./memory";

/** Where JSON is written next: never beyond the next byte to read. */
export let written: usize = 0;

export function startWriting(at: usize): void {
  written = at;
}

/** `at` is the next byte to read. */
export function write(byte: u8, at: usize): void {
  if (written >= at) fallBack(UNUSUAL);
  store<u8>(written, byte);
  written++;
}

export function writeNull(at: usize): void {
  if (written + 4 > at) fallBack(UNUSUAL);
  store<u32>(written, 0x6c6c756e);
  written += 4;
}

/** Writes a value in quotes or bare. */
export function writeText(textAt: usize, length: u32, isQuoted: bool, at: usize): void {
  if (written + length + (isQuoted ? 2 : 0) > at || written > textAt) fallBack(UNUSUAL);
  if (isQuoted) {
    memory.copy(written + 1, textAt, length);
    store<u8>(written, QUOTE);
    store<u8>(written + length + 1, QUOTE);
    written += length + 2;
  } else {
    memory.copy(written, textAt, length);
    written += length;
  }
}

/** Copies a string from after its opening quote, as JSON.stringify writes it. */
export function writeString(at: usize): usize {
  let from = at;
  if (written >= at) fallBack(UNUSUAL);
  store<u8>(written, QUOTE);
  let to = written + 1;
  while (true) {
    at = stringStop(at);
    const byte = load<u8>(at);
    if (byte == QUOTE) break;
    if (byte != BACKSLASH) fallBack(SYNTAX);
    moveDown(to, from, <u32>(at - from));
    to += at - from;
    const code = escapedCode(at);
    const isLong = load<u8>(at + 1) == 0x75;
    if (code == 0x22 || code == 0x5c || code == 8 || code == 9 || code == 10 || code == 12 || code == 13) {
      store<u8>(to, BACKSLASH);
      store<u8>(to + 1, shortEscape(code));
      to += 2;
      at += isLong ? 6 : 2;
    } else if (code < 0x20) {
      store<u32>(to, 0x3030755c);
      store<u8>(to + 4, <u8>(0x30 + (code >> 4)));
      store<u8>(to + 5, <u8>((code & 15) < 10 ? 0x30 + (code & 15) : 0x57 + (code & 15)));
      to += 6;
      at += 6;
    } else {
      const end = escape(at, to);
      to = escapedTo;
      at = end;
    }
    from = at;
  }
  moveDown(to, from, <u32>(at - from));
  to += at - from;
  store<u8>(to, QUOTE);
  written = to + 1;
  return at + 1;
}

/** The letter of an escape, or the code itself if it has none. */
export function shortEscape(code: u32): u8 {
  if (code == 8) return 0x62;
  if (code == 9) return 0x74;
  if (code == 10) return 0x6e;
  if (code == 12) return 0x66;
  if (code == 13) return 0x72;
  return <u8>code;
}

/** The entry of a map's key on the stack: length and hash, then its address. */
export const KEY_BYTES: u32 = 16;
const MAX_KEYS: u32 = 64;

/** Adds a key to the map whose keys begin at `first`; falls back if the map already has it. */
export function keyJson(at: usize, first: usize, keys: usize): usize {
  if (keys + KEY_BYTES > KEY_STACK_END || keys - first > MAX_KEYS * KEY_BYTES) fallBack(UNUSUAL);
  const start = written;
  at = writeString(at);
  const length = <u32>(written - start);
  const mark = ((<u64>hashOf(start, length)) << 32) | length;
  for (let one = first; one < keys; one += KEY_BYTES) {
    if (load<u64>(one) == mark && same(load<u32>(one, 8), start, length)) fallBack(UNUSUAL);
  }
  store<u64>(keys, mark);
  store<u32>(keys, start, 8);
  return at;
}

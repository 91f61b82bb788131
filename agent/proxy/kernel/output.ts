// Buffers lines of text for the host. Invariants: the host only receives complete lines; no write exceeds the buffer, because each part of
// a line is limited and the space is checked before.
import { copy, fallBack, TOO_LARGE } from "../../../common/kernel/bytes";
import { flush } from "./host";
import { MAX_LINE_BYTES, OUT, OUT_FULL } from "./memory";

/** Address of the next write. */
export let out: usize = OUT;
/** Bytes of this document that the host has received. */
let flushedBytes: u32 = 0;

export function startOutput(): void {
  out = OUT;
  flushedBytes = 0;
}

/** All text of this document so far. */
export function textBytes(): u32 {
  return flushedBytes + <u32>(out - OUT);
}

/** Discards all text after the first `length` bytes of the document; the host overwrites what it has already received. */
export function cutTo(length: u32): void {
  if (length >= flushedBytes) out = OUT + (length - flushedBytes);
  else {
    flushedBytes = length;
    out = OUT;
  }
}

/** Passes all lines to the host. */
export function flushAll(): void {
  const length = <u32>(out - OUT);
  if (length != 0) flush(OUT, length, flushedBytes);
  flushedBytes += length;
  out = OUT;
}

/** Called before a line: ensures space for MAX_LINE_BYTES. */
export function startLine(): void {
  if (out >= OUT_FULL) flushAll();
}

/** Counts text that the host wrote itself after what it received. */
export function addHostText(length: u32): void {
  flushedBytes += length;
}

/** Redirects writes temporarily; returns the previous address. */
export function writeTo(at: usize): usize {
  const was = out;
  out = at;
  return was;
}

export function setOut(at: usize): void {
  out = at;
}

export function put(byte: u8): void {
  store<u8>(out, byte);
  out++;
}

/** Copies bytes of the document or the dictionary, of which 16 beyond their end may be read. */
export function putText(from: usize, length: u32): void {
  if (length > MAX_LINE_BYTES / 4) fallBack(TOO_LARGE);
  let index: u32 = 0;
  do {
    v128.store(out + index, v128.load(from + index));
    index += 16;
  } while (index < length);
  out += length;
}

/** Copies bytes that may end where the written text ends, or anywhere else. */
export function putExactly(from: usize, length: u32): void {
  if (length > MAX_LINE_BYTES / 2) fallBack(TOO_LARGE);
  copy(out, from, length);
  out += length;
}

export function putNatural(value: u64): void {
  let digits: u32 = 1;
  for (let limit: u64 = 10; digits < 20 && value >= limit; limit *= 10) digits++;
  let to = out + digits;
  out = to;
  do {
    to--;
    store<u8>(to, <u8>(0x30 + (value % 10)));
    value /= 10;
  } while (value != 0);
}

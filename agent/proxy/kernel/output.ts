// Lines of text on their way to the host. Invariants: a line is whole before the host takes it; no write reaches beyond the room, because
// each part of a line is bounded and the room is looked at before.
import { copy, refuse, TOO_LARGE } from "../../../common/kernel/bytes";
import { flush } from "./host";
import { MOST_LINE_BYTES, OUT, OUT_FULL } from "./memory";

/** Where is written next. */
export let out: usize = OUT;
/** Bytes that the host has taken of this document. */
let taken: u32 = 0;

export function startOutput(): void {
  out = OUT;
  taken = 0;
}

/** All text of this document so far. */
export function textBytes(): u32 {
  return taken + <u32>(out - OUT);
}

/** Forgets what was written behind the first `length` bytes of the document's text; the host writes over what it took. */
export function cutTo(length: u32): void {
  if (length >= taken) out = OUT + (length - taken);
  else {
    taken = length;
    out = OUT;
  }
}

/** Gives all lines to the host. */
export function flushAll(): void {
  const length = <u32>(out - OUT);
  if (length != 0) flush(OUT, length, taken);
  taken += length;
  out = OUT;
}

/** Before a line: there is room for MOST_LINE_BYTES. */
export function startLine(): void {
  if (out >= OUT_FULL) flushAll();
}

/** Text that the host made itself follows what it took. */
export function addTaken(length: u32): void {
  taken += length;
}

/** Writes elsewhere for a while; returns where it was. */
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

/** Bytes of the document or of an answer, which may be read 16 beyond their end. */
export function putText(from: usize, length: u32): void {
  if (length > MOST_LINE_BYTES / 4) refuse(TOO_LARGE);
  let index: u32 = 0;
  do {
    v128.store(out + index, v128.load(from + index));
    index += 16;
  } while (index < length);
  out += length;
}

/** Bytes that end where what was written ends, or anywhere else. */
export function putExactly(from: usize, length: u32): void {
  if (length > MOST_LINE_BYTES / 2) refuse(TOO_LARGE);
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

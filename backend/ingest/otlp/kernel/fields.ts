// Fields of records: read into their places in the index, written to their columns. A text's place holds its address and its length, an
// id's its address alone, 0 where there is none. Invariant: what `textBytes` and `idBytes` count is what `putText` and `putId` write.
import { hexId, optionalString, textAt, textLength } from "../../../../common/kernel/json";
import { putString, stringBytes } from "./memory";

/** Hex digits of ids. */
export const TRACE_DIGITS: u32 = 32;
export const SPAN_DIGITS: u32 = 16;

export function placeText(place: usize, at: usize, length: u32): void {
  store<u32>(place, at);
  store<u32>(place, length, 4);
}

/** The text that was read last. */
export function keepText(place: usize): void {
  placeText(place, textAt, textLength);
}

/** A string, or null, which is "". */
export function textInto(at: usize, place: usize): usize {
  at = optionalString(at);
  keepText(place);
  return at;
}

export function textBytes(place: usize): u32 {
  return stringBytes(load<u32>(place, 4));
}

export function putText(to: usize, place: usize): usize {
  return putString(to, load<u32>(place), load<u32>(place, 4));
}

/** An id of `digits` hex digits; the place stays as it is when the id is null, empty or zeros. */
export function idInto(at: usize, digits: u32, place: usize): usize {
  at = hexId(at, digits);
  if (textLength != 0) store<u32>(place, textAt);
  return at;
}

/** `digits`, or 0 where there is none. */
export function idLength(place: usize, digits: u32): u32 {
  return load<u32>(place) == 0 ? 0 : digits;
}

export function idBytes(place: usize, digits: u32): u32 {
  return stringBytes(idLength(place, digits));
}

export function putId(to: usize, place: usize, digits: u32): usize {
  return putString(to, load<u32>(place), idLength(place, digits));
}

// Reads fields of records into places of the index and writes them to columns. The place of a text contains its address and length, that of
// an id only its address, which is 0 if there is none. Invariant: `textBytes` and `idBytes` return the size of what `putText` and `putId`
// write.
import { hexId, optionalString, textAt, textLength } from "../../kernel/json";
import { putString, stringBytes } from "./memory";

/** Number of hex digits of ids. */
export const TRACE_DIGITS: u32 = 32;
export const SPAN_DIGITS: u32 = 16;

export function placeText(place: usize, at: usize, length: u32): void {
  store<u32>(place, at);
  store<u32>(place, length, 4);
}

/** Stores the address and length of the last text. */
export function keepText(place: usize): void {
  placeText(place, textAt, textLength);
}

/** Reads a string, or null, which counts as "". */
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

/** Reads an id of `digits` hex digits; the place is unchanged if the id is null, empty or all zeros. */
export function idInto(at: usize, digits: u32, place: usize): usize {
  at = hexId(at, digits);
  if (textLength != 0) store<u32>(place, textAt);
  return at;
}

/** `digits`, or 0 if there is no id. */
export function idLength(place: usize, digits: u32): u32 {
  return load<u32>(place) == 0 ? 0 : digits;
}

export function idBytes(place: usize, digits: u32): u32 {
  return stringBytes(idLength(place, digits));
}

export function putId(to: usize, place: usize, digits: u32): usize {
  return putString(to, load<u32>(place), idLength(place, digits));
}

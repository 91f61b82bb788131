// Reads times, numbers and counts of points. Invariant: accepted values are written exactly as common/otlp-metrics/series-writer.ts would
// write them.
import { fallBack, UNUSUAL } from "../../../common/kernel/bytes";
import { isDigit, numberEnd, QUOTE } from "../../../common/kernel/json";
import { isPlain } from "../../../common/kernel/json";
import { number } from "./host";
import { NUMBER_BYTES, NUMBERS } from "./memory";

/** The digits of the current point's milliseconds. */
export let timeAt: usize = 0;
export let timeLength: u32 = 0;
/** The value or sum that was read last. */
export let valueAt: usize = 0;
export let valueLength: u32 = 0;

/** Nanoseconds as a string; the time must be late enough to become milliseconds for the store. */
export function readTime(at: usize): usize {
  if (load<u8>(at) != QUOTE) fallBack(UNUSUAL);
  timeAt = at + 1;
  const end = digitsEnd(timeAt);
  const length = <u32>(end - timeAt);
  if (length < 17 || length > 19 || load<u8>(timeAt) == 0x30 || load<u8>(end) != QUOTE) fallBack(UNUSUAL);
  timeLength = length - 6;
  return end + 1;
}

function digitsEnd(at: usize): usize {
  while (isDigit(load<u8>(at))) at++;
  return at;
}

/** A 64-bit integer in full. */
export function readInteger(at: usize): usize {
  const isText = load<u8>(at) == QUOTE;
  valueAt = isText ? at + 1 : at;
  const digits = load<u8>(valueAt) == 0x2d ? valueAt + 1 : valueAt;
  const end = digitsEnd(digits);
  const count = <u32>(end - digits);
  valueLength = <u32>(end - valueAt);
  if (isText) {
    if (count == 0 || count > 20 || load<u8>(end) != QUOTE) fallBack(UNUSUAL);
    return end + 1;
  }
  // Only JavaScript's own spelling: 0, but not -0 or 07, and no number that a double would round.
  if (count == 0 || count > 15 || (load<u8>(digits) == 0x30 && (count > 1 || digits != valueAt))) fallBack(UNUSUAL);
  if (load<u8>(end) == 0x2e || (load<u8>(end) | 0x20) == 0x65) fallBack(UNUSUAL);
  return end;
}

/** A double, or one of the three strings. */
export function readDouble(at: usize): usize {
  if (load<u8>(at) == QUOTE) return readSpecial(at);
  const end = numberEnd(at);
  valueAt = at;
  valueLength = <u32>(end - at);
  if (!isPlain(at, end)) {
    if (valueLength > NUMBER_BYTES) fallBack(UNUSUAL);
    valueLength = number(at, valueLength, NUMBERS);
    if (valueLength > NUMBER_BYTES) fallBack(UNUSUAL);
    valueAt = NUMBERS;
  }
  return end;
}

/** `"NaN"`; `"Infinity"` and `"-Infinity"`, which become +Inf and -Inf. */
function readSpecial(at: usize): usize {
  if (load<u32>(at + 1) == 0x224e614e) {
    valueAt = at + 1;
    valueLength = 3;
    return at + 5;
  }
  const isNegative = load<u8>(at + 1) == 0x2d;
  const word = at + 1 + usize(isNegative);
  if (load<u64>(word) != 0x7974696e69666e49 || load<u8>(word + 8) != QUOTE) fallBack(UNUSUAL);
  store<u32>(NUMBERS, isNegative ? 0x666e492d : 0x666e492b);
  valueAt = NUMBERS;
  valueLength = 4;
  return word + 9;
}

/** Whether the point has no value, by its flags. */
export let isEnded: bool = false;

export function startPoint(): void {
  isEnded = false;
  timeLength = 0;
  valueLength = 0;
}

export function readFlags(at: usize): usize {
  const end = digitsEnd(at);
  if (end == at || end - at > 9 || (load<u8>(at) == 0x30 && end - at > 1)) fallBack(UNUSUAL);
  const next = load<u8>(end);
  if (next == 0x2e || (next | 0x20) == 0x65) fallBack(UNUSUAL);
  isEnded = (load<u8>(end - 1) & 1) == 1;
  return end;
}

/** The natural number that was read last; it fits into a double. */
export let natural: u64 = 0;

export function readNatural(at: usize): usize {
  at = readInteger(at);
  const end = valueAt + valueLength;
  if (valueLength > 15 || (load<u8>(valueAt) == 0x30 && valueLength > 1)) fallBack(UNUSUAL);
  natural = 0;
  for (let digit = valueAt; digit < end; digit++) {
    if (!isDigit(load<u8>(digit))) fallBack(UNUSUAL);
    natural = natural * 10 + (load<u8>(digit) - 0x30);
  }
  return at;
}

// Numbers of JSON as text. Invariant: what is plain is what JavaScript would write.
import { isDigit } from "./json";

/** Whether JavaScript prints the number unchanged: at most 15 digits, no exponent, no zeros that say nothing, not below 0.000001. */
export function isPlain(at: usize, end: usize): bool {
  const digits = load<u8>(at) == 0x2d ? at + 1 : at;
  if (end - digits > 16) return false;
  // 0 alone, and neither -0 nor 0e1.
  if (end - digits == 1 && load<u8>(digits) == 0x30) return digits == at;
  let hasPoint = false;
  let isZero = true;
  let leading: u32 = 0;
  for (let index = digits; index < end; index++) {
    const byte = load<u8>(index);
    if (byte == 0x2e) hasPoint = true;
    else if (!isDigit(byte)) return false;
    else if (byte != 0x30) isZero = false;
    else if (isZero && hasPoint) leading++;
  }
  if (isZero || leading > 5) return false;
  return hasPoint ? load<u8>(end - 1) != 0x30 : end - digits <= 15;
}

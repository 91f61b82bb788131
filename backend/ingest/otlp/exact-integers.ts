// Integers of 64 bits in JSON, which JSON.parse would round to doubles. Invariant: strings remain unchanged.
import { randomUUID } from "node:crypto";
import { utf8 } from "./json-scanner.ts";

/**
 * Represents an integer beyond 2^53 in parsed JSON: an array of this value, which no sender can know, and the number as it was written. (No
 * message is an array, so it is rejected where a number is not allowed.)
 */
const EXACT_INTEGER = randomUUID();

/** The text of an integer beyond 2^53; undefined for any other value. */
export function exactSource(value: unknown): string | undefined {
  return Array.isArray(value) && value[0] === EXACT_INTEGER ? (value[1] as string) : undefined;
}

/** The digits of a JSON number such as `17e17` or `1.5e3`; undefined if it is not an integer, or too large for any integer field. */
export function exactDigits(source: string): string | undefined {
  const match = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(source);
  const [, sign = "", whole = "", fraction = "", exponent = "0"] = match ?? [];
  const shift = Number(exponent) - fraction.length;
  if (!match || Math.abs(shift) > 40) return undefined;
  const digits = whole + fraction;
  if (shift < 0 && /[1-9]/.test(digits.slice(shift))) return undefined;
  const integer = shift >= 0 ? digits + "0".repeat(shift) : digits.slice(0, shift);
  return sign + (integer.replace(/^0+/, "") || "0");
}

const [QUOTE, BACKSLASH] = [34, 92];
/** Longer than any notation of a 64-bit integer in practice. */
const MAX_NUMBER_BYTES = 400;

/** The text in which each integer beyond 2^53 is replaced by such an array. */
export function exactText(body: Uint8Array, start: number, end: number): string {
  const pieces: string[] = [];
  let from = start;
  for (let at = start; at < end;) {
    if (body[at] === QUOTE) {
      at += 1;
      while (body[at] !== QUOTE) at += body[at] === BACKSLASH ? 2 : 1;
      at += 1;
      continue;
    }
    const number = at;
    while (NUMBER_BYTES[body[at] as number] === 1 && at < end) at += 1;
    const token = at === number || at - number > MAX_NUMBER_BYTES ? "" : utf8(body, number, at);
    const double = Number(token);
    if (Number.isInteger(double) && !Number.isSafeInteger(double)) {
      pieces.push(utf8(body, from, number), `["${EXACT_INTEGER}","${token}"]`);
      from = at;
    }
    if (at === number) at += 1;
  }
  pieces.push(utf8(body, from, end));
  return pieces.join("");
}

/** Bytes of numbers. The `e` of `true` or `false` is also read as a token, but is not a number. */
const NUMBER_BYTES = Uint8Array.from({ length: 256 }, (_, byte) => ("0123456789.eE+-".includes(String.fromCharCode(byte)) ? 1 : 0));

// JSON text of a body, with its long integers kept from being rounded. Invariant: what is in strings stays as it is.
import { EXACT_INTEGER } from "./json.ts";
import { utf8 } from "./json-scanner.ts";

const QUOTE = 34;
const BACKSLASH = 92;
/** No integer of 64 bits is written longer by anybody. */
const LONGEST_INTEGER = 400;

/** The text with each integer beyond 2^53 as what `integerDigits` knows: its own digits. */
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
    const token = at === number || at - number > LONGEST_INTEGER ? "" : utf8(body, number, at);
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

/** Bytes of numbers; an `e` of `true` or `false` is a token too, and no number. */
const NUMBER_BYTES = Uint8Array.from({ length: 256 }, (_, byte) => ("0123456789.eE+-".includes(String.fromCharCode(byte)) ? 1 : 0));

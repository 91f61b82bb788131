// Reads escapes of JSON strings (RFC 8259, section 7), starting at their backslash. Invariant: an unescaped character is shorter than its
// escape.
import { fallBack, SYNTAX, UNUSUAL } from "./bytes";

/** Address after the character that `escape` wrote. */
export let escapedTo: usize = 0;

/** Writes the character of the escape at `at` to `to`. Falls back for a lone surrogate. */
export function escape(at: usize, to: usize): usize {
  const code = escapedCode(at);
  at += load<u8>(at + 1) == 0x75 ? 6 : 2;
  if (code < 0x80) {
    store<u8>(to, <u8>code);
    escapedTo = to + 1;
  } else if (code < 0x800) {
    store<u8>(to, <u8>(0xc0 | (code >> 6)));
    store<u8>(to + 1, <u8>(0x80 | (code & 0x3f)));
    escapedTo = to + 2;
  } else if (code < 0xd800 || code > 0xdfff) {
    store<u8>(to, <u8>(0xe0 | (code >> 12)));
    store<u8>(to + 1, <u8>(0x80 | ((code >> 6) & 0x3f)));
    store<u8>(to + 2, <u8>(0x80 | (code & 0x3f)));
    escapedTo = to + 3;
  } else {
    if (code > 0xdbff || load<u16>(at) != 0x755c) fallBack(UNUSUAL);
    const low = escapedCode(at);
    if (low < 0xdc00 || low > 0xdfff) fallBack(UNUSUAL);
    const point = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    store<u8>(to, <u8>(0xf0 | (point >> 18)));
    store<u8>(to + 1, <u8>(0x80 | ((point >> 12) & 0x3f)));
    store<u8>(to + 2, <u8>(0x80 | ((point >> 6) & 0x3f)));
    store<u8>(to + 3, <u8>(0x80 | (point & 0x3f)));
    escapedTo = to + 4;
    at += 6;
  }
  return at;
}

/** The UTF-16 code unit of the escape at `at`. */
export function escapedCode(at: usize): u32 {
  switch (load<u8>(at + 1)) {
    case 0x22:
      return 0x22;
    case 0x5c:
      return 0x5c;
    case 0x2f:
      return 0x2f;
    case 0x62:
      return 8;
    case 0x66:
      return 12;
    case 0x6e:
      return 10;
    case 0x72:
      return 13;
    case 0x74:
      return 9;
    case 0x75:
      return (hexDigit(at + 2) << 12) | (hexDigit(at + 3) << 8) | (hexDigit(at + 4) << 4) | hexDigit(at + 5);
    default:
      fallBack(SYNTAX);
      return 0;
  }
}

function hexDigit(at: usize): u32 {
  const byte = load<u8>(at);
  const digit: u32 = byte - 0x30;
  if (digit < 10) return digit;
  const letter: u32 = (byte | 0x20) - 0x61;
  if (letter > 5) fallBack(SYNTAX);
  return letter + 10;
}

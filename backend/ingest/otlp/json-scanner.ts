// Walks over the bytes of a JSON document (RFC 8259) without building values, so that a request body can be validated before it is parsed.
// Invariants: it is strict; its cost per byte is constant, and it needs one byte of memory per nesting level, whatever the document is.
import { ApiError } from "../../errors.ts";

const [TAB, NEWLINE, RETURN, SPACE] = [9, 10, 13, 32];
const [QUOTE, PLUS, COMMA, MINUS] = [34, 43, 44, 45];
const [DOT, ZERO, NINE, COLON] = [46, 48, 57, 58];
const [OPEN_ARRAY, BACKSLASH, CLOSE_ARRAY, OPEN_OBJECT] = [91, 92, 93, 123];
const CLOSE_OBJECT = 125;

/** 1 for bytes that end a string, begin an escape, or are not allowed in a string. */
const STRING_STOP = Uint8Array.from({ length: 256 }, (_, byte) => (byte < SPACE || byte === QUOTE || byte === BACKSLASH ? 1 : 0));
const LITERALS = new Map(["true", "false", "null"].map((word) => [word.charCodeAt(0), Buffer.from(word)]));
/** A double rounds no integer with fewer digits. */
const ROUNDED_DIGITS = 16;

/** The kinds of values that a pass over a document distinguishes. */
export type Kind = "object" | "array" | "null" | "other";

export class JsonScanner {
  readonly #bytes: Uint8Array;
  /** The offset of the next byte. */
  at = 0;
  /** The commas, colons and opening brackets so far, which determine the cost of parsing. */
  tokens = 0;
  /** Set after an integer that a double may round, and after any number with an exponent. */
  mayRound = false;
  /** For each open container, innermost last: whether it is an object. */
  #isObject = new Uint8Array(64);

  /** `bytes` must be UTF-8. */
  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** Skips blanks; returns true at the end of the document. */
  atEnd(): boolean {
    this.#skipBlanks();
    return this.at >= this.#bytes.length;
  }

  /** The kind of the next value. */
  kind(): Kind {
    this.#skipBlanks();
    const byte = this.#bytes[this.at];
    if (byte === OPEN_OBJECT) return "object";
    if (byte === OPEN_ARRAY) return "array";
    return byte === 0x6e ? "null" : "other";
  }

  /** Walks through an object; `visit` must read each member's value. */
  object(visit: (key: string) => void): void {
    this.at += 1;
    this.tokens += 1;
    if (this.#closes(CLOSE_OBJECT)) return;
    do visit(this.#key());
    while (this.#goesOn(CLOSE_OBJECT));
  }

  /** Walks through an array; `visit` must read each value. */
  array(visit: (index: number) => void): void {
    this.at += 1;
    this.tokens += 1;
    if (this.#closes(CLOSE_ARRAY)) return;
    let index = 0;
    do {
      this.#skipBlanks();
      visit(index);
      index += 1;
    } while (this.#goesOn(CLOSE_ARRAY));
  }

  /** Reads one value of any kind, including its content. */
  value(): void {
    const bytes = this.#bytes;
    let depth = 0;
    for (;;) {
      this.#skipBlanks();
      const byte = bytes[this.at] as number;
      if (byte === OPEN_OBJECT || byte === OPEN_ARRAY) {
        this.at += 1;
        this.tokens += 1;
        if (!this.#closes(byte + 2)) {
          this.#push(depth, byte === OPEN_OBJECT);
          depth += 1;
          if (byte === OPEN_OBJECT) this.#skipKey();
          continue;
        }
      } else if (byte === QUOTE) this.#string();
      else if (byte === MINUS || isDigit(byte)) this.#number();
      else this.#literal();
      for (; depth > 0; depth -= 1) {
        const isObject = this.#isObject[depth - 1] === 1;
        if (!this.#goesOn(isObject ? CLOSE_OBJECT : CLOSE_ARRAY)) continue;
        if (isObject) this.#skipKey();
        break;
      }
      if (depth === 0) return;
    }
  }

  /** Throws malformed_body with the offset. */
  fail(problem = "unexpected character"): never {
    throw new ApiError(
      "malformed_body",
      `the body is not JSON: ${this.at < this.#bytes.length ? problem : "unexpected end of input"} at byte ${this.at}`,
    );
  }

  #push(depth: number, isObject: boolean): void {
    if (depth === this.#isObject.length) {
      const larger = new Uint8Array(depth * 2);
      larger.set(this.#isObject);
      this.#isObject = larger;
    }
    this.#isObject[depth] = isObject ? 1 : 0;
  }

  #skipBlanks(): void {
    const bytes = this.#bytes;
    for (;;) {
      const byte = bytes[this.at];
      if (byte !== SPACE && byte !== NEWLINE && byte !== RETURN && byte !== TAB) return;
      this.at += 1;
    }
  }

  /** Call after the opening bracket of a container; returns whether it is empty. */
  #closes(close: number): boolean {
    this.#skipBlanks();
    if (this.#bytes[this.at] !== close) return false;
    this.at += 1;
    return true;
  }

  /** Call after a value in a container; returns true after a comma, false after the end of the container. */
  #goesOn(close: number): boolean {
    if (this.#closes(close)) return false;
    if (this.#bytes[this.at] !== COMMA) this.fail();
    this.at += 1;
    this.tokens += 1;
    return true;
  }

  #skipKey(): void {
    this.#skipBlanks();
    if (this.#bytes[this.at] !== QUOTE) this.fail();
    this.#string();
    this.#skipBlanks();
    if (this.#bytes[this.at] !== COLON) this.fail();
    this.at += 1;
    this.tokens += 1;
  }

  #key(): string {
    this.#skipBlanks();
    const start = this.at;
    this.#skipKey();
    const text = utf8(this.#bytes, start, Math.min(this.at, start + MAX_KEY_BYTES));
    const end = text.lastIndexOf('"') + 1;
    return this.at - start > MAX_KEY_BYTES ? "" : (JSON.parse(text.slice(0, end)) as string);
  }

  /** Advances from the opening quote of a string to after the closing one. */
  #string(): void {
    const bytes = this.#bytes;
    for (let at = this.at + 1; ; at += 1) {
      while (STRING_STOP[bytes[at] as number] === 0) at += 1;
      const byte = bytes[at];
      if (byte === QUOTE) {
        this.at = at + 1;
        return;
      }
      const escaped = byte === BACKSLASH ? this.#escapeLength(at + 1) : 0;
      if (escaped === 0) {
        this.at = Math.min(at, bytes.length);
        this.fail("control character or invalid escape sequence in a string");
      }
      at += escaped;
    }
  }

  /** The number of bytes of the escape after a backslash; 0 if it is invalid. */
  #escapeLength(at: number): number {
    const byte = this.#bytes[at] as number;
    if (byte !== 0x75) return ESCAPES[byte] === 1 ? 1 : 0;
    for (let digit = at + 1; digit < at + 5; digit += 1) if (HEX_DIGITS[this.#bytes[digit] as number] !== 1) return 0;
    return 5;
  }

  #number(): void {
    const bytes = this.#bytes;
    let at = bytes[this.at] === MINUS ? this.at + 1 : this.at;
    const whole = at;
    while (isDigit(bytes[at])) at += 1;
    if (at === whole || (bytes[whole] === ZERO && at > whole + 1)) this.fail("invalid number");
    if (at - whole >= ROUNDED_DIGITS) this.mayRound = true;
    if (bytes[at] === DOT) {
      const fraction = at + 1;
      for (at = fraction; isDigit(bytes[at]); at += 1);
      if (at === fraction) this.fail("invalid number");
    }
    if (bytes[at] === 0x65 || bytes[at] === 0x45) {
      this.mayRound = true;
      at += bytes[at + 1] === PLUS || bytes[at + 1] === MINUS ? 2 : 1;
      const exponent = at;
      while (isDigit(bytes[at])) at += 1;
      if (at === exponent) this.fail("invalid number");
    }
    this.at = at;
  }

  #literal(): void {
    const literal = LITERALS.get(this.#bytes[this.at] as number);
    if (!literal?.every((byte, index) => this.#bytes[this.at + index] === byte)) this.fail();
    this.at += literal.length;
  }
}

/** No known key is longer. */
const MAX_KEY_BYTES = 256;
const ESCAPES = table('"\\/bfnrt');
const HEX_DIGITS = table("0123456789abcdefABCDEF");

function table(characters: string): Uint8Array {
  const marks = new Uint8Array(256);
  for (const byte of Buffer.from(characters)) marks[byte] = 1;
  return marks;
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= ZERO && byte <= NINE;
}

/** A part of the document as text. */
export function utf8(bytes: Uint8Array, start: number, end: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + start, end - start).toString("utf8");
}

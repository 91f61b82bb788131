// Walks over the bytes of a JSON document (RFC 8259) without making anything of them. Invariant: strict, and of a constant cost for each
// byte and of no memory but a byte for each level of nesting, whatever the document is: so a body can be validated before it is parsed.
import { ApiError } from "../../errors.ts";

const TAB = 9;
const NEWLINE = 10;
const RETURN = 13;
const SPACE = 32;
const QUOTE = 34;
const PLUS = 43;
const COMMA = 44;
const MINUS = 45;
const DOT = 46;
const ZERO = 48;
const NINE = 57;
const COLON = 58;
const OPEN_ARRAY = 91;
const BACKSLASH = 92;
const CLOSE_ARRAY = 93;
const OPEN_OBJECT = 123;
const CLOSE_OBJECT = 125;

/** 1 at bytes that end a string, escape in it, or may not stand in it. */
const STRING_STOP = Uint8Array.from({ length: 256 }, (_, byte) => (byte < SPACE || byte === QUOTE || byte === BACKSLASH ? 1 : 0));
const LITERALS = new Map(["true", "false", "null"].map((word) => [word.charCodeAt(0), Buffer.from(word)]));
/** No integer of fewer digits is rounded by a double. */
const ROUNDED_DIGITS = 16;

/** The kinds of values that a pass over a document distinguishes. */
export type Kind = "object" | "array" | "null" | "other";

export class JsonScanner {
  readonly #bytes: Uint8Array;
  /** The next byte to be read. */
  at = 0;
  /** Commas, colons, opening brackets so far: what parsing costs. */
  tokens = 0;
  /** Set when a number was met that a double may round, though it is an integer. */
  mayRound = false;
  /** For each container around the current position, innermost last: whether it is an object. */
  #isObject = new Uint8Array(64);

  /** `bytes` are UTF-8. */
  constructor(bytes: Uint8Array) {
    this.#bytes = bytes;
  }

  /** Skips blanks; true at the end of the document. */
  atEnd(): boolean {
    this.#skipBlanks();
    return this.at >= this.#bytes.length;
  }

  /** The kind of the value that comes next. */
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

  /** Reads one value of any kind, with all that is in it. */
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

  /** Throws malformed_body naming the place. */
  fail(problem = "an unexpected character"): never {
    throw new ApiError("malformed_body", `the body is not JSON: ${this.at < this.#bytes.length ? problem : "it ends"} at byte ${this.at}`);
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

  /** Behind a container's opening: whether it closes at once. */
  #closes(close: number): boolean {
    this.#skipBlanks();
    if (this.#bytes[this.at] !== close) return false;
    this.at += 1;
    return true;
  }

  /** Behind a value within a container: true at a comma, false behind its end. */
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
    const text = utf8(this.#bytes, start, Math.min(this.at, start + LONGEST_KEY_BYTES));
    const end = text.lastIndexOf('"') + 1;
    return this.at - start > LONGEST_KEY_BYTES ? "" : (JSON.parse(text.slice(0, end)) as string);
  }

  /** From an opening quote to behind its closing one. */
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
        this.fail("a control character or a wrong escape in a string");
      }
      at += escaped;
    }
  }

  /** How many bytes the escape behind a backslash has; 0 when it is none. */
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
    if (at === whole || (bytes[whole] === ZERO && at > whole + 1)) this.fail("a wrong number");
    if (at - whole >= ROUNDED_DIGITS) this.mayRound = true;
    if (bytes[at] === DOT) {
      const fraction = at + 1;
      for (at = fraction; isDigit(bytes[at]); at += 1);
      if (at === fraction) this.fail("a wrong number");
    }
    if (bytes[at] === 0x65 || bytes[at] === 0x45) {
      this.mayRound = true;
      at += bytes[at + 1] === PLUS || bytes[at + 1] === MINUS ? 2 : 1;
      const exponent = at;
      while (isDigit(bytes[at])) at += 1;
      if (at === exponent) this.fail("a wrong number");
    }
    this.at = at;
  }

  #literal(): void {
    const literal = LITERALS.get(this.#bytes[this.at] as number);
    if (!literal?.every((byte, index) => this.#bytes[this.at + index] === byte)) this.fail();
    this.at += literal.length;
  }
}

/** Longer keys are none that is looked for. */
const LONGEST_KEY_BYTES = 256;
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

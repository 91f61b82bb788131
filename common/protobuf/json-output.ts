// Writes JSON text for values of other formats into one growing buffer. Invariant: the buffer never exceeds its limit, and text from the
// body is escaped, so a body cannot end a string of the generated document.
import { freeBuffer } from "../http.ts";
import { BodyError } from "../otlp-metrics/document.ts";

const [QUOTE, BACKSLASH] = [0x22, 0x5c];
const HEX = Buffer.from("0123456789abcdef");
/** `\u0000`. */
const ESCAPED_BYTES = 6;
const MIB = 1024 * 1024;
const TWO_32 = 0x1_00_00_00_00;
const MILLION = 1_000_000;
const TEN_MILLION = 10_000_000;
const MAX_DIGITS = 20;

export class JsonOutput {
  readonly #maxBytes: number;
  #bytes: Buffer;
  #length = 0;

  constructor(expectedBytes: number, maxBytes: number) {
    this.#maxBytes = maxBytes;
    this.#bytes = Buffer.allocUnsafeSlow(Math.min(expectedBytes, maxBytes));
  }

  /** The written bytes in their own buffer. */
  take(): Buffer<ArrayBuffer> {
    const { buffer } = this.#bytes;
    return Buffer.from((buffer as ArrayBuffer).transfer(this.#length));
  }

  get length(): number {
    return this.#length;
  }

  /** Removes what was written after the output had this length. */
  truncate(length: number): void {
    this.#length = length;
  }

  discard(): void {
    freeBuffer(this.#bytes);
  }

  byte(code: number): void {
    this.#reserve(1);
    this.#bytes[this.#length++] = code;
  }

  /** Copies byte by byte, which is faster for short texts than a call of the runtime. */
  bytes(text: Uint8Array): void {
    this.#reserve(text.length);
    const bytes = this.#bytes;
    let to = this.#length;
    for (let at = 0; at < text.length; at += 1) bytes[to++] = text[at] as number;
    this.#length = to;
  }

  /** An unsigned 64-bit integer, in quotes. Every step is exact in a double. */
  digits(high: number, low: number): void {
    this.#reserve(MAX_DIGITS + 2);
    this.#bytes[this.#length++] = QUOTE;
    const rest = (high % MILLION) * TWO_32 + low;
    const millions = Math.floor(high / MILLION) * TWO_32 + Math.floor(rest / MILLION);
    const last = rest % MILLION;
    if (millions === 0) this.#integer(last, 1);
    else {
      const upper = Math.floor(millions / TEN_MILLION);
      if (upper > 0) this.#integer(upper, 1);
      this.#integer(millions % TEN_MILLION, upper > 0 ? 7 : 1);
      this.#integer(last, 6);
    }
    this.#bytes[this.#length++] = QUOTE;
  }

  /** Less than 2^31, padded to `minDigits`; the caller has made sure that it fits. */
  #integer(value: number, minDigits: number): void {
    let count = minDigits;
    for (let limit = 10 ** minDigits; value >= limit; limit *= 10) count += 1;
    let rest = value;
    for (let at = this.#length + count - 1; at >= this.#length; at -= 1) {
      const next = Math.floor(rest / 10);
      this.#bytes[at] = 0x30 + rest - next * 10;
      rest = next;
    }
    this.#length += count;
  }

  /** ASCII without characters that need escaping. */
  ascii(text: string): void {
    this.#reserve(text.length);
    this.#length += this.#bytes.write(text, this.#length, "latin1");
  }

  /** Any JSON text. */
  text(json: string): void {
    this.#reserve(Buffer.byteLength(json));
    this.#length += this.#bytes.write(json, this.#length, "utf8");
  }

  string(body: Uint8Array, start: number, end: number): void {
    this.#reserve(end - start + 2);
    let bytes = this.#bytes;
    let to = this.#length;
    bytes[to++] = QUOTE;
    for (let at = start; at < end; at += 1) {
      const byte = body[at] as number;
      if (byte >= 0x20 && byte !== QUOTE && byte !== BACKSLASH) {
        bytes[to++] = byte;
        continue;
      }
      this.#length = to;
      this.#reserve(end - at + ESCAPED_BYTES + 1);
      bytes = this.#bytes;
      to = escape(bytes, to, byte);
    }
    bytes[to++] = QUOTE;
    this.#length = to;
  }

  hex(body: Uint8Array, start: number, end: number): void {
    this.#reserve(2 * (end - start) + 2);
    const bytes = this.#bytes;
    let to = this.#length;
    bytes[to++] = QUOTE;
    for (let at = start; at < end; at += 1) {
      const byte = body[at] as number;
      bytes[to++] = HEX[byte >> 4] as number;
      bytes[to++] = HEX[byte & 15] as number;
    }
    bytes[to++] = QUOTE;
    this.#length = to;
  }

  base64(body: Uint8Array, start: number, end: number): void {
    this.ascii(`"${Buffer.from(body.buffer, body.byteOffset + start, end - start).toString("base64")}"`);
  }

  /** As JSON.stringify, except for NaN and infinities, which JSON does not have. */
  double(value: number): void {
    this.ascii(Number.isFinite(value) ? (Object.is(value, -0) ? "-0" : String(value)) : `"${value}"`);
  }

  #reserve(more: number): void {
    const needed = this.#length + more;
    if (needed <= this.#bytes.length) return;
    if (needed > this.#maxBytes)
      throw new BodyError("too_large", `the body has more than ${this.#maxBytes / MIB} MiB as OTLP/JSON: send smaller batches`);
    const larger = Buffer.allocUnsafeSlow(Math.min(Math.max(2 * this.#bytes.length, needed), this.#maxBytes));
    this.#bytes.copy(larger, 0, 0, this.#length);
    freeBuffer(this.#bytes);
    this.#bytes = larger;
  }
}

function escape(bytes: Buffer, to: number, byte: number): number {
  bytes[to] = BACKSLASH;
  if (byte === QUOTE || byte === BACKSLASH) {
    bytes[to + 1] = byte;
    return to + 2;
  }
  if (byte === 0x0a) {
    bytes[to + 1] = 0x6e;
    return to + 2;
  }
  bytes.write("u00", to + 1, "latin1");
  bytes[to + 4] = HEX[byte >> 4] as number;
  bytes[to + 5] = HEX[byte & 15] as number;
  return to + ESCAPED_BYTES;
}

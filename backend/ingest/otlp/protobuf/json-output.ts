// JSON text of protobuf values, written into one growing buffer. Invariant: the buffer never becomes larger than its limit, and text from the
// body is escaped, so a body cannot end a string of the document that is made of it.
import { freeBuffer } from "../../../../common/http.ts";
import { ApiError } from "../../../errors.ts";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const HEX = Buffer.from("0123456789abcdef");
/** `\u0000`. */
const ESCAPED_BYTES = 6;
const MIB = 1024 * 1024;

export class JsonOutput {
  readonly #maxBytes: number;
  #bytes: Buffer;
  #length = 0;

  constructor(expectedBytes: number, maxBytes: number) {
    this.#maxBytes = maxBytes;
    this.#bytes = Buffer.allocUnsafeSlow(Math.min(expectedBytes, maxBytes));
  }

  /** What was written, alone in its memory. */
  take(): Buffer<ArrayBuffer> {
    const { buffer } = this.#bytes;
    return Buffer.from((buffer as ArrayBuffer).transfer(this.#length));
  }

  discard(): void {
    freeBuffer(this.#bytes);
  }

  byte(code: number): void {
    this.#reserve(1);
    this.#bytes[this.#length++] = code;
  }

  /** ASCII that needs no escaping. */
  ascii(text: string): void {
    this.#reserve(text.length);
    this.#length += this.#bytes.write(text, this.#length, "latin1");
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

  /** As JSON.stringify, but for what JSON has no number. */
  double(value: number): void {
    this.ascii(Number.isFinite(value) ? (Object.is(value, -0) ? "-0" : String(value)) : `"${value}"`);
  }

  #reserve(more: number): void {
    const needed = this.#length + more;
    if (needed <= this.#bytes.length) return;
    if (needed > this.#maxBytes)
      throw new ApiError("batch_too_large", `the body has more than ${this.#maxBytes / MIB} MiB as OTLP/JSON: send smaller batches`);
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

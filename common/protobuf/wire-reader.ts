// Reads protobuf messages field by field without copying. Invariant: it never reads beyond the end of the message, and malformed protobuf
// throws BodyError "malformed". Groups (wire types 3 and 4) are rejected, because no protocol here uses them.
import { BodyError } from "../otlp-metrics/document.ts";

export const VARINT = 0;
export const FIXED64 = 1;
export const BYTES = 2;
export const FIXED32 = 5;

export class WireReader {
  readonly bytes: Buffer;
  readonly view: DataView;
  /** Number of the current field. */
  field = 0;
  wireType = 0;
  /** The start of the field's tag. */
  tagStart = 0;
  /** The start of a field of type bytes, or the value of any other field. */
  start = 0;
  end = 0;
  #at = 0;
  #limit = 0;

  constructor(body: Uint8Array) {
    this.bytes = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
    this.view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  }

  /** Calls `visit` for each field of the message in this range; `visit` may read a nested message. */
  message(start: number, end: number, visit: () => void): void {
    for (let at = start; at < end;) {
      at = this.next(at, end);
      visit();
    }
  }

  /** Reads the field at `at` of a message that ends at `limit`; returns where the field ends. */
  next(at: number, limit: number): number {
    this.#at = at;
    this.#limit = limit;
    this.tagStart = at;
    const tag = this.#varint();
    this.field = tag >>> 3;
    this.wireType = tag & 7;
    if (this.field === 0) throw malformed("a field has the number 0");
    this.start = this.#at;
    if (this.wireType === BYTES) {
      const length = this.#varint();
      this.start = this.#at;
      this.#skip(length);
    } else if (this.wireType === VARINT) this.#varint();
    else if (this.wireType === FIXED64) this.#skip(8);
    else if (this.wireType === FIXED32) this.#skip(4);
    else throw malformed(`the wire type ${this.wireType} is not supported`);
    this.end = this.#at;
    return this.end;
  }

  /** Throws unless the current field has this wire type. */
  expect(wireType: number, name: string): void {
    if (this.wireType !== wireType) throw malformed(`${name} has the wire type ${this.wireType}`);
  }

  /** The current field as text; bytes that are not UTF-8 become U+FFFD. */
  text(): string {
    return this.bytes.toString("utf8", this.start, this.end);
  }

  /** The current field as a number up to 2^53, positive or negative. Throws for another wire type, whose length has no limit. */
  integer(): number {
    this.expect(VARINT, "a number");
    // Seven bytes are less than 2^49.
    if (this.end - this.start > 7) return Number(BigInt.asIntN(64, this.#bigVarint(this.start)));
    let value = 0;
    for (let at = this.end - 1; at >= this.start; at -= 1) value = value * 0x80 + ((this.bytes[at] as number) & 0x7f);
    return value;
  }

  double(): number {
    return this.view.getFloat64(this.start, true);
  }

  #bigVarint(from: number): bigint {
    let value = 0n;
    for (let at = from, shift = 0n; at < this.end; at += 1, shift += 7n) value |= BigInt((this.bytes[at] as number) & 0x7f) << shift;
    return value;
  }

  /** The low 32 bits, as an unsigned number. */
  #varint(): number {
    if (this.#at < this.#limit && (this.bytes[this.#at] as number) < 0x80) return this.bytes[this.#at++] as number;
    let value = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      if (this.#at >= this.#limit) throw malformed("it ends within a number");
      const byte = this.bytes[this.#at++] as number;
      if (shift < 32) value |= (byte & 0x7f) << shift;
      else if (this.wireType === BYTES && (byte & 0x7f) !== 0) throw malformed("a length has more than 32 bits");
      if (byte < 0x80) return value >>> 0;
    }
    throw malformed("a number has more than 10 bytes");
  }

  #skip(length: number): void {
    this.#at += length;
    if (this.#at > this.#limit) throw malformed("it ends within a value");
  }
}

/** The beginning of the message of the error. */
export const MALFORMED = "the body is not the protobuf message of this protocol: ";

function malformed(why: string): BodyError {
  return new BodyError("malformed", MALFORMED + why);
}

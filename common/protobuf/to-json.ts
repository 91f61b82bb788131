// Converts OTLP/protobuf to OTLP/JSON in one pass, for the decoders that read only JSON: metrics, and the slow path of logs and traces for
// bodies that the kernel (otlp/kernel/wire-document.ts) does not accept. Invariants: no value is lost or rounded, because 64-bit integers
// become strings of digits; memory and depth have limits; malformed protobuf throws BodyError "malformed", or, within a
// record, makes only this record unreadable.
import { isUtf8 } from "node:buffer";
import { BodyError } from "../otlp-metrics/document.ts";
import { WIRE_TYPES } from "./decode-request.ts";
import { JsonOutput } from "./json-output.ts";
import { MAX_MALFORMED_PARTS, MAX_PROTOBUF_DEPTH, MAX_PROTOBUF_JSON_BYTES } from "./protobuf-limits.ts";
import { BYTES, FIXED32, FIXED64, VARINT } from "./wire-reader.ts";
import { type Field, LINES_REQUEST, type Message, REQUESTS } from "./protobuf-messages.ts";

export type ProtobufSignal = keyof typeof REQUESTS;

/** OTLP/JSON from collectors is about 2.3 times as large as protobuf. */
const EXPECTED_GROWTH = 2.5;
const MIN_BYTES = 1024;
const EMPTY_OBJECT = 2;

const COMMA = 0x2c;
const [OPEN_OBJECT, CLOSE_OBJECT, OPEN_ARRAY, CLOSE_ARRAY] = [0x7b, 0x7d, 0x5b, 0x5d];

export interface TranscodeOptions {
  /** The text of a log record may be bytes (see LINES_REQUEST). */
  readonly readsLines?: boolean;
  /** The JSON in the place of a malformed record or resource; without it, one makes the body malformed. */
  readonly malformedPart?: (reason: string) => string;
}

/** Throws BodyError "malformed" and "too_large". The result has its own buffer. */
export function otlpToJson(
  signal: ProtobufSignal,
  body: Uint8Array,
  { readsLines = false, malformedPart }: TranscodeOptions = {},
): Buffer<ArrayBuffer> {
  const output = new JsonOutput(Math.max(MIN_BYTES, Math.ceil(body.byteLength * EXPECTED_GROWTH)), MAX_PROTOBUF_JSON_BYTES);
  try {
    new Transcoder(body, output, malformedPart).message(readsLines ? LINES_REQUEST : REQUESTS[signal], 0, body.byteLength, 0);
    // A success must not mean that nothing was understood.
    if (body.byteLength > 0 && output.length === EMPTY_OBJECT) throw malformed("it has no field of this request");
    return output.take();
  } catch (error) {
    output.discard();
    throw error;
  }
}

class Transcoder {
  readonly #body: Uint8Array;
  readonly #view: DataView;
  readonly #output: JsonOutput;
  /** The offset after the last item. */
  #next = 0;
  #malformedParts = 0;
  readonly #malformedPart: TranscodeOptions["malformedPart"];

  constructor(body: Uint8Array, output: JsonOutput, malformedPart: TranscodeOptions["malformedPart"]) {
    this.#malformedPart = malformedPart;
    this.#body = body;
    this.#view = new DataView(body.buffer, body.byteOffset, body.byteLength);
    this.#output = output;
  }

  /**
   * Writes the message from `at` to `end`. A singular field that occurs twice becomes a duplicate key, of which JSON parsers use the last.
   */
  message(message: Message, at: number, end: number, depth: number): void {
    if (depth > MAX_PROTOBUF_DEPTH) throw malformed(`messages are nested more than ${MAX_PROTOBUF_DEPTH} deep`);
    const output = this.#output;
    // Bits of the repeated fields that are already written; no field number is larger than 31.
    let written = 0;
    let isFirst = true;
    output.byte(OPEN_OBJECT);
    while (at < end) {
      const start = at;
      const tag = this.#varint(at, end);
      const number = tag >>> 3;
      const field = message[number];
      at = this.#skip(this.#next, end, tag & 7);
      if (field === undefined || (field.isRepeated && (written & (1 << number)) !== 0)) continue;
      if (!isFirst) output.byte(COMMA);
      isFirst = false;
      output.bytes(field.json);
      if (field.isRepeated) {
        written |= 1 << number;
        this.#list(field, number, { start, end, depth });
      } else this.#item(field, start, end, depth);
    }
    output.byte(CLOSE_OBJECT);
  }

  /** Writes all items of a repeated field, which need not be adjacent. */
  #list(field: Field, number: number, { start, end, depth }: { start: number; end: number; depth: number }): void {
    const output = this.#output;
    let isFirst = true;
    output.byte(OPEN_ARRAY);
    for (let at = start; at < end;) {
      const tag = this.#varint(at, end);
      const item = this.#next;
      const next = this.#skip(item, end, tag & 7);
      if (tag >>> 3 === number) {
        if (field.kind !== "message" && (tag & 7) === BYTES) isFirst = this.#packed(field, item, isFirst);
        else {
          if (!isFirst) output.byte(COMMA);
          isFirst = false;
          this.#item(field, at, end, depth);
        }
      }
      at = next;
    }
    output.byte(CLOSE_ARRAY);
  }

  /** Writes scalars without tags; `at` is the offset of their length. Returns whether the list is still empty. */
  #packed(field: Field, at: number, isFirst: boolean): boolean {
    const length = this.#varint(at, this.#body.byteLength);
    let from = this.#next;
    const end = from + length;
    while (from < end) {
      if (!isFirst) this.#output.byte(COMMA);
      isFirst = false;
      from = this.#scalar(field, from, end);
    }
    return isFirst;
  }

  /** Writes the value after the tag at `start`. */
  #item(field: Field, start: number, end: number, depth: number): void {
    const wireType = this.#varint(start, end) & 7;
    const at = this.#next;
    if (wireType !== WIRE_TYPES[field.kind]) throw malformed(`${field.name} has the wire type ${wireType}`);
    if (wireType !== BYTES) {
      this.#scalar(field, at, end);
      return;
    }
    const length = this.#varint(at, end);
    const from = this.#next;
    const to = from + length;
    const output = this.#output;
    if (field.isPart) this.#part(field, { from, to, depth: depth + 1 });
    else if (field.kind === "message") this.message(field.message(), from, to, depth + 1);
    else if (field.kind === "string") output.string(this.#body, from, to);
    else if (field.kind === "line") this.#line(from, to);
    else if (field.kind === "id") output.hex(this.#body, from, to);
    else output.base64(this.#body, from, to);
  }

  /** Writes a string or, if it is not UTF-8, an object that contains its bytes. */
  #line(from: number, to: number): void {
    const output = this.#output;
    if (isUtf8(this.#body.subarray(from, to))) return output.string(this.#body, from, to);
    output.ascii('{"base64":');
    output.base64(this.#body, from, to);
    output.byte(CLOSE_OBJECT);
  }

  /** Writes a message; if it is malformed, the reason instead. Above a number of these, the body is not what it is said to be. */
  #part(field: Field, { from, to, depth }: { from: number; to: number; depth: number }): void {
    const { length } = this.#output;
    try {
      this.message(field.message(), from, to, depth);
    } catch (error) {
      this.#malformedParts += 1;
      const isMalformed = error instanceof BodyError && error.kind === "malformed" && this.#malformedPart !== undefined;
      if (!isMalformed || this.#malformedParts > MAX_MALFORMED_PARTS) throw error;
      this.#output.truncate(length);
      this.#output.text(this.#malformedPart(error.message.slice(MALFORMED.length)));
    }
  }

  /** Writes a scalar; returns the offset after it. */
  #scalar({ kind }: Field, at: number, end: number): number {
    const output = this.#output;
    const view = this.#view;
    switch (kind) {
      case "double":
        requireBytes(at + 8, end);
        output.double(view.getFloat64(at, true));
        return at + 8;
      case "fixed64":
        requireBytes(at + 8, end);
        output.digits(view.getUint32(at + 4, true), view.getUint32(at, true));
        return at + 8;
      case "sfixed64":
        requireBytes(at + 8, end);
        output.ascii(`"${view.getBigInt64(at, true)}"`);
        return at + 8;
      case "fixed32":
        requireBytes(at + 4, end);
        output.ascii(String(view.getUint32(at, true)));
        return at + 4;
      default:
        this.#varintText(kind, at, end);
        return this.#next;
    }
  }

  #varintText(kind: Field["kind"], at: number, end: number): void {
    if (kind === "int64" || kind === "uint64") {
      const value = this.#bigVarint(at, end);
      this.#output.ascii(`"${kind === "int64" ? BigInt.asIntN(64, value) : value}"`);
      return;
    }
    const value = this.#varint(at, end);
    if (kind === "bool") this.#output.ascii(value === 0 && this.#isZero(at) ? "false" : "true");
    else if (kind === "sint32") this.#output.ascii(String((value >>> 1) ^ -(value & 1)));
    else this.#output.ascii(String(kind === "uint32" ? value >>> 0 : value));
  }

  #isZero(at: number): boolean {
    return this.#bigVarint(at, this.#next) === 0n;
  }

  /** The low 32 bits, as a signed integer: callers check that lengths and tags are not too large. */
  #varint(at: number, end: number): number {
    const body = this.#body;
    let value = 0;
    for (let shift = 0; shift < 70; shift += 7) {
      if (at >= end) throw malformed("it ends within a number");
      const byte = body[at++] as number;
      if (shift < 32) value |= (byte & 0x7f) << shift;
      if (byte < 0x80) {
        this.#next = at;
        return value;
      }
    }
    throw malformed("a number has more than 10 bytes");
  }

  #bigVarint(at: number, end: number): bigint {
    let value = 0n;
    for (let shift = 0n; shift < 70n; shift += 7n) {
      if (at >= end) throw malformed("it ends within a number");
      const byte = this.#body[at++] as number;
      value |= BigInt(byte & 0x7f) << shift;
      if (byte < 0x80) {
        this.#next = at;
        return BigInt.asUintN(64, value);
      }
    }
    throw malformed("a number has more than 10 bytes");
  }

  /** The offset after a value whose tag ends at `at`. */
  #skip(at: number, end: number, wireType: number): number {
    switch (wireType) {
      case VARINT:
        this.#varint(at, end);
        return this.#next;
      case FIXED64:
        return requireBytes(at + 8, end);
      case FIXED32:
        return requireBytes(at + 4, end);
      case BYTES: {
        const length = this.#varint(at, end);
        if (length < 0) throw malformed("a length has more than 31 bits");
        return requireBytes(this.#next + length, end);
      }
      default:
        throw malformed(`the wire type ${wireType} is not supported`);
    }
  }
}

function requireBytes(at: number, end: number): number {
  if (at > end) throw malformed("it ends within a value");
  return at;
}

const MALFORMED = "the body is not an OTLP protobuf message: ";

function malformed(why: string): BodyError {
  return new BodyError("malformed", MALFORMED + why);
}

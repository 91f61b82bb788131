// Decodes an OTLP request in protobuf to the objects that parsing its JSON form would return: 64-bit integers beyond 2^53 are decimal text,
// ids are hex, bytes are base64. Invariants: no value is lost or rounded; the number of objects and their depth have limits; malformed
// protobuf throws BodyError "malformed", or, within a record, makes only this record unreadable.
import { BodyError } from "../otlp-metrics/document.ts";
import { MAX_MALFORMED_PARTS, MAX_PROTOBUF_DEPTH, MAX_PROTOBUF_OBJECTS } from "./protobuf-limits.ts";
import { type Field, type Message, REQUESTS } from "./protobuf-messages.ts";
import { BYTES, FIXED32, FIXED64, MALFORMED, VARINT, WireReader } from "./wire-reader.ts";

type Json = Record<string, unknown>;

/** Throws BodyError "malformed" and "too_large". */
export function decodeRequest(signal: keyof typeof REQUESTS, body: Uint8Array): Json {
  const decoder = new RequestDecoder(body);
  const request = decoder.message(REQUESTS[signal], 0, body.byteLength, 0);
  // A success must not mean that nothing was understood.
  if (body.byteLength > 0 && Object.keys(request).length === 0) throw malformed("it has no field of this request");
  return request;
}

/** Decodes a message of another protocol. Throws BodyError "malformed" and "too_large". */
export function decodeMessage(message: Message, body: Uint8Array): Json {
  return new RequestDecoder(body).message(message, 0, body.byteLength, 0);
}

class RequestDecoder {
  readonly #reader: WireReader;
  readonly #view: DataView;
  #objects = 0;
  #malformedParts = 0;
  /** The last 64-bit integer that is text: the points of a scrape have the same time. */
  readonly #last = { low: 0, high: 0, text: "0" };

  constructor(body: Uint8Array) {
    this.#reader = new WireReader(body);
    this.#view = new DataView(body.buffer, body.byteOffset, body.byteLength);
  }

  /** A singular field that occurs twice has its last value. */
  message(message: Message, start: number, end: number, depth: number): Json {
    if (depth > MAX_PROTOBUF_DEPTH) throw malformed(`messages are nested more than ${MAX_PROTOBUF_DEPTH} deep`);
    this.#count();
    const reader = this.#reader;
    const object: Json = {};
    reader.message(start, end, () => {
      const field = message[reader.field];
      if (field === undefined) return;
      if (!field.isRepeated) object[field.name] = this.#value(field, depth);
      else {
        const list = (object[field.name] ??= []) as unknown[];
        if (field.kind !== "message" && reader.wireType === BYTES) this.#addPacked(list, field, reader.start, reader.end);
        else list.push(this.#value(field, depth));
      }
    });
    return object;
  }

  #count(): void {
    this.#objects += 1;
    if (this.#objects > MAX_PROTOBUF_OBJECTS) throw new BodyError("too_large", `a body of more than ${MAX_PROTOBUF_OBJECTS} messages`);
  }

  #value(field: Field, depth: number): unknown {
    const reader = this.#reader;
    const { start, end } = reader;
    const { kind } = field;
    reader.expect(WIRE_TYPES[kind], field.name);
    if (kind === "message")
      return field.isPart ? this.#part(field, start, end, depth + 1) : this.message(field.message(), start, end, depth + 1);
    if (kind === "string" || kind === "line") return reader.text();
    if (kind === "id") return reader.bytes.toString("hex", start, end);
    if (kind === "bytes") return reader.bytes.toString("base64", start, end);
    return this.#scalar(kind, start, end);
  }

  /** A message; if it is malformed, a list with the reason. Above a number of these, the body is not what it is said to be. */
  #part(field: Field, start: number, end: number, depth: number): unknown {
    try {
      return this.message(field.message(), start, end, depth);
    } catch (error) {
      this.#malformedParts += 1;
      const isMalformed = error instanceof BodyError && error.kind === "malformed";
      if (!isMalformed || this.#malformedParts > MAX_MALFORMED_PARTS) throw error;
      return ["unreadable", error.message.slice(MALFORMED.length, MALFORMED.length + 200)];
    }
  }

  #addPacked(list: unknown[], { kind, name }: Field, start: number, end: number): void {
    const size = { [FIXED64]: 8, [FIXED32]: 4, [VARINT]: 0 }[WIRE_TYPES[kind]] ?? 0;
    for (let at = start; at < end;) {
      let next = at + size;
      if (size === 0) while (next < end && (this.#reader.bytes[next++] as number) >= 0x80);
      if (next > end || (size === 0 && next - at > 10)) throw malformed(`${name} ends within a value`);
      this.#count();
      list.push(this.#scalar(kind, at, next));
      at = next;
    }
  }

  #scalar(kind: Field["kind"], at: number, end: number): unknown {
    switch (kind) {
      case "double": {
        const value = this.#view.getFloat64(at, true);
        return Number.isFinite(value) ? value : String(value);
      }
      case "fixed32":
        return this.#view.getUint32(at, true);
      case "fixed64":
        return this.#integer(this.#view.getUint32(at, true), this.#view.getUint32(at + 4, true));
      case "sfixed64":
        return this.#integer(this.#view.getUint32(at, true), this.#view.getInt32(at + 4, true));
      default:
        return this.#varint(kind, at, end);
    }
  }

  /** `high` has the sign. */
  #integer(low: number, high: number): number | string {
    const value = high * 2 ** 32 + low;
    if (Number.isSafeInteger(value)) return value;
    const last = this.#last;
    if (last.low !== low || last.high !== high) {
      Object.assign(last, { low, high, text: String(BigInt(high) * 2n ** 32n + BigInt(low)) });
    }
    return last.text;
  }

  #varint(kind: Field["kind"], at: number, end: number): unknown {
    const low = this.#reader.bytes[at] as number;
    const bits = end - at === 1 ? low : this.#bigVarint(at, end);
    if (kind === "bool") return Number(bits) !== 0;
    if (kind === "int64") return numberOrText(BigInt.asIntN(64, BigInt(bits)));
    if (kind === "uint64") return numberOrText(BigInt(bits));
    if (kind === "sint64") return Number((BigInt(bits) >> 1n) ^ -(BigInt(bits) & 1n));
    const narrow = typeof bits === "number" ? bits : Number(BigInt.asUintN(32, bits));
    if (kind === "uint32") return narrow;
    return kind === "sint32" ? (narrow >>> 1) ^ -(narrow & 1) : narrow | 0;
  }

  #bigVarint(from: number, end: number): bigint {
    let value = 0n;
    for (let at = from, shift = 0n; at < end; at += 1, shift += 7n) value |= BigInt((this.#reader.bytes[at] as number) & 0x7f) << shift;
    return BigInt.asUintN(64, value);
  }
}

function numberOrText(value: bigint): number | string {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : String(value);
}

/** How each kind is encoded. */
export const WIRE_TYPES: Readonly<Record<Field["kind"], number>> = {
  string: BYTES,
  line: BYTES,
  id: BYTES,
  bytes: BYTES,
  message: BYTES,
  bool: VARINT,
  int32: VARINT,
  uint32: VARINT,
  int64: VARINT,
  uint64: VARINT,
  sint32: VARINT,
  sint64: VARINT,
  double: FIXED64,
  fixed64: FIXED64,
  sfixed64: FIXED64,
  fixed32: FIXED32,
};

function malformed(why: string): BodyError {
  return new BodyError("malformed", MALFORMED + why);
}

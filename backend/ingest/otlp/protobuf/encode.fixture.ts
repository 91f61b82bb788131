// Encodes OTLP/JSON documents as protobuf, for tests, from the table of common/protobuf/protobuf-messages.ts. Tests with several processes
// compare it with a real collector and with OpenTelemetry's own encoder.
import { type Field, type Message, REQUESTS } from "../../../../common/protobuf/protobuf-messages.ts";
import type { ProtobufSignal } from "../../../../common/protobuf/to-json.ts";

type Json = Record<string, unknown>;

export function encodeProtobuf(signal: ProtobufSignal, document: object): Buffer<ArrayBuffer> {
  return Buffer.from(encodeMessage(REQUESTS[signal], document as Json));
}

function encodeMessage(message: Message, json: Json): Uint8Array<ArrayBuffer> {
  const parts = message.flatMap((field, number) => {
    const value = field && json[field.name];
    if (field === undefined || value === undefined || value === null) return [];
    if (field.isRepeated && field.kind !== "message")
      return [bytesField(number, Buffer.concat((value as unknown[]).map((item) => encodeScalar(field, item).bytes)))];
    return (field.isRepeated ? (value as unknown[]) : [value]).map((item) => encodeField(field, number, item));
  });
  return new Uint8Array(Buffer.concat(parts));
}

function encodeField(field: Field, number: number, value: unknown): Buffer {
  if (field.kind === "message") return bytesField(number, encodeMessage(field.message(), value as Json));
  if (field.kind === "string") return bytesField(number, Buffer.from(value as string));
  if (field.kind === "id") return bytesField(number, Buffer.from(value as string, "hex"));
  if (field.kind === "bytes") return bytesField(number, Buffer.from(value as string, "base64"));
  const { wireType, bytes } = encodeScalar(field, value);
  return Buffer.concat([varint(BigInt((number << 3) | wireType)), bytes]);
}

export function bytesField(number: number, bytes: Uint8Array): Buffer {
  return Buffer.concat([varint(BigInt((number << 3) | 2)), varint(BigInt(bytes.length)), bytes]);
}

function encodeScalar({ kind }: Field, value: unknown): { wireType: number; bytes: Buffer } {
  const bytes = Buffer.alloc(8);
  switch (kind) {
    case "double":
      bytes.writeDoubleLE(Number(value));
      return { wireType: 1, bytes };
    case "fixed64":
    case "sfixed64":
      bytes.writeBigUInt64LE(BigInt.asUintN(64, BigInt(value as string)));
      return { wireType: 1, bytes };
    case "fixed32":
      bytes.writeUInt32LE(Number(value));
      return { wireType: 5, bytes: bytes.subarray(0, 4) };
    case "sint32":
      return { wireType: 0, bytes: varint(BigInt.asUintN(64, (BigInt(Number(value)) << 1n) ^ (BigInt(Number(value)) >> 63n))) };
    default:
      return { wireType: 0, bytes: varint(BigInt.asUintN(64, BigInt(value as string | number | boolean))) };
  }
}

export function varint(value: bigint): Buffer {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80n; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  return Buffer.from([...bytes, Number(rest)]);
}

// Log records and spans that cannot be stored, for tests: each as OTLP/JSON, and what its message names. Invariant: one document becomes a
// body in each encoding; RAW becomes bytes that are not UTF-8.
import { encodeProtobuf } from "./protobuf/encode.fixture.ts";
import type { OtlpSignal } from "./decoded-rows.ts";

export const RAW = "\uE123";
const RAW_BYTES = Buffer.from(RAW);

export interface BadRecord {
  readonly name: string;
  readonly fields: Record<string, unknown>;
  /** What the message names, after the path of the record. */
  readonly named: string;
  /** Protobuf has no such value. */
  readonly isJsonOnly?: true;
  /** The record is stored without its id. */
  readonly isKept?: true;
}

const deep = (levels: number): object => (levels === 0 ? { stringValue: "x" } : { arrayValue: { values: [deep(levels - 1)] } });
const attribute = (value: unknown) => ({ attributes: [{ key: "a", value }] });
const BASE64_ID = "Z6z8LqVvEI+kU1/Ci6mXBQ==";
const SHARED: readonly BadRecord[] = [
  { name: "text that is not UTF-8", fields: attribute({ stringValue: `a${RAW}b` }), named: ": stringValue is not UTF-8" },
  { name: "a key that is not UTF-8", fields: { attributes: [{ key: `k${RAW}` }] }, named: ": key is not UTF-8" },
  { name: "lists 70 deep", fields: attribute(deep(70)), named: ".attributes[0].value", isJsonOnly: true },
  { name: "lists 60 deep in protobuf", fields: attribute(deep(60)), named: ": messages are nested more than 100 deep" },
  {
    name: "an integer of 2^63",
    fields: attribute({ intValue: "9223372036854775808" }),
    named: ".attributes[0].value.intValue",
    isJsonOnly: true,
  },
  { name: "an integer with a fraction", fields: attribute({ intValue: "1.0" }), named: ".attributes[0].value.intValue", isJsonOnly: true },
  { name: "two kinds of a value", fields: attribute({ intValue: 1, boolValue: true }), named: ".attributes[0].value.intValue" },
  {
    name: "a value with its name in protobuf",
    fields: attribute({ arrayValue: { values: [{}, { string_value: "x" }] } }),
    named: ".attributes[0].value.arrayValue.values[1].string_value: OTLP/JSON names this field stringValue",
    isJsonOnly: true,
  },
  { name: "attributes that are no list", fields: { attributes: { a: 1 } }, named: ".attributes: must be an array", isJsonOnly: true },
];

export const BAD_RECORDS: Readonly<Record<OtlpSignal, readonly BadRecord[]>> = {
  logs: [
    ...SHARED,
    { name: "a trace id in base64", fields: { traceId: BASE64_ID }, named: ".traceId", isJsonOnly: true, isKept: true },
    { name: "a trace id of 15 bytes", fields: { traceId: "ab".repeat(15) }, named: ".traceId: must be 32 hex digits", isKept: true },
    { name: "a span id of 7 bytes", fields: { spanId: "ab".repeat(7) }, named: ".spanId: must be 16 hex digits", isKept: true },
    { name: "a negative time", fields: { timeUnixNano: "-5" }, named: ".timeUnixNano", isJsonOnly: true },
    { name: "a time of 2^64", fields: { timeUnixNano: "18446744073709551616" }, named: ".timeUnixNano", isJsonOnly: true },
    {
      name: "a time with its name in protobuf",
      fields: { time_unix_nano: "1" },
      named: ".time_unix_nano: OTLP/JSON names",
      isJsonOnly: true,
    },
    { name: "an unknown severity", fields: { severityNumber: "LOUD" }, named: ".severityNumber", isJsonOnly: true },
    { name: "a bad counter after everything else", fields: { flags: -1 }, named: ".flags", isJsonOnly: true },
  ],
  traces: [
    ...SHARED,
    { name: "a span id of 7 bytes", fields: { spanId: "ab".repeat(7) }, named: ".spanId: must be 16 hex digits" },
    { name: "a trace id in base64", fields: { traceId: BASE64_ID }, named: ".traceId", isJsonOnly: true },
    { name: "a parent id of 9 bytes", fields: { parentSpanId: "ab".repeat(9) }, named: ".parentSpanId" },
    {
      name: "a link's id of 15 bytes",
      fields: { links: [{ traceId: "ab".repeat(15), spanId: "ab".repeat(8) }] },
      named: ".links[0].traceId",
    },
    { name: "a start before 1970", fields: { startTimeUnixNano: "-1" }, named: ".startTimeUnixNano", isJsonOnly: true },
    {
      name: "an event's time with its name in protobuf",
      fields: { events: [{ time_unix_nano: "1" }] },
      named: ".events[0].time_unix_nano: OTLP/JSON names this field timeUnixNano",
      isJsonOnly: true,
    },
    { name: "an event that is none", fields: { events: [5] }, named: ".events[0]: must be an object", isJsonOnly: true },
    { name: "a status with a text for its code", fields: { status: { code: "x" } }, named: ".status.code", isJsonOnly: true },
  ],
};

export function jsonBody(document: object): Buffer {
  return withRawBytes(Buffer.from(JSON.stringify(document)));
}

export function protobufBody(signal: OtlpSignal, document: object): Buffer<ArrayBuffer> {
  return withRawBytes(encodeProtobuf(signal, document));
}

function withRawBytes<T extends Buffer>(body: T): T {
  for (let at = body.indexOf(RAW_BYTES); at >= 0; at = body.indexOf(RAW_BYTES, at)) body.fill(0xff, at, at + RAW_BYTES.length);
  return body;
}

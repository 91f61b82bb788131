// Builds OTLP responses: partial success and errors, as JSON and as protobuf, for HTTP and gRPC. Source: OTLP specification 1.10,
// "OTLP/HTTP Response"; google.rpc.Status and Code. Invariant: a JSON error also has the field `error` with a code of errors.ts.
import type { ApiError, ErrorCode } from "../../errors.ts";
import type { Signal } from "../../operations/own-metrics.ts";
import { type IngestResult, isExemplarReason } from "../ingest-handler.ts";
import { ADVICE, notStored } from "../record-faults.ts";

export type OtlpEncoding = "json" | "protobuf";

const REJECTED: Readonly<Record<Signal, string>> = {
  logs: "rejectedLogRecords",
  traces: "rejectedSpans",
  metrics: "rejectedDataPoints",
};

/** ExportLogsServiceResponse or that of another signal, with the same field numbers. A message without rejected records is a warning. */
export function successBody(signal: Signal, { dropped, faults }: IngestResult, encoding: OtlpEncoding): string | Buffer {
  const records = Object.fromEntries(Object.entries(dropped).filter(([reason]) => !isExemplarReason(reason)));
  const rejected = Object.values(records).reduce((sum, count) => sum + count, 0);
  const parts = rejected === 0 ? [] : [`not stored: ${notStored({ dropped: records, ...(faults && { faults }) }, ADVICE)}`];
  if (faults && faults.withoutId > 0) parts.push(`${faults.withoutId} stored without an invalid id (${faults.firstId})`);
  if (parts.length === 0) return encoding === "json" ? "{}" : Buffer.alloc(0);
  const errorMessage = parts.join("; ");
  if (encoding === "json") return JSON.stringify({ partialSuccess: { [REJECTED[signal]]: String(rejected), errorMessage } });
  const count = rejected === 0 ? Buffer.alloc(0) : varintField(1, rejected);
  return bytesField(1, Buffer.concat([count, bytesField(2, Buffer.from(errorMessage))]));
}

/** google.rpc.Status. */
export function errorBody({ code, message, status }: ApiError, encoding: OtlpEncoding): string | Buffer {
  const grpcCode = grpcCodeOf(status);
  if (encoding === "json") return JSON.stringify({ code: grpcCode, message, error: code satisfies ErrorCode });
  return Buffer.concat([varintField(1, grpcCode), bytesField(2, Buffer.from(message))]);
}

export function grpcCodeOf(status: number): number {
  return GRPC_CODES[status] ?? (status >= 500 ? INTERNAL : INVALID_ARGUMENT);
}

const INVALID_ARGUMENT = 3;
const INTERNAL = 13;
const GRPC_CODES: Readonly<Record<number, number>> = { 401: 16, 403: 7, 404: 12, 429: 8, 502: 14, 503: 14 };

export function varintField(number: number, value: number): Buffer {
  return Buffer.from([number << 3, ...varint(value)]);
}

export function bytesField(number: number, bytes: Uint8Array): Buffer {
  return Buffer.concat([Buffer.from([(number << 3) | 2, ...varint(bytes.length)]), bytes]);
}

function varint(value: number): number[] {
  const bytes: number[] = [];
  let rest = value;
  for (; rest >= 0x80; rest = Math.floor(rest / 0x80)) bytes.push((rest % 0x80) | 0x80);
  return [...bytes, rest];
}

// Builds OTLP/JSON bodies as senders write them, and decodes bodies on the calling thread, for tests and benchmarks.
import type { SigningKey } from "../../http/request-identity.ts";
import { type DecodeTask, validateBody } from "./decode-body.ts";
import type { DecodedBody, RowContext } from "./decoded-rows.ts";

export interface TestAttribute {
  key: string;
  value: Record<string, unknown>;
}

export function stringAttribute(key: string, value: string): TestAttribute {
  return { key, value: { stringValue: value } };
}

export function logsBody(logRecords: object[], resource: TestAttribute[] = [stringAttribute("service.name", "shop")]): Buffer {
  return Buffer.from(JSON.stringify({ resourceLogs: [{ resource: { attributes: resource }, scopeLogs: [{ scope: {}, logRecords }] }] }));
}

export function tracesBody(spans: object[], resource: TestAttribute[] = [stringAttribute("service.name", "shop")]): Buffer {
  return Buffer.from(JSON.stringify({ resourceSpans: [{ resource: { attributes: resource }, scopeSpans: [{ scope: {}, spans }] }] }));
}

/** A record that carries its own time, in nanoseconds. */
export function logRecord(time: bigint, message: string, rest: object = {}): object {
  return { timeUnixNano: String(time), body: { stringValue: message }, ...rest };
}

export function span(start: bigint, traceId: string, spanId: string, rest: object = {}): object {
  return { traceId, spanId, name: "GET /", startTimeUnixNano: String(start), endTimeUnixNano: String(start + 1_500_000n), ...rest };
}

export function nanosecondsOf(date: Date): bigint {
  return BigInt(date.getTime()) * 1_000_000n;
}

export function signingKey(orgId: string, hostId = `host-of-${orgId}`): SigningKey {
  return { keyId: `key-of-${hostId}`, kind: "host", orgId, hostId, node: `node-of-${hostId}`, createdAt: new Date(0) };
}

interface HashedTask extends DecodeTask {
  readonly context: RowContext;
}

/** Decodes a body as the backend does, with the body hash of its context. */
export function decodeWithHash(task: HashedTask): DecodedBody {
  return validateBody({ ...task, bodyHash: task.context.bodyHash }).rows();
}

/** The same without the kernel. */
export function decodeSlowPath(task: HashedTask): DecodedBody {
  return validateBody({ ...task, bodyHash: task.context.bodyHash }, { maxBodyBytes: -1, maxRowsBytes: 0 }).rows();
}

// Builds bodies of raw lines as the agent sends them, and decodes them on both paths.
import { expect } from "vitest";
import { CONTEXT, mapOf, readRows } from "./decoded-rows.fixture.ts";
import type { RowContext } from "./decoded-rows.ts";
import { asJson, KERNEL_LIMITS, validateFast } from "./decode-body.ts";
import { decodeSlowPath } from "./otlp-body.fixture.ts";
import { encodeProtobuf } from "./protobuf/encode.fixture.ts";

export const LINES_CONTEXT: RowContext = { ...CONTEXT, readsLines: true };
export const CONTAINER_LINES = { name: "atherops/cri-lines" };
export const LINES = { name: "atherops/lines" };
export const WRITTEN = "2026-11-21T10:59:00.123456789Z";
export const WRITTEN_NS = "1795258740123456789";

/** `body` may be bytes that are not UTF-8. */
export function lineRecord(body: string | Uint8Array, rest: object = {}): object {
  return { observedTimeUnixNano: String(BigInt(CONTEXT.receivedAtMs) * 1_000_000n), body: { stringValue: body }, ...rest };
}

export function linesBody(scope: object, logRecords: readonly object[], resource: object[] = []): Buffer<ArrayBuffer> {
  return encodeProtobuf("logs", { resourceLogs: [{ resource: { attributes: resource }, scopeLogs: [{ scope, logRecords }] }] });
}

/** A line as a container runtime writes it. */
export function containerLine(line: string): string {
  return `${WRITTEN} stdout F ${line}`;
}

export interface StoredLine {
  readonly message: string;
  readonly level: string;
  readonly severity: string;
  readonly time: string;
  readonly traceId: string;
  readonly spanId: string;
  readonly scope: string;
  readonly labels: Readonly<Record<string, string>>;
}

/** The rows of a body, which are the same on both paths. `isFast`: the kernel must accept it. */
export function storedLines(body: Buffer, { context = LINES_CONTEXT, isFast = true } = {}): StoredLine[] {
  const bytes = new Uint8Array(body);
  const task = { signal: "logs", body: bytes, encoding: "protobuf", context, bodyHash: context.bodyHash } as const;
  const fast = validateFast(task, KERNEL_LIMITS)?.rows();
  if (isFast) expect(fast).toBeDefined();
  const slow = decodeSlowPath({ ...asJson(task), context });
  const [rows, slowRows] = [fast ?? slow, slow].map(({ sections }) => sections.flatMap((section) => readRows("logs", section)));
  expect(rows).toEqual(slowRows);
  if (fast)
    expect(fast.sections.map(({ bytes: section }) => Buffer.compare(section, slow.sections.shift()?.bytes ?? section))).not.toContain(1);
  return (rows ?? []).map((row) => ({
    message: row["message"] as string,
    level: row["level"] as string,
    severity: row["severity_number"] as string,
    time: row["time"] as string,
    traceId: row["trace_id"] as string,
    spanId: row["span_id"] as string,
    scope: row["scope_name"] as string,
    labels: mapOf(row["labels"] as string),
  }));
}

/** The only row. */
export function storedLine(scope: object, body: string | Uint8Array, rest: object = {}, context: Partial<RowContext> = {}): StoredLine {
  const [row, ...others] = storedLines(linesBody(scope, [lineRecord(body, rest)]), { context: { ...LINES_CONTEXT, ...context } });
  expect(others).toEqual([]);
  return row as StoredLine;
}

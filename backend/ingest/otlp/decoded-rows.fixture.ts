// Helpers for tests of the decoder: decode a body, and read its rows as the engine would.
import { type DayRows } from "../../storage/write-path/once-writer.ts";
import { LOG_COLUMNS, SPAN_COLUMNS } from "../../storage/table-columns.ts";
import { isUtf8 } from "node:buffer";
import { expect } from "vitest";
import type { NativeColumns, NativeType } from "../../engines/clickhouse/native-block.ts";
import { ApiError } from "../../errors.ts";
import type { DecodedBody, OtlpSignal, RowContext } from "./decoded-rows.ts";
import { decodeWithHash, logsBody } from "./otlp-body.fixture.ts";
import type { OtlpDecoder } from "./otlp-decoder.ts";

export const NOW_MS = Date.UTC(2026, 10, 21, 12);
export const T = "1795262400123456789";
export const TRACE = "0af7651916cd43dd8448eb211c80319c";
export const CONTEXT: RowContext = {
  orgId: "org",
  hostId: "host",
  node: "node",
  receivedAtMs: NOW_MS,
  firstId: "455000000000000000",
  bodyHash: "42",
  retentionDays: 30,
};

/** The rows of a decoded body as the engine would read them; integers as digits, maps as JSON lists of pairs. */
export function rowsOf(signal: OtlpSignal, body: Buffer | string | object): Record<string, string>[] {
  const bytes = Buffer.isBuffer(body) ? body : Buffer.from(typeof body === "string" ? body : JSON.stringify(body));
  return decodeWithHash({ signal, body: bytes, context: CONTEXT }).sections.flatMap((section) => readRows(signal, section));
}

export function readRows(signal: OtlpSignal, { count, bytes, streamLengths }: DayRows): Record<string, string>[] {
  const columns: NativeColumns = signal === "logs" ? LOG_COLUMNS : SPAN_COLUMNS;
  let at = 0;
  const streams = streamLengths.map((length) => Buffer.from(bytes.subarray(at, (at += length))));
  expect(at).toBe(bytes.length);
  const rows: Record<string, string>[] = Array.from({ length: count }, () => ({}));
  for (const [name, type] of columns) {
    const read = readCells(type, streams);
    const cells = type.startsWith("constant ") && read.length === 1 ? Array.from({ length: count }, () => String(read[0])) : read;
    expect([name, cells.length]).toEqual([name, count]);
    for (const [index, cell] of cells.entries()) (rows[index] as Record<string, string>)[name] = cell;
  }
  expect(streams).toEqual([]);
  return rows;
}

function readCells(type: NativeType, streams: Buffer[]): string[] {
  if (type === "dictionary String") return readDictionary(streams);
  const stream = streams.shift() ?? Buffer.alloc(0);
  if (type.endsWith(" String") || type === "String") return readStrings(stream);
  if (type === "UInt8") return [...stream].map(String);
  if (type.endsWith("DateTime")) return words(stream, 4).map((word) => String(word.readUInt32LE()));
  if (!type.startsWith("Map")) return words(stream, 8).map((word) => String(word.readBigUInt64LE()));
  const [keys, values] = [readDictionary(streams), readStrings(streams.shift() as Buffer)];
  expect(values).toHaveLength(keys.length);
  const cells = words(stream, 4).map((word) => Array.from({ length: word.readUInt32LE() }, () => [keys.shift(), values.shift()]));
  expect(keys).toEqual([]);
  return cells.map((pairs) => JSON.stringify(pairs));
}

function readDictionary(streams: Buffer[]): string[] {
  const [dictionary, numbers] = [readStrings(streams.shift() as Buffer), streams.shift() as Buffer];
  return dictionary.length === 0 ? readStrings(numbers) : Array.from(numbers, (number) => dictionary[number] as string);
}

function words(stream: Buffer, size: number): Buffer[] {
  expect(stream.length % size).toBe(0);
  return Array.from({ length: stream.length / size }, (_, index) => stream.subarray(index * size, (index + 1) * size));
}

function readStrings(stream: Buffer): string[] {
  const texts: string[] = [];
  for (let at = 0; at < stream.length;) {
    let length = 0;
    for (let shift = 0; ; shift += 7) {
      const byte = stream[at++] as number;
      length += (byte & 0x7f) * 2 ** shift;
      if (byte < 0x80) break;
    }
    expect(isUtf8(stream.subarray(at, at + length))).toBe(true);
    texts.push(stream.toString("utf8", at, (at += length)));
  }
  return texts;
}

/** The pairs of a map; fails if a key occurs twice. */
export function mapOf(cell: string): Record<string, string> {
  const pairs = JSON.parse(cell) as [string, string][];
  expect(new Set(pairs.map(([key]) => key)).size).toBe(pairs.length);
  return Object.fromEntries(pairs);
}

export function onlyLog(record: object, resource?: Parameters<typeof logsBody>[1]): Record<string, string> {
  const rows = rowsOf("logs", logsBody([record], resource));
  expect(rows).toHaveLength(1);
  return rows[0] ?? {};
}

export function refusal(signal: OtlpSignal, body: Buffer | string | object): { code: string; message: string } {
  try {
    rowsOf(signal, body);
  } catch (error) {
    if (error instanceof ApiError) return { code: error.code, message: error.message };
    throw error;
  }
  throw new Error("was accepted");
}

/** Decodes on the thread that the decoder chooses. */
export async function decodeWith(decoder: OtlpDecoder, body: Buffer, orgId = "org", signal: OtlpSignal = "logs"): Promise<DecodedBody> {
  using held = decoder.open(orgId);
  return await decoder.decode({ signal, body, context: { ...CONTEXT, orgId } }, held);
}

// Lists the operations that the decoded spans of a body name. It reads the bytes of their columns, so it does not matter which path decoded
// them. Invariant: the function is pure, runs on any thread, and is bounded, however many names a body contains.
import { type NativeRows, streamsByColumn } from "../../engines/clickhouse/native-block.ts";
import { encodedStrings } from "../../engines/clickhouse/native-columns.ts";
import { MAX_OPERATIONS_PER_BODY, MAX_OPERATION_NAME_BYTES } from "../limits.ts";
import type { DayOperations, DaySection, Operation } from "./rows.ts";
import { SPAN_COLUMNS } from "./decode-spans.ts";

export function operationsOf(sections: readonly DaySection[]): DayOperations[] {
  let room = MAX_OPERATIONS_PER_BODY;
  return sections.map((section) => {
    const operations = distinct(section, room);
    room -= operations.length;
    return { day: section.day, operations };
  });
}

function distinct(rows: NativeRows, room: number): Operation[] {
  const streams = streamsByColumn(SPAN_COLUMNS, rows);
  const [services, operations, kinds] = ["service", "operation", "kind"].map((name) => cells(streams.get(name) ?? []));
  const seen = new Map<string, Operation>();
  for (let row = 0; row < rows.count && seen.size < room; row += 1) {
    const [service, operation, kind] = [nextText(services), nextText(operations), nextText(kinds)];
    if (Math.max(service.length, operation.length, kind.length) > MAX_OPERATION_NAME_BYTES) continue;
    const key = [service, kind, operation].map((cell) => cell.toString("latin1")).join("\0");
    if (!seen.has(key)) seen.set(key, { service: service.toString(), operation: operation.toString(), kind: kind.toString() });
  }
  return [...seen.values()];
}

/** The string of each row, preceded by its length, of a column with or without a dictionary. */
function* cells(streams: readonly Uint8Array[]): Generator<Uint8Array> {
  const [first = new Uint8Array(), numbers] = streams;
  const dictionary = [...(numbers ? encodedStrings(first) : [])];
  if (numbers && dictionary.length > 0) for (const number of numbers) yield dictionary[number] ?? new Uint8Array(1);
  else yield* encodedStrings(numbers ?? first);
}

/** Without its length. */
function nextText(column: Iterator<Uint8Array> | undefined): Buffer {
  const cell: Uint8Array = column?.next().value ?? new Uint8Array(1);
  const at = cell.findIndex((byte) => byte < 0x80) + 1;
  return Buffer.from(cell.buffer, cell.byteOffset + at, cell.length - at);
}

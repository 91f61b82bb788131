// Lists the operations that the decoded spans of a request body name. It reads the bytes of their columns, so it does not matter which path
// decoded them. Invariant: the function is pure, runs on any thread, and is bounded, however many names a body contains.
import { type NativeRows, streamsByColumn } from "../../engines/clickhouse/native-block.ts";
import { encodedStrings, latin1 } from "../../engines/clickhouse/native-columns.ts";
import { MAX_OPERATIONS_PER_BODY, MAX_OPERATION_NAME_BYTES } from "../storage-limits.ts";
import { SPAN_COLUMNS } from "../table-columns.ts";
import type { DayRows } from "../write-path/once-writer.ts";

/** The operations that the spans of one day belong to. */
export interface DayOperations {
  /** Days since 1970-01-01. */
  readonly day: number;
  readonly operations: readonly Operation[];
}

export interface Operation {
  readonly service: string;
  readonly operation: string;
  readonly kind: string;
}

const EMPTY_CELL = "\0";

export function operationsOf(sections: readonly DayRows[]): DayOperations[] {
  let remaining = MAX_OPERATIONS_PER_BODY;
  return sections.map((section) => {
    const operations = distinctOperations(section, remaining);
    remaining -= operations.length;
    return { day: section.day, operations };
  });
}

function distinctOperations(rows: NativeRows, limit: number): Operation[] {
  const streams = streamsByColumn(SPAN_COLUMNS, rows);
  const [services, operations, kinds] = ["service", "operation", "kind"].map((name) => cells(streams.get(name) ?? []));
  const seen = new Map<string, Operation>();
  for (let row = 0; row < rows.count && seen.size < limit; row += 1) {
    const [service, operation, kind] = [nextCell(services), nextCell(operations), nextCell(kinds)];
    // Unique for the three names, because each cell begins with its length.
    const key = service + operation + kind;
    if (seen.has(key)) continue;
    const names = { service: nameOf(service), operation: nameOf(operation), kind: nameOf(kind) };
    if (Object.values(names).every((name) => Buffer.byteLength(name) <= MAX_OPERATION_NAME_BYTES)) seen.set(key, names);
  }
  return [...seen.values()];
}

/** The cell of each row of a column with or without a dictionary, as `latin1` returns it. */
function* cells([first = new Uint8Array(), numbers]: readonly Uint8Array[]): Generator<string> {
  const dictionary = numbers ? Array.from(encodedStrings(first), latin1) : [];
  if (numbers && dictionary.length > 0) for (const number of numbers) yield dictionary[number] ?? EMPTY_CELL;
  else for (const cell of encodedStrings(numbers ?? first)) yield latin1(cell);
}

function nextCell(column: Iterator<string> | undefined): string {
  return column?.next().value ?? EMPTY_CELL;
}

/** The cell without its length. */
function nameOf(cell: string): string {
  const bytes = Buffer.from(cell, "latin1");
  return bytes.toString("utf8", bytes.findIndex((byte) => byte < 0x80) + 1);
}

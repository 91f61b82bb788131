// Which columns the rows of a journal have, so that a version with others can store them. Invariants: the columns of a form are on the disk
// before its first row is, and never change; of rows with other columns what both versions have is kept, and the rest of ours is empty.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { writeDurably } from "../../../common/durable-file.ts";
import { formOf, type JournalEntry } from "./row-journal.ts";
import type { NativeColumns, NativeRows, NativeType } from "./native-block.ts";

/** Bytes of a row in the first stream of a column that is empty in all rows; the other streams have none. */
const EMPTY_BYTES: Readonly<Record<NativeType, number>> = {
  String: 1,
  UInt8: 1,
  UInt64: 8,
  DateTime: 4,
  "DateTime64(9)": 8,
  "Map(String, String)": 4,
};
/** Without these nobody finds a row. */
const NEEDED = ["org_id", "host_id", "received_at", "body_hash", "time", "id"];

/** Keeps our own in the journal's folder. Throws what the file system says. */
export function keepColumns(folder: string, columns: NativeColumns): void {
  const form = formOf(columns);
  if (!columnsOf(folder, form)) writeDurably(fileOf(folder, form), `${JSON.stringify(columns)}\n`);
}

/** An entry of another form as one of ours. Undefined: nobody knows what it has, or it lacks what we need. */
export function asOurs(folder: string, ours: NativeColumns, entry: JournalEntry): JournalEntry | undefined {
  const theirs = columnsOf(folder, entry.form);
  const types = new Map<string, NativeType>(theirs);
  const fits = NEEDED.every((name) => types.has(name)) && ours.every(([name, type]) => (types.get(name) ?? type) === type);
  return theirs && fits ? { ...entry, form: formOf(ours), rows: withColumns(theirs, ours, entry.rows) } : undefined;
}

function columnsOf(folder: string, form: number): NativeColumns | undefined {
  try {
    const columns = JSON.parse(readFileSync(fileOf(folder, form), "utf8")) as NativeColumns;
    return formOf(columns) === form ? columns : undefined;
  } catch {
    // Safe: rows of a form that nobody knows are set aside.
    return undefined;
  }
}

function fileOf(folder: string, form: number): string {
  return join(folder, `${form}.columns`);
}

function withColumns(theirs: NativeColumns, ours: NativeColumns, { count, bytes, streamLengths }: NativeRows): NativeRows {
  const streamsOf = new Map<string, Uint8Array[]>();
  let [at, taken] = [0, 0];
  for (const [name, type] of theirs) {
    const lengths = streamLengths.slice(taken, (taken += countOf(type)));
    streamsOf.set(
      name,
      lengths.map((length) => bytes.subarray(at, (at += length))),
    );
  }
  const streams = ours.flatMap(([name, type]) => streamsOf.get(name) ?? emptyStreams(type, count));
  return { count, bytes: joined(streams), streamLengths: streams.map(({ length }) => length) };
}

function emptyStreams(type: NativeType, count: number): Uint8Array[] {
  return Array.from({ length: countOf(type) }, (_, index) => new Uint8Array(index === 0 ? EMPTY_BYTES[type] * count : 0));
}

/** Streams of a column. */
function countOf(type: NativeType): number {
  return type === "Map(String, String)" ? 3 : 1;
}

/** In memory of their own, which is freed with them. */
function joined(pieces: readonly Uint8Array[]): Uint8Array {
  const bytes = new Uint8Array(pieces.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const piece of pieces) {
    bytes.set(piece, at);
    at += piece.length;
  }
  return bytes;
}

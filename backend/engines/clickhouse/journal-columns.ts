// Stores which columns the rows of a journal have, so that a version with other columns can read them. Invariants: the columns are on disk
// before the first row, and never change; a converted row keeps the columns that both versions have, and its other columns are empty.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { writeDurably } from "../../../common/files.ts";
import { ownBytes } from "../pieces.ts";
import { columnsIdOf, type JournalEntry } from "./row-journal.ts";
import { type NativeColumns, type NativeRows, type NativeType, plainType, streamsByColumn } from "./native-block.ts";

/** Bytes per row in the first stream of a column that is empty in all rows, by its earlier type; the other streams of a map are empty. */
const EMPTY_BYTES: Readonly<Record<string, number>> = {
  String: 1,
  UInt8: 1,
  UInt64: 8,
  DateTime: 4,
  "DateTime64(9)": 8,
  "Map(String, String)": 4,
};
/** Without these columns a row cannot be found in the table. */
const REQUIRED = ["org_id", "host_id", "received_at", "body_hash", "time", "id"];

/** Writes the columns into the folder of the journal. Throws errors of the file system. */
export function keepColumns(folder: string, columns: NativeColumns): void {
  const id = columnsIdOf(columns);
  if (!readColumns(folder, id)) writeDurably(columnsFile(folder, id), `${JSON.stringify(columns)}\n`);
}

/** Converts an entry to `columns`. Undefined if its columns are unknown or it lacks a required one. */
export function convertEntry(folder: string, columns: NativeColumns, entry: JournalEntry): JournalEntry | undefined {
  const entryColumns = readColumns(folder, entry.columnsId);
  const types = new Map<string, NativeType>(entryColumns);
  const fits =
    REQUIRED.every((name) => types.has(name)) && columns.every(([name, type]) => [type, plainType(type)].includes(types.get(name) ?? type));
  return entryColumns && fits
    ? { ...entry, columnsId: columnsIdOf(columns), rows: convertRows(entryColumns, columns, entry.rows) }
    : undefined;
}

function readColumns(folder: string, id: number): NativeColumns | undefined {
  try {
    const columns = JSON.parse(readFileSync(columnsFile(folder, id), "utf8")) as NativeColumns;
    return columnsIdOf(columns) === id ? columns : undefined;
  } catch {
    // Rows with unknown columns become dead letters.
    return undefined;
  }
}

function columnsFile(folder: string, id: number): string {
  return join(folder, `${id}.columns`);
}

function convertRows(from: NativeColumns, to: NativeColumns, rows: NativeRows): NativeRows {
  const known = streamsByColumn(from, rows);
  const types = new Map<string, NativeType>(from);
  const streams = to.flatMap(([name, type]) => {
    const found = known.get(name);
    return found && types.get(name) === type ? found : convertStreams(type, found ?? emptyStreams(plainType(type), rows.count), rows.count);
  });
  // Small Buffers share a buffer, which could not be freed with the rows.
  return { count: rows.count, bytes: ownBytes(Buffer.concat(streams)), streamLengths: streams.map(({ length }) => length) };
}

function emptyStreams(type: string, count: number): Uint8Array[] {
  const first = new Uint8Array((EMPTY_BYTES[type] ?? 0) * count);
  return type.startsWith("Map") ? [first, new Uint8Array(), new Uint8Array()] : [first];
}

/** Converts the streams of a column from the type that it had in earlier versions. */
function convertStreams(type: NativeType, streams: readonly Uint8Array[], count: number): readonly Uint8Array[] {
  if (type.startsWith("constant ")) return streams.map((stream) => stream.subarray(0, stream.length / count));
  const withoutDictionary = new Uint8Array();
  if (type === "dictionary String") return [withoutDictionary, ...streams];
  return type === "Map(dictionary String, String)" ? streams.toSpliced(1, 0, withoutDictionary) : streams;
}

// Combines the rows of many request bodies into one block of ClickHouse's Native format (docs: "Native", src/Formats/NativeReader.cpp).
// Invariant: pure; sections of one table always have the same columns in the same order.
import { sizeOf } from "../pieces.ts";
import { NO_OWNER } from "../../admission/request-owner.ts";
import { TimeSlices } from "../../admission/time-slices.ts";
import {
  type Column,
  DictionaryColumn,
  encodedString,
  Int64Column,
  Int8Column,
  MapColumn,
  StringColumn,
  varintLength,
  writeVarint,
} from "./native-columns.ts";
import { KEYS_VERSION, lowCardinality, plainStrings } from "./native-dictionaries.ts";

/**
 * `constant`: one cell for all rows of a section. `dictionary`: the streams of a DictionaryColumn. The engine casts String to
 * LowCardinality(String).
 */
export type NativeType =
  | "String"
  | "UInt8"
  | "UInt64"
  | "DateTime"
  | "DateTime64(9)"
  | "Map(String, String)"
  | "dictionary String"
  | "Map(dictionary String, String)"
  | `constant ${"String" | "UInt64" | "DateTime"}`;

/** Column name → type, in the order of the sections' columns. */
export type NativeColumns = readonly (readonly [name: string, type: NativeType])[];

interface ColumnOfType {
  String: StringColumn;
  UInt8: Int8Column;
  UInt64: Int64Column;
  "DateTime64(9)": Int64Column;
  "Map(String, String)": MapColumn;
  "dictionary String": DictionaryColumn;
  "Map(dictionary String, String)": MapColumn;
}

/** Columns by name, each with the class for its type. */
export type ColumnsOf<Columns extends NativeColumns> = {
  readonly [Entry in Columns[number] as Entry[0]]: Entry[1] extends keyof ColumnOfType ? ColumnOfType[Entry[1]] : never;
};

/** Empty columns; `Object.values` returns them in the order of `columns`. */
export function emptyColumns<Columns extends NativeColumns>(columns: Columns): ColumnsOf<Columns> {
  return Object.fromEntries(columns.map(([name, type]) => [name, emptyColumn(type)])) as ColumnsOf<Columns>;
}

function emptyColumn(type: NativeType): Column {
  if (type === "String") return new StringColumn();
  if (type === "dictionary String") return new DictionaryColumn();
  if (type === "UInt8") return new Int8Column();
  if (type === "Map(dictionary String, String)") return new MapColumn(new DictionaryColumn());
  return type === "Map(String, String)" ? new MapColumn() : new Int64Column();
}

/** Rows as the bytes of all streams, one after the other: plain data in one buffer, so that it can be passed between threads. */
export interface NativeRows {
  readonly count: number;
  readonly bytes: Uint8Array;
  readonly streamLengths: readonly number[];
}

/** The rows of the columns. Each column is released as soon as it is copied, so that little memory is used twice. */
export function nativeRows(columns: readonly Column[], count: number): NativeRows {
  const streamsOf = columns.map((column) => column.streams());
  const streams = streamsOf.flat();
  const streamLengths = streams.map(({ length }) => length);
  const bytes = new Uint8Array(sizeOf(streams));
  let at = 0;
  for (const [index, column] of columns.entries()) {
    for (const stream of streamsOf[index] ?? []) {
      bytes.set(stream, at);
      at += stream.length;
    }
    column.release();
  }
  return { count, bytes, streamLengths };
}

/** How many streams a column has. */
function streamCount(type: NativeType): number {
  return (type.startsWith("Map") ? 3 : 1) + Number(type.includes("dictionary"));
}

/** The streams of each column by its name. */
export function streamsByColumn(columns: NativeColumns, rows: NativeRows): Map<string, Uint8Array[]> {
  const streams = splitStreams(rows);
  return new Map(columns.map(([name, type]) => [name, streams.splice(0, streamCount(type))]));
}

/** A block, as pieces to be written one after the other, and its structure for the table function `file`. */
export interface NativeBlock {
  readonly structure: string;
  readonly pieces: readonly Uint8Array[];
}

/** One block of all `sections`. Yields to the event loop every few milliseconds. */
export async function nativeBlock(columns: NativeColumns, sections: readonly NativeRows[]): Promise<NativeBlock> {
  const count = sections.reduce((sum, section) => sum + section.count, 0);
  const streamsOf = sections.map(splitStreams);
  let streamIndex = -1;
  const nextStream = (): Uint8Array[] => {
    streamIndex += 1;
    return streamsOf.map((streams) => streams[streamIndex] as Uint8Array);
  };
  // A block has the rows of several organisations.
  const slices = new TimeSlices({ owner: NO_OWNER });
  const structure: string[] = [];
  const pieces: (readonly Uint8Array[])[] = [[varints(columns.length, count)]];
  for (const [name, type] of columns) {
    const streams = Array.from({ length: streamCount(type) }, nextStream);
    const written = await writeColumn(type, streams, sections, slices);
    structure.push(`${name} ${written.type}`);
    pieces.push([encodedString(name), encodedString(written.type)], written.pieces);
  }
  return { structure: structure.join(", "), pieces: pieces.flat() };
}

/** The type of the column in the block, and its bytes. Each stream is an array of one part for each section. */
async function writeColumn(
  type: NativeType,
  [first = [], ...others]: readonly Uint8Array[][],
  sections: readonly NativeRows[],
  slices: TimeSlices,
): Promise<{ type: string; pieces: readonly Uint8Array[] }> {
  if (type === "constant String") {
    const numbers = sections.map(({ count }) => new Uint8Array(count));
    return { type: "LowCardinality(String)", pieces: [KEYS_VERSION, ...((await lowCardinality(first, numbers, slices)) ?? [])] };
  }
  if (type.startsWith("constant ")) return { type: plainType(type), pieces: [repeatCells(first, sections)] };
  const [second = [], ...values] = others;
  if (type === "dictionary String") {
    const numbered = await lowCardinality(first, second, slices);
    return numbered
      ? { type: "LowCardinality(String)", pieces: [KEYS_VERSION, ...numbered] }
      : { type: "String", pieces: await plainStrings(first, second, slices) };
  }
  if (!type.startsWith("Map")) return { type, pieces: first };
  const offsets = offsetsOf(first);
  if (type === "Map(String, String)") return { type, pieces: [offsets, ...second, ...values.flat()] };
  const [keys = [], ...rest] = values;
  const numbered = await lowCardinality(second, keys, slices);
  return numbered
    ? { type: "Map(LowCardinality(String), String)", pieces: [KEYS_VERSION, offsets, ...numbered, ...rest.flat()] }
    : { type: "Map(String, String)", pieces: [offsets, ...(await plainStrings(second, keys, slices)), ...rest.flat()] };
}

/** The type of a column that stores every cell of every row, as text formats and the journals of earlier versions do. */
export function plainType(type: NativeType): string {
  return type.replace(/constant |dictionary /, "");
}

export function columnNames(columns: NativeColumns): string {
  return columns.map(([name]) => name).join(", ");
}

function splitStreams({ bytes, streamLengths }: NativeRows): Uint8Array[] {
  let at = 0;
  return streamLengths.map((length) => bytes.subarray(at, (at += length)));
}

function varints(...values: number[]): Uint8Array {
  const bytes = new Uint8Array(values.reduce((sum, value) => sum + varintLength(value), 0));
  let at = 0;
  for (const value of values) at = writeVarint(bytes, at, value);
  return bytes;
}

/** Repeats the cell of each section, all of one width, for each of its rows. */
function repeatCells(cells: readonly Uint8Array[], sections: readonly NativeRows[]): Uint8Array {
  const lengthOf = (index: number): number => (cells[index]?.length ?? 0) * (sections[index]?.count ?? 0);
  const column = Buffer.allocUnsafe(cells.reduce((sum, _cell, index) => sum + lengthOf(index), 0));
  let at = 0;
  for (const [index, cell] of cells.entries()) column.fill(cell, at, (at += lengthOf(index)));
  return column;
}

/** The end of each row's pairs, counted from the start of the block, from the number of pairs of each row. */
function offsetsOf(sizes: readonly Uint8Array[]): Uint8Array {
  const ends = new Uint32Array(sizes.reduce((sum, { length }) => sum + length / 2, 0));
  let row = 0;
  let end = 0;
  for (const bytes of sizes) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    for (let at = 0; at < bytes.byteLength; at += 4) {
      end += view.getUint32(at, true);
      ends[row * 2] = end;
      row += 1;
    }
  }
  return new Uint8Array(ends.buffer);
}

// Combines the rows of many bodies into one block of ClickHouse's Native format (docs: "Native", src/Formats/NativeReader.cpp). Invariant:
// pure; sections of one table always have the same columns in the same order.
import {
  type Column,
  encodedString,
  Int64Column,
  Int8Column,
  MapColumn,
  StringColumn,
  varintLength,
  writeVarint,
} from "./native-columns.ts";

/** The types of the transferred block; the engine casts String to LowCardinality(String). */
export type NativeType = "String" | "UInt8" | "UInt64" | "DateTime" | "DateTime64(9)" | "Map(String, String)";

/** Column name → type, in the order of the sections' columns. */
export type NativeColumns = readonly (readonly [name: string, type: NativeType])[];

interface ColumnOfType {
  String: StringColumn;
  UInt8: Int8Column;
  UInt64: Int64Column;
  "DateTime64(9)": Int64Column;
  "Map(String, String)": MapColumn;
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
  if (type === "UInt8") return new Int8Column();
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
  const bytes = new Uint8Array(columns.reduce((sum, column) => sum + column.byteLength, 0));
  const streamLengths: number[] = [];
  let at = 0;
  for (const column of columns) {
    for (const stream of column.streams()) {
      bytes.set(stream, at);
      at += stream.length;
      streamLengths.push(stream.length);
    }
    column.release();
  }
  return { count, bytes, streamLengths };
}

/** One block of all `sections`, as pieces to be written one after the other. */
export function nativeBlock(columns: NativeColumns, sections: readonly NativeRows[]): Uint8Array[] {
  const count = sections.reduce((sum, section) => sum + section.count, 0);
  const streamsOf = sections.map(splitStreams);
  let taken = 0;
  const nextStream = (): Uint8Array[] => {
    taken += 1;
    return streamsOf.map((streams) => streams[taken - 1] as Uint8Array);
  };
  const pieces = [varints(columns.length, count)];
  for (const [name, type] of columns) {
    pieces.push(encodedString(name), encodedString(type));
    if (type === "Map(String, String)") pieces.push(offsetsOf(nextStream(), count), ...nextStream());
    pieces.push(...nextStream());
  }
  return pieces;
}

/** The structure of the block, for the table function `file`. */
export function nativeStructure(columns: NativeColumns): string {
  return columns.map(([name, type]) => `${name} ${type}`).join(", ");
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

/** The end of each row's pairs, counted from the start of the block, from the number of pairs of each row. */
function offsetsOf(sizes: readonly Uint8Array[], count: number): Uint8Array {
  const ends = new Uint32Array(count * 2);
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

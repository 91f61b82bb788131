import { expect, it, onTestFinished } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { convertEntry, keepColumns } from "./journal-columns.ts";
import { columnsIdOf, type JournalEntry } from "./row-journal.ts";
import { emptyColumns, type NativeColumns, nativeRows, type NativeType } from "./native-block.ts";
import { type Column, ConstantColumn, encodedString, encodedUint32, encodedUint64, Int64Column } from "./native-columns.ts";

const SENDER = [
  ["org_id", "constant String"],
  ["host_id", "constant String"],
  ["received_at", "constant DateTime"],
  ["body_hash", "constant UInt64"],
  ["time", "DateTime64(9)"],
  ["id", "UInt64"],
] as const satisfies NativeColumns;
const LABELS = ["labels", "Map(String, String)"] as const;
const [MESSAGE, LEVEL] = [["message", "String"] as const, ["level", "UInt8"] as const];
const NEW_ONES = [
  ["text", "String"],
  ["flag", "UInt8"],
  ["size", "UInt64"],
  ["at", "DateTime"],
  ["sender", "constant String"],
  ["more", LABELS[1]],
] as const;

/** Two rows. Of the cells only those of these names have a value. */
function entry(cells: NativeColumns): JournalEntry {
  const constants = [encodedString("org"), encodedString("host"), encodedUint32(7), encodedUint64(8n)].map(
    (one) => new ConstantColumn(one),
  );
  const [time, id] = [new Int64Column(), new Int64Column()];
  const columns = emptyColumns([MESSAGE, LEVEL, LABELS] as const);
  for (const row of [1, 2]) {
    time.addNumber(row);
    id.addNumber(row);
    columns.message.add("x".repeat(row * 100));
    columns.level.add(row);
    columns.labels.keys.add("a");
    columns.labels.values.add(`${row}`);
    columns.labels.endRow(1);
  }
  const known = cells.map(([name]) => (columns as Record<string, Column>)[name]).filter((one) => one !== undefined);
  const rows = nativeRows([...constants, time, id, ...known], 2);
  return { orgId: "org", hostId: "host", bodyHash: "8", day: 1, columnsId: columnsIdOf([...SENDER, ...cells]), rows };
}

function folderWith(columns: NativeColumns): string {
  const folder = temporaryFolder();
  onTestFinished(() => folder[Symbol.dispose]());
  keepColumns(folder.path, columns);
  return folder.path;
}

it("converts rows of another version to the current column order, without unknown columns", () => {
  const theirs = [LABELS, MESSAGE, LEVEL];
  const folder = folderWith([...SENDER, ...theirs]);
  expect(convertEntry(folder, [...SENDER, LEVEL, LABELS], entry(theirs))).toEqual(entry([LEVEL, LABELS]));
});

it("leaves missing columns empty", () => {
  const folder = folderWith([...SENDER, LABELS]);
  const { rows } = convertEntry(folder, [...SENDER, ...NEW_ONES, LABELS], entry([LABELS])) ?? {};
  const { streamLengths } = entry([LABELS]).rows;
  expect(rows?.streamLengths).toEqual([...streamLengths.slice(0, 6), 2, 2, 16, 8, 1, 8, 0, 0, ...streamLengths.slice(6)]);
});

it("writes one cell for a constant column that an earlier version wrote per row", () => {
  const theirs = SENDER.map(([name, type]) => [name, type.replace("constant ", "") as NativeType] as const);
  const { rows, ...sender } = entry([]);
  const cells = [encodedString("org"), encodedString("host"), encodedUint32(7), encodedUint64(8n)];
  const streamLengths = [...cells.map(({ length }) => length * 2), 16, 16];
  const bytes = Buffer.concat([...cells.flatMap((cell) => [cell, cell]), rows.bytes.subarray(-32)]);
  const earlier = { ...sender, columnsId: columnsIdOf(theirs), rows: { count: 2, bytes, streamLengths } };
  expect(convertEntry(folderWith(theirs), SENDER, earlier)).toEqual(entry([]));
});

it("returns nothing if the columns are unknown, one has another type, or a column of the sort key is missing", () => {
  const theirs = [...SENDER, LABELS];
  expect(convertEntry(folderWith([...SENDER, MESSAGE]), [...SENDER, LABELS], entry([LABELS]))).toBeUndefined();
  expect(convertEntry(folderWith(theirs), [...SENDER, ["labels", "String"]], entry([LABELS]))).toBeUndefined();
  const without = theirs.filter(([name]) => name !== "id");
  expect(convertEntry(folderWith(without), theirs, { ...entry([LABELS]), columnsId: columnsIdOf(without) })).toBeUndefined();
});

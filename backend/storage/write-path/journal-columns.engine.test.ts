import { LOG_COLUMNS } from "../table-columns.ts";
import { pino } from "pino";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { ClickHouseLogStore } from "../logs/log-store.ts";
import { openClickHouse } from "../../engines/clickhouse/clickhouse-client.ts";
import { migrate } from "../../engines/clickhouse/migrate.ts";
import { emptyColumns, type NativeColumns, nativeRows, type NativeType } from "../../engines/clickhouse/native-block.ts";
import {
  type Column,
  encodedUint32,
  ConstantColumn,
  Int64Column,
  Int8Column,
  MapColumn,
  StringColumn,
} from "../../engines/clickhouse/native-columns.ts";
import { OnceWriter } from "./once-writer.ts";
import { sql } from "../../engines/clickhouse/sql.ts";

/** Columns of a version with one more column, one less, and no constant ones. */
const EARLIER: NativeColumns = [
  ...LOG_COLUMNS.filter(([name]) => name !== "scope_name").map(
    ([name, type]) => [name, type.replace("constant ", "") as NativeType] as const,
  ),
  ["gone", "Map(String, String)"],
];

it("stores acknowledged rows that a version with other columns did not insert", async () => {
  using folder = temporaryFolder();
  const log = pino({ level: "silent" });
  const opening = { dataDir: folder.path, log };
  {
    await using clickhouse = await openClickHouse(opening);
    await migrate(clickhouse, log);
    await using earlier = await OnceWriter.open(clickhouse, "logs", EARLIER);
    // The table of now does not take them.
    await earlier.write({ orgId: "org", hostId: "host", bodyHash: "5", sections: [{ ...rowOf(EARLIER), day: 20_000 }] });
  }
  await using clickhouse = await openClickHouse(opening);
  await using _store = await ClickHouseLogStore.open(clickhouse);
  expect(
    await clickhouse.query(
      sql`SELECT org_id, host_id, body_hash, toUnixTimestamp(received_at) AS received, message, labels, severity_number, scope_name FROM logs`,
    ),
  ).toEqual([
    {
      org_id: "the text of org_id",
      host_id: "the text of host_id",
      body_hash: "5",
      received: 1_790_000_000,
      message: "the text of message",
      labels: { "the text of": "labels" },
      severity_number: 5,
      scope_name: "",
    },
  ]);
  expect(clickhouse.pending?.sum("deadLetters")).toBe(0);
});

function rowOf(columns: NativeColumns) {
  const filled = Object.entries<Column>(emptyColumns(columns.filter(([, type]) => type !== "DateTime")));
  for (const [name, column] of filled) {
    if (column instanceof StringColumn) column.add(`the text of ${name}`);
    if (column instanceof Int8Column) column.add(5);
    if (column instanceof Int64Column) column.addNumber(5);
    if (!(column instanceof MapColumn)) continue;
    column.keys.add("the text of");
    column.values.add(name);
    column.endRow(1);
  }
  const received = new ConstantColumn(encodedUint32(1_790_000_000));
  const byName = new Map<string, Column>([...filled, ["received_at", received]]);
  return nativeRows(
    columns.map(([name]) => byName.get(name) as Column),
    1,
  );
}

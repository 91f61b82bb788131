// An insert of the embedded engine resolves when its rows are committed, and does not wait for the removal of the file that held them: each
// wait is one turn of the event loop, which others may keep busy.
import { pino } from "pino";
import { expect, test, vi } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { openClickHouse } from "./clickhouse-client.ts";
import { nativeRows } from "./native-block.ts";
import { Int64Column } from "./native-columns.ts";
import { sql } from "./sql.ts";

const removed: string[] = [];
vi.mock("node:fs/promises", async (load) => {
  const real = await load<typeof import("node:fs/promises")>();
  const never = new Promise<void>(() => undefined);
  return { ...real, unlink: (file: string) => (removed.push(file), never) };
});

test("an insert does not wait for the removal of its file", async () => {
  using folder = temporaryFolder();
  await using clickhouse = await openClickHouse({ dataDir: folder.path, log: pino({ level: "silent" }) });
  await clickhouse.command(sql`CREATE TABLE numbers (n UInt64) ENGINE = MergeTree ORDER BY n`);
  const column = new Int64Column();
  column.addNumber(7);
  await clickhouse.insert({ table: "numbers", columns: [["n", "UInt64"]], rows: [nativeRows([column], 1)] });
  expect(removed).toHaveLength(1);
  expect(await clickhouse.query(sql`SELECT n FROM numbers`)).toEqual([{ n: "7" }]);
});

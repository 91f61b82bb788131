// Which codec the parts of the embedded engine get, also in an installation that already had data.
import { expect, test } from "vitest";
import { pino } from "pino";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { openClickHouse } from "./clickhouse-client.ts";
import { migrate } from "./migrate.ts";
import { sql } from "./sql.ts";

const log = pino({ level: "silent" });

test("compresses small parts of logs with LZ4 and large ones with ZSTD, rows of an earlier version included", async () => {
  using folder = temporaryFolder();
  await using clickhouse = await openClickHouse({ dataDir: folder.path, log });
  await migrate(clickhouse, log);
  // Restores the table of an earlier version.
  await clickhouse.command(sql`ALTER TABLE logs MODIFY COLUMN message CODEC(ZSTD(1))`);
  await clickhouse.command(sql`ALTER TABLE schema_migrations DELETE WHERE number = 18 SETTINGS mutations_sync = 1`);
  const insert = (rows: number) =>
    clickhouse.command(
      sql`INSERT INTO logs (org_id, time, id, message)
          SELECT 'o', toDateTime64('2026-11-26 00:00:00', 9), number, randomPrintableASCII(500) FROM numbers(${rows})`,
    );
  const parts = async () =>
    await clickhouse.query<{ rows: string; codec: string }>(
      sql`SELECT rows, default_compression_codec AS codec FROM system.parts WHERE active AND table = 'logs' ORDER BY rows`,
    );
  await insert(1000);
  await migrate(clickhouse, log);
  expect(await parts()).toEqual([{ rows: "1000", codec: "LZ4" }]);
  for (const rows of [40_000, 45_000]) await insert(rows);
  await clickhouse.command(sql`OPTIMIZE TABLE logs FINAL`);
  expect(await parts()).toEqual([{ rows: "86000", codec: "ZSTD(1)" }]);
  const codecs = await clickhouse.query<{ codec: string }>(
    sql`SELECT DISTINCT compression_codec AS codec FROM system.columns WHERE table IN ('logs', 'spans') AND compression_codec LIKE '%ZSTD%'`,
  );
  expect(codecs).toEqual([]);
  const [{ n = "" } = {}] = await clickhouse.query<{ n?: string }>(sql`SELECT sum(length(message)) AS n FROM logs`);
  expect(n).toBe(String(86_000 * 500));
});

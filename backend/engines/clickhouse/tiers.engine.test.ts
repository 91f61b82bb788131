// Tiers on the real engine: a policy with two disks, of which the cold one is object storage in a folder.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pino } from "pino";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { openClickHouse } from "./clickhouse-client.ts";
import { startHttpFront } from "./http-front.fixture.ts";
import { applyRetention, definitionOf, ttlOf } from "./migrate.ts";
import { prepare } from "./prepare.ts";
import { sql } from "./sql.ts";

const log = pino({ level: "silent" });
const tier = { policy: "tiered", volume: "cold", afterDays: 7 };

test("moves older parts to object storage and reads them there, despite retention and a start without the setting", async () => {
  using folder = temporaryFolder();
  const [config, cold] = [join(folder.path, "config.xml"), join(folder.path, "bucket")];
  mkdirSync(cold);
  const disk = `<bucket><type>object_storage</type><object_storage_type>local</object_storage_type><metadata_type>local</metadata_type><path>${cold}/</path></bucket>`;
  const volumes = `<default><disk>default</disk></default><cold><disk>bucket</disk></cold>`;
  // move_factor 0: otherwise ClickHouse also moves new parts while less than 10 % of the disk is free.
  const storage = `<disks>${disk}</disks><policies><tiered><volumes>${volumes}</volumes><move_factor>0</move_factor></tiered></policies>`;
  writeFileSync(config, `<clickhouse><storage_configuration>${storage}</storage_configuration></clickhouse>`);
  await using front = await startHttpFront(join(folder.path, "engine"), { connectionArgs: [`--config-file=${config}`] });
  await using clickhouse = await openClickHouse({ url: front.url, dataDir: folder.path, log });
  await prepare(clickhouse, log, tier);
  await applyRetention(clickhouse, { logs: 30, spans: 30 }, log);
  for (const days of [0, 10])
    await clickhouse.command(
      sql`INSERT INTO logs (org_id, time, id, message) SELECT 'o', now64(9) - toIntervalDay(${days}), number, 'm' FROM numbers(100)`,
    );
  const disks = async () =>
    await clickhouse.query(
      sql`SELECT disk_name, toUInt32(sum(rows)) AS n FROM system.parts WHERE active AND table = 'logs' GROUP BY disk_name ORDER BY disk_name`,
    );
  const expected = [
    { disk_name: "bucket", n: 100 },
    { disk_name: "default", n: 100 },
  ];
  await expect.poll(disks, { timeout: 50_000 }).toEqual(expected);
  expect(
    String(
      await clickhouse.read("o", { labelLimits: undefined }, (ask) =>
        ask(sql`SELECT toUInt32(count()) AS n FROM logs WHERE message = 'm'`),
      ),
    ),
  ).toBe('{"n":200}\n');
  const definition = await definitionOf(clickhouse, "logs");
  expect(ttlOf(definition)).toBe("toDateTime(time) + toIntervalDay(30), toDateTime(time) + toIntervalDay(7) TO VOLUME 'cold'");
  expect(definition).toContain("storage_policy = 'tiered'");
  await prepare(clickhouse, log, tier);
  await prepare(clickhouse, log);
  expect(await definitionOf(clickhouse, "logs")).toBe(definition);
  await prepare(clickhouse, log, { ...tier, afterDays: 3 });
  await applyRetention(clickhouse, { logs: 20 }, log);
  const changed = ttlOf(await definitionOf(clickhouse, "logs"));
  expect(changed).toBe("toDateTime(time) + toIntervalDay(20), toDateTime(time) + toIntervalDay(3) TO VOLUME 'cold'");
});

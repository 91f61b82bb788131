// Retention of organisations in the engine's tables: each has its own number of days, records of a source or level can be removed earlier,
// and an organisation can keep data longer than the others.
import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { type ClickHouse, openClickHouse } from "../../engines/clickhouse/clickhouse-client.ts";
import { applyRetention, migrate } from "../../engines/clickhouse/migrate.ts";
import { commaList, sql } from "../../engines/clickhouse/sql.ts";
import { createLog } from "../../log.ts";
import { eraseOrganisations, purgeExpired, type TableRetention } from "./removal.ts";

const log = createLog("silent");
const DAY_MS = 86_400_000;

/** Ages in days, of the rows that are left, by organisation and level. */
async function left(clickhouse: ClickHouse, nowMs: number): Promise<Record<string, number[]>> {
  const rows = await clickhouse.query<{ name: string; age: number }>(
    sql`SELECT concat(node, ' ', level) AS name, toInt32(round((${nowMs} / 1000 - toUnixTimestamp(time)) / 86400)) AS age FROM logs ORDER BY age`,
  );
  return Object.fromEntries([...Map.groupBy(rows, ({ name }) => name)].map(([name, group]) => [name, group.map(({ age }) => age)]));
}

test("removes each organisation's data by its own retention, and nothing else", { timeout: 120_000 }, async () => {
  using folder = temporaryFolder();
  await using clickhouse = await openClickHouse({ dataDir: folder.path, threads: 4, log });
  await migrate(clickhouse, log);
  // The longest of all, as the removal sets it.
  await applyRetention(clickhouse, { logs: 60 }, log);
  // Noon, so that each age in whole days is on another day.
  const nowMs = Math.floor(Date.now() / DAY_MS) * DAY_MS + DAY_MS / 2;
  const orgs = { short: randomUUID(), usual: randomUUID(), long: randomUUID() };
  for (const [name, orgId] of Object.entries(orgs)) {
    await clickhouse.command(sql`INSERT INTO logs (org_id, node, time, level, source)
      SELECT ${orgId}, ${name}, fromUnixTimestamp64Milli(${nowMs} - number * ${DAY_MS}), level, 'shop'
      FROM numbers(50) ARRAY JOIN ['debug', 'error'] AS level WHERE number IN (0, 1, 2, 4, 7, 9, 20, 40)`);
  }
  const retention: TableRetention = {
    table: "logs",
    defaultDays: 10,
    organisations: new Map([
      [orgs.short, { days: 3, rules: [] }],
      [
        orgs.long,
        {
          days: 60,
          rules: [
            { level: "debug", source: "shop", days: 1 },
            { source: "another", days: 1 },
          ],
        },
      ],
    ]),
  };
  // A pass begins a few deletions, and none while there are unfinished ones.
  await expect
    .poll(async () => [await purgeExpired(clickhouse, retention, nowMs), await left(clickhouse, nowMs)], { timeout: 60_000 })
    .toEqual([
      [],
      {
        "short debug": [0, 1, 2],
        "short error": [0, 1, 2],
        "usual debug": [0, 1, 2, 4, 7, 9],
        "usual error": [0, 1, 2, 4, 7, 9],
        "long debug": [0, 1],
        "long error": [0, 1, 2, 4, 7, 9, 20, 40],
      },
    ]);
});

test("one mutation of a table erases all removed organisations, and another one keeps its rows", { timeout: 120_000 }, async () => {
  using folder = temporaryFolder();
  await using clickhouse = await openClickHouse({ dataDir: folder.path, threads: 4, log });
  await migrate(clickhouse, log);
  const [stays, ...gone] = Array.from({ length: 1001 }, () => randomUUID());
  await clickhouse.command(
    sql`INSERT INTO logs (org_id, node, time) SELECT arrayJoin([${commaList([stays as string, ...gone])}]), 'n', now64(3)`,
  );
  expect((await eraseOrganisations(clickhouse, gone)).get(gone[999] as string)).toEqual({ logs: 1 });
  const left = async () => [...(await eraseOrganisations(clickhouse, gone)).values()].filter(({ logs }) => logs !== undefined).length;
  await expect.poll(left, { timeout: 60_000 }).toBe(0);
  expect(await clickhouse.query(sql`SELECT table FROM system.mutations WHERE position(command, 'DELETE') > 0`)).toEqual([
    { table: "logs" },
  ]);
  expect(await clickhouse.query(sql`SELECT org_id FROM logs`)).toEqual([{ org_id: stays }]);
});

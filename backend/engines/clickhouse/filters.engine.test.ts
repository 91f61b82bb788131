// In tables that an earlier version filled, too, rare values are found without reading all of an organisation's rows.
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pino } from "pino";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type ClickHouse, openClickHouse } from "./clickhouse-client.ts";
import { migrate } from "./migrate.ts";
import { sql, Sql } from "./sql.ts";

const log = pino({ level: "silent" });
const ROWS = 60_000;
const TRACE = "0123456789abcdef0123456789abcdef";
let dataDir: string;
let clickhouse: ClickHouse;

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "atherops-filters-"));
  clickhouse = await openClickHouse({ dataDir, log });
  await migrate(clickhouse, log);
  await asBefore();
  await fill(0);
  await migrate(clickhouse, log);
  await fill(ROWS);
});
afterAll(async () => {
  await clickhouse[Symbol.asyncDispose]();
  await rm(dataDir, { recursive: true });
});

/** Tables and what is known of them as they were before there were filters. */
async function asBefore(): Promise<void> {
  await clickhouse.command(sql`ALTER TABLE logs DROP INDEX source_filter, DROP INDEX trace_id_filter SETTINGS mutations_sync = 2`);
  await clickhouse.command(sql`ALTER TABLE spans DROP INDEX service_filter SETTINGS mutations_sync = 2`);
  await clickhouse.command(sql`ALTER TABLE schema_migrations DELETE WHERE number = 4 SETTINGS mutations_sync = 2`);
}

/** One record in ROWS is of a rare source and of a trace. */
async function fill(first: number): Promise<void> {
  const rows = sql`FROM numbers(${first}, ${ROWS})`;
  const common = sql`'org' AS org_id, toDateTime64('2026-01-01 00:00:00', 9, 'UTC') + number / 10 AS time, number AS id`;
  const rare = sql`number % ${ROWS} = 30000`;
  await clickhouse.command(
    sql`INSERT INTO logs (org_id, time, id, source, trace_id) SELECT ${common}, if(${rare}, 'rare', 'shop'), if(${rare}, ${TRACE}, '') ${rows}`,
  );
  await clickhouse.command(sql`INSERT INTO spans (org_id, time, id, service) SELECT ${common}, if(${rare}, 'rare', 'shop') ${rows}`);
}

/** Granules that a query for one organisation's rows reads; nearly all if no filter helps. */
async function granulesRead(table: string, condition: Sql): Promise<number> {
  const lines = await clickhouse.query<{ explain: string }>(
    sql`EXPLAIN indexes = 1 SELECT id FROM ${new Sql(table)} WHERE org_id = 'org' AND ${condition} SETTINGS use_skip_indexes_on_data_read = 0`,
  );
  const granules = lines.flatMap(({ explain }) => /Granules: (\d+)\/\d+/.exec(explain)?.[1] ?? []);
  return Number(granules.at(-1));
}

it.each([
  ["a source", "logs", sql`source = 'rare'`],
  ["a trace's logs", "logs", sql`trace_id = ${TRACE}`],
  ["a service", "spans", sql`service = 'rare'`],
])("a search for %s reads only granules that contain it, in old and in new parts", async (_, table, condition) => {
  const all = await granulesRead(table, sql`1`);
  expect(all).toBeGreaterThan(50);
  await expect.poll(() => granulesRead(table, condition), { timeout: 30_000 }).toBeLessThanOrEqual(4);
  const found = await clickhouse.query(sql`SELECT id FROM ${new Sql(table)} WHERE org_id = 'org' AND ${condition} ORDER BY id`);
  expect(found).toEqual([{ id: "30000" }, { id: "90000" }]);
});

it("a search for an absent value reads almost nothing", async () => {
  await expect.poll(() => granulesRead("spans", sql`service = 'none'`), { timeout: 30_000 }).toBeLessThanOrEqual(2);
});

// A retention that is raised or lowered, in the engine's tables: what is admitted, what the tables keep, and what happens while a table
// cannot be changed. Two replicas share the database and the tables.
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { type ClickHouse, openClickHouse, type Shard } from "../../engines/clickhouse/clickhouse-client.ts";
import { applyRetention, deletionDaysOf, migrate as migrateClickHouse } from "../../engines/clickhouse/migrate.ts";
import { Sql, sql } from "../../engines/clickhouse/sql.ts";
import { type Database, openDatabase } from "../../engines/relational/database.ts";
import { migrate } from "../../engines/relational/migrate.ts";
import { createLog } from "../../log.ts";
import { purgeExpired } from "../../storage/removal/removal.ts";
import { TableLimits } from "../../storage/removal/table-limits.ts";
import { claimJob, releaseJob } from "./job-claim.ts";
import { listTables } from "./removal-loop.ts";
import { OrgRetention, type RetentionTables } from "./retention.ts";

const log = createLog("silent");
const UNSET = { logs_days: null, traces_days: null, metrics_days: null, log_rules: [] };
const DERIVED = ["span_operations", "exemplars"];

const folder = temporaryFolder();
let clickhouse: ClickHouse;
let database: Database;
let orgId: string;
/** A table that the second shard refuses to change. */
let refused: string | undefined;
/** Called before and after a table is changed. */
let onChange: (isDone: boolean) => Promise<void> = async () => {};

beforeAll(async () => {
  clickhouse = await openClickHouse({ dataDir: `${folder.path}/clickhouse`, threads: 4, log });
  await migrateClickHouse(clickhouse, log);
  database = await openDatabase({ dataDir: `${folder.path}/accounts`, log });
  await migrate(database);
});
afterAll(async () => {
  await database[Symbol.asyncDispose]();
  await clickhouse[Symbol.asyncDispose]();
  folder[Symbol.dispose]();
});
beforeEach(async () => {
  refused = undefined;
  onChange = async () => {};
  await database.tables<{ org_retention: object }>().deleteFrom("org_retention").execute();
  orgId = randomUUID();
  await database.tables<{ orgs: object }>().insertInto("orgs").values({ id: orgId, name: orgId, created_at: new Date() }).execute();
  await applyRetention(clickhouse, { logs: 30, spans: 30, exemplars: 30, span_operations: 30, span_minutes: 395, service_edges: 395 }, log);
});

/** A replica with two shards, which are the same tables. */
async function replica(days = 30): Promise<OrgRetention> {
  const second: Shard = {
    ...clickhouse,
    query: async (statement) => await clickhouse.query(statement),
    command: async (statement) => {
      if (refused !== undefined && statement.text.startsWith(`ALTER TABLE ${refused}`)) throw new Error("TABLE_IS_READ_ONLY");
      await onChange(false);
      await clickhouse.command(statement);
      await onChange(true);
    },
  };
  const retention = new OrgRetention({ logsDays: days, tracesDays: days, metricsDays: 30 });
  retention.useDatabase(database.tables());
  await retention.refresh();
  await retention.useTables(new TableLimits({ shards: [second, second] }, log), log);
  return retention;
}

const tableDays = async (...tables: string[]): Promise<(number | undefined)[]> =>
  await Promise.all(tables.map(async (table) => await deletionDaysOf(clickhouse, table)));

test("applies a raised retention to every table before it admits older records, in this replica and in another one", async () => {
  const [first, second] = [await replica(), await replica()];
  const stored = first.set(orgId, { ...UNSET, logs_days: 365, traces_days: 400 });
  expect(first.admitted(orgId)).toEqual({ logs: 30, traces: 30 });
  await stored;
  expect(await tableDays("logs", "spans", ...DERIVED, "span_minutes", "service_edges")).toEqual([365, 400, 400, 400, 400, 400]);
  expect(first.admitted(orgId)).toEqual({ logs: 365, traces: 400 });
  expect(second.admitted(orgId)).toEqual({ logs: 30, traces: 30 });
  await second.refresh();
  expect(second.admitted(orgId)).toEqual({ logs: 365, traces: 400 });
  await clickhouse.command(sql`INSERT INTO logs (org_id, node, time) SELECT ${orgId}, 'n', now64(3) - toIntervalDay(300)`);
  await clickhouse.command(sql`OPTIMIZE TABLE logs FINAL`);
  expect(await clickhouse.query(sql`SELECT node FROM logs WHERE org_id = ${orgId}`)).toEqual([{ node: "n" }]);
});

test("parts that were written under the earlier retention expire by the new one, raised and lowered", async () => {
  const first = await replica();
  await clickhouse.command(sql`INSERT INTO logs (org_id, node, time) SELECT ${orgId}, 'n', now64(3) - toIntervalDay(20)`);
  const expiresInDays = async (): Promise<unknown[]> =>
    await clickhouse.query(
      sql`SELECT DISTINCT intDiv(dateDiff('hour', now(), delete_ttl_info_max) + 1, 24) AS days FROM system.parts
        WHERE active AND table = 'logs' AND partition = toString(toDate(now() - toIntervalDay(20)))`,
    );
  await first.set(orgId, { ...UNSET, logs_days: 90 });
  await expect.poll(expiresInDays).toEqual([{ days: "70" }]);
  await first.set(orgId, UNSET);
  await first.settleTables();
  await first.settleTables();
  await expect.poll(expiresInDays).toEqual([{ days: "10" }]);
});

test.each(["logs", "spans", "span_operations", "service_edges"])(
  "if %s cannot be changed in a shard, returns an error for a longer retention and admits nothing more",
  async (table) => {
    const first = await replica();
    refused = table;
    const days = { ...UNSET, logs_days: 600, traces_days: 600 };
    await expect(first.set(orgId, days)).rejects.toMatchObject({ code: "storage_unavailable", message: /retention was not changed/ });
    expect(await first.read(orgId)).toMatchObject({ logsDays: 30, tracesDays: 30 });
    const restarted = await replica(600);
    const isOfLogs = table === "logs";
    expect(restarted.admitted(orgId)).toEqual({ logs: isOfLogs ? 30 : 600, traces: table === "service_edges" ? 395 : 30 });
    refused = undefined;
    await first.set(orgId, days);
    expect(first.admitted(orgId)).toEqual({ logs: 600, traces: 600 });
  },
);

test("applies a longer setting to the tables before it admits the first record", async () => {
  const restarted = await replica(600);
  expect(restarted.admitted(orgId)).toEqual({ logs: 600, traces: 600 });
  expect(await tableDays("logs", "spans", ...DERIVED, "span_minutes")).toEqual([600, 600, 600, 600, 600]);
});

test("a lowered retention stops admission immediately, and the tables follow only after a second pass", async () => {
  const [first, second] = [await replica(), await replica()];
  await first.set(orgId, { ...UNSET, logs_days: 365 });
  await first.set(orgId, { ...UNSET, logs_days: 60 });
  expect(first.admitted(orgId).logs).toBe(60);
  await first.settleTables();
  expect(await tableDays("logs")).toEqual([365]);
  await second.set(orgId, { ...UNSET, logs_days: 365 });
  await first.settleTables();
  await first.settleTables();
  expect(await tableDays("logs")).toEqual([365]);
  await second.set(orgId, { ...UNSET, logs_days: 60 });
  await first.settleTables();
  expect(await tableDays("logs")).toEqual([365]);
  await first.settleTables();
  expect(await tableDays("logs")).toEqual([60]);
});

test("a retention that another replica raises while the tables are lowered is not admitted before the tables keep it", async () => {
  const [first, second] = [await replica(), await replica()];
  await first.set(orgId, { ...UNSET, logs_days: 365 });
  await first.set(orgId, { ...UNSET, logs_days: 60 });
  await first.settleTables();
  let raised: Promise<unknown> | undefined;
  const lostDays: number[] = [];
  onChange = async (isDone) => {
    raised ??= second.set(orgId, { ...UNSET, logs_days: 365 });
    // The other replica has to wait, so nothing happens in this time.
    if (!isDone) await Promise.race([raised, sleep(300)]);
    else lostDays.push(second.admitted(orgId).logs - ((await tableDays("logs"))[0] as number));
  };
  await first.settleTables();
  await raised;
  expect(Math.max(...lostDays)).toBeLessThanOrEqual(0);
  expect([second.admitted(orgId).logs, ...(await tableDays("logs"))]).toEqual([365, 365]);
});

test("a pass that waited for another replica keeps what that replica has raised meanwhile", async () => {
  const first = await replica();
  await first.set(orgId, { ...UNSET, logs_days: 365 });
  await first.set(orgId, { ...UNSET, logs_days: 60 });
  await first.settleTables();
  const db = database.tables<RetentionTables>();
  expect(await claimJob(db, "table-limits", Date.now(), 60_000)).toBe(true);
  const pass = first.settleTables();
  // The database runs one statement after the other: the pass has tried to begin.
  await first.readAll();
  await db.updateTable("org_retention").set({ logs_days: 365 }).where("org_id", "=", orgId).execute();
  await releaseJob(db, "table-limits");
  await pass;
  expect(await tableDays("logs")).toEqual([365]);
});

test.each([
  ["logs", sql`INSERT INTO logs (org_id, node, time, received_at)`],
  ["spans", sql`INSERT INTO spans (org_id, node, time, received_at)`],
  ["exemplars", sql`INSERT INTO exemplars (org_id, node, time, received_at)`],
] as const)("%s admitted by a retention that was raised after the purge had read the list stay", async (table, insert) => {
  const [first, second] = [await replica(), await replica()];
  await first.set(orgId, { ...UNSET, logs_days: 10, traces_days: 10 });
  const nowMs = Date.now();
  const old = sql`now64(3) - toIntervalDay(20)`;
  await clickhouse.command(sql`${insert} SELECT ${orgId}, 'expired', ${old}, now() - toIntervalDay(20)`);
  await first.withoutChanges(async (organisations) => {
    await second.set(orgId, { ...UNSET, logs_days: 365, traces_days: 365 });
    await clickhouse.command(sql`${insert} SELECT ${orgId}, 'admitted', ${old}, now()`);
    for (const expiring of listTables(first.defaults, organisations)) await purgeExpired(clickhouse, expiring, nowMs);
  });
  const left = async (): Promise<unknown> => await clickhouse.query(sql`SELECT node FROM ${new Sql(table)} WHERE org_id = ${orgId}`);
  await expect.poll(left, { timeout: 20_000 }).toEqual([{ node: "admitted" }]);
});

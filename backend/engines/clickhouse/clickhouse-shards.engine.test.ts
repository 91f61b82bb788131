// Queries over two shards, with real Distributed tables: they return what one server returns, and the shards themselves leave out the rows
// of other organisations.
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { countOnEveryReplica } from "../../storage/removal/removal.ts";
import { openClickHouse, type Shard } from "./clickhouse-client.ts";
import { CLUSTER, openTwoShards, type TwoShards } from "./cluster-front.fixture.ts";
import { prepare } from "./prepare.ts";
import { sql, Sql } from "./sql.ts";
import { fillTenants, ORGS, UNCONDITIONAL } from "./tenant-filter.fixture.ts";
import { TENANT_TABLES, tenantFilter } from "./tenant-filter.ts";

const ROWS = 5000;
let shards: TwoShards;

beforeAll(async () => {
  shards = await openTwoShards();
  // One URL is accepted while no shard has rows, as before a second shard is added.
  await prepare(shards.server, pino({ level: "silent" }));
  await fillTenants(shards.server, ROWS);
});
afterAll(() => shards?.[Symbol.asyncDispose]());

const rowsOf = async (way: "cluster" | "server", org: string, statement: Sql): Promise<unknown[]> =>
  (await shards[way].read(org, { labelLimits: undefined }, (ask) => ask(statement)))
    .toString()
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line) as unknown);

describe("without a condition in the statement", () => {
  it.each(UNCONDITIONAL.map(({ text }) => text))("%s", async (text) => {
    for (const org of [...ORGS, ...ORGS]) {
      const [found] = (await rowsOf("cluster", org, new Sql(`SELECT groupUniqArray(toString(org)) AS orgs FROM (${text})`))) as {
        orgs: string[];
      }[];
      expect(found?.orgs.filter((value) => value !== "1" && value !== "")).toEqual([org]);
    }
  });

  it("each shard applies the condition to its own table, before it returns rows", async () => {
    for (const table of TENANT_TABLES) {
      // No projection has the last time.
      const read = sql`SELECT org_id, max(time) FROM default_distributed.${new Sql(table)} GROUP BY org_id`;
      const plan = await shards.server.query<{ explain: string }>(sql`EXPLAIN ${read} SETTINGS ${tenantFilter("red", "default")}`);
      const lines = plan.map(({ explain }) => explain);
      expect(
        lines.filter((line) => line.includes(`ReadFromMergeTree (default.${table})`)),
        table,
      ).toHaveLength(2);
      expect(
        lines.filter((line) => /filter column:.*org_id = 'red'/.test(line)),
        table,
      ).toHaveLength(2);
    }
  });

  it("counts are exact: each row is read on one shard", async () => {
    for (const org of ORGS) expect(await rowsOf("cluster", org, sql`SELECT toUInt32(count()) AS n FROM logs`)).toEqual([{ n: ROWS }]);
    const minutes = sql`SELECT toStartOfMinute(time) AS minute, toUInt32(count()) AS n FROM logs GROUP BY minute ORDER BY minute`;
    expect(await rowsOf("cluster", "red", minutes)).toEqual(await rowsOf("server", "red", minutes));
  });

  it("rows of a subquery of IN come from all shards", async () => {
    const found = sql`SELECT toUInt32(count()) AS n FROM spans WHERE id NOT IN (SELECT id FROM logs WHERE id % 3 = 0) AND id IN (SELECT id FROM spans)`;
    expect(await rowsOf("cluster", "red", found)).toEqual(await rowsOf("server", "red", found));
  });
});

it("one URL is refused while several shards have rows", async () => {
  await expect(prepare(shards.server, pino({ level: "silent" }))).rejects.toThrow(
    `CLICKHOUSE_URL: has one URL, but the cluster ${CLUSTER} has other shards, which have rows or do not respond: shard 1 (127.0.0.1), shard 2 (127.0.0.1).`,
  );
});

describe("while a shard is unavailable", () => {
  let partial: TwoShards;

  beforeAll(async () => {
    await shards[Symbol.asyncDispose]();
    partial = await openTwoShards({ withThird: true, partialAnswers: true });
  });
  afterAll(() => partial?.[Symbol.asyncDispose]());

  it("one URL is refused, and the error names the shard", async () => {
    await expect(prepare(partial.server, pino({ level: "silent" }))).rejects.toThrow(/do not respond: shard 3 \(127\.0\.0\.1\)\. Queries/);
    await fillTenants(partial.server, 10);
  });

  const count = sql`SELECT toUInt32(count()) AS n FROM logs`;
  const unavailable = { code: "storage_unavailable" };

  it("a query returns an error, unless its reader can report that rows are missing", async () => {
    await expect(partial.cluster.read("red", { labelLimits: undefined }, (ask) => ask(count))).rejects.toMatchObject(unavailable);
    const onPartial = vi.fn();
    expect(JSON.parse((await partial.cluster.read("red", { onPartial, labelLimits: undefined }, (ask) => ask(count))).toString())).toEqual({
      n: 10,
    });
    expect(onPartial).toHaveBeenCalledOnce();
    // The next one does not ask all shards first.
    partial.statements.splice(0);
    await partial.cluster.read("red", { onPartial, labelLimits: undefined }, (ask) => ask(count));
    expect(partial.statements).toEqual([expect.stringContaining("skip_unavailable_shards = 1")]);
    expect(onPartial).toHaveBeenCalledTimes(2);
    await using strict = await openClickHouse({ url: partial.url, cluster: CLUSTER, dataDir: "unused", log: pino({ level: "silent" }) });
    await expect(strict.read("red", { onPartial, labelLimits: undefined }, (ask) => ask(count))).rejects.toMatchObject(unavailable);
  });

  it("nothing is decided about stored, erased and changed data", async () => {
    await expect(partial.cluster.query(count)).rejects.toMatchObject(unavailable);
    const replicas = partial.cluster.everyReplica("logs");
    await expect(partial.cluster.query(sql`SELECT count() FROM ${replicas}`)).rejects.toMatchObject(unavailable);
    await expect(countOnEveryReplica(partial.cluster, ["none"])).rejects.toMatchObject(unavailable);
  });
});

it("rejects a server that is too old, by name", async () => {
  const old: Shard = {
    shared: true,
    cluster: undefined,
    database: "default",
    query: async () => [{ version: "23.3.1.1" }] as never,
    command: async () => {},
  };
  await expect(prepare({ ...shards.server, shards: [old] }, pino({ level: "silent" }))).rejects.toThrow(
    "CLICKHOUSE_URL: the server is ClickHouse 23.3.1.1; this version of the backend needs 25.8 or newer",
  );
});

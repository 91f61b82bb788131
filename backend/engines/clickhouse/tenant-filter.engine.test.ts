// A statement without any condition reads only the rows of the requesting organisation, embedded and over HTTP, and the index still skips
// the granules of others.
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type BothWays, openBothWays } from "./both-ways.fixture.ts";
import { migrate } from "./migrate.ts";
import { sql, Sql } from "./sql.ts";
import { fillTenants, ORGS, UNCONDITIONAL } from "./tenant-filter.fixture.ts";
import { TENANT_TABLES, tenantFilter } from "./tenant-filter.ts";

const ROWS = 40_000;
let clients: BothWays;

beforeAll(async () => {
  clients = await openBothWays();
  await migrate(clients.embedded, pino({ level: "silent" }));
  await fillTenants(clients.embedded, ROWS);
});
afterAll(() => clients?.[Symbol.asyncDispose]());

describe.each(["embedded", "http"] as const)("%s", (way) => {
  // One organisation after the other, twice: no cache of the engine answers one with what another asked.
  const askers = [...ORGS, ...ORGS];

  it.each(UNCONDITIONAL.map(({ text }) => text))("%s", async (text) => {
    for (const org of askers) {
      const lines = await clients[way].read(org, { labelLimits: undefined }, (ask) =>
        ask(new Sql(`SELECT groupUniqArray(toString(org)) AS orgs FROM (${text})`)),
      );
      const { orgs } = JSON.parse(lines.toString()) as { orgs: string[] };
      // '1' is the service of all spans, and '' is the missing row of an outer join.
      expect(orgs.filter((value) => value !== "1" && value !== "")).toEqual([org]);
    }
  });

  it("counts, also those that the engine returns without reading rows, cover one organisation", async () => {
    for (const org of askers)
      expect(
        String(await clients[way].read(org, { labelLimits: undefined }, (ask) => ask(sql`SELECT toUInt32(count()) AS n FROM logs`))),
      ).toBe(`{"n":${ROWS}}\n`);
    expect(
      String(await clients[way].read("none", { labelLimits: undefined }, (ask) => ask(sql`SELECT toUInt32(count()) AS n FROM logs`))),
    ).toBe('{"n":0}\n');
  });
});

it("prunes the primary index like a condition of the statement, and keeps the table's order", async () => {
  const explained = async (rest: Sql): Promise<string> => {
    const statement = sql`SELECT id FROM logs ${rest}`;
    const lines = await clients.embedded.query<{ explain: string }>(sql`EXPLAIN indexes = 1, actions = 1 ${statement}`);
    return lines.map(({ explain }) => explain).join("\n");
  };
  const granules = (plan: string): [number, number] => {
    const [, read, all] = /Granules: (\d+)\/(\d+)/.exec(plan.slice(plan.indexOf("PrimaryKey"))) ?? [];
    return [Number(read), Number(all)];
  };
  const byFilter = await explained(sql`ORDER BY time DESC, id DESC LIMIT 10 SETTINGS ${tenantFilter("red")}`);
  const byHand = await explained(sql`WHERE org_id = 'red' ORDER BY time DESC, id DESC LIMIT 10`);
  expect(granules(byFilter)).toEqual(granules(byHand));
  const [read, all] = granules(byFilter);
  expect(read).toBeGreaterThan(10);
  expect(read).toBeLessThan(all / 2);
  const withBoth = await explained(sql`WHERE org_id = 'red' ORDER BY time DESC, id DESC LIMIT 10 SETTINGS ${tenantFilter("red")}`);
  const inOrder = (plan: string) => /Read ?[tT]ype: (\w+)/.exec(plan)?.[1];
  expect(inOrder(withBoth)).toBe("InReverseOrder");
  expect(inOrder(withBoth)).toBe(inOrder(byHand));
});

it("the list contains every table with rows of organisations", async () => {
  const rows = await clients.embedded.query<{ table: string }>(
    sql`SELECT DISTINCT table FROM system.columns WHERE database = currentDatabase() AND name = 'org_id' ORDER BY table`,
  );
  expect(rows.map(({ table }) => table)).toEqual([...TENANT_TABLES].sort());
});

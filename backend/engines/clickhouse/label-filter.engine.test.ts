// Statements without any condition read only the rows that a limited reader may see, embedded and over HTTP, also those that the engine
// answers from projections, and also after another reader has sent the same statement.
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { LabelLimits } from "../../admission/limited-labels.ts";
import { type BothWays, openBothWays } from "./both-ways.fixture.ts";
import { migrate } from "./migrate.ts";
import { sql, Sql } from "./sql.ts";

const KEY = "k8s.namespace.name";
const [NEW, OLD] = ["deployment.environment.name", "deployment.environment"];
/** Source → labels. */
const RECORDS: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  shop: { [KEY]: "shop" },
  web: { [KEY]: "web" },
  quoted: { [KEY]: "it's \\ a%b" },
  unlabelled: { other: "shop" },
  empty: { [KEY]: "" },
  spelled: { "K8S.Namespace.Name": "shop", k8s_namespace_name: "shop", ["__proto__x"]: "shop" },
  contains: { [KEY]: "shop-2" },
  upper: { [KEY]: "SHOP" },
  live: { [NEW]: "live" },
  older: { [OLD]: "live" },
  moved: { [NEW]: "test", [OLD]: "live" },
};
const ORG = "acme";
let clients: BothWays;

beforeAll(async () => {
  clients = await openBothWays();
  const { embedded } = clients;
  await migrate(embedded, pino({ level: "silent" }));
  const time = sql`toDateTime64('2026-01-01 00:00:00', 9, 'UTC')`;
  for (const [source, labels] of Object.entries(RECORDS)) {
    const map = new Sql(
      `map(${Object.entries(labels)
        .map(([key, value]) => sql`${key}, ${value}`.text)
        .join(", ")})`,
    );
    for (const org of [ORG, "other"]) {
      await embedded.command(
        sql`INSERT INTO logs (org_id, time, id, source, level, labels) SELECT ${org}, ${time}, 1, ${source}, 'info', ${map}`,
      );
      await embedded.command(sql`INSERT INTO spans (org_id, time, id, service, attributes) SELECT ${org}, ${time}, 1, ${source}, ${map}`);
      const series = new Sql(
        map.text
          .replaceAll(KEY, "k8s_namespace_name")
          .replaceAll(NEW, "deployment_environment_name")
          .replaceAll(OLD, "deployment_environment"),
      );
      if (source !== "spelled")
        await embedded.command(sql`INSERT INTO exemplars (org_id, time, name, series) SELECT ${org}, ${time}, ${source}, ${series}`);
    }
  }
  for (const table of [sql`span_operations`, sql`span_minutes`])
    await embedded.command(sql`INSERT INTO ${table} (org_id, time, service) SELECT ${ORG}, now(), 'shop'`);
  await embedded.command(sql`INSERT INTO service_edges (org_id, time, client) SELECT ${ORG}, now(), 'shop'`);
});
afterAll(() => clients?.[Symbol.asyncDispose]());

const CASES: readonly (readonly [LabelLimits, readonly string[]])[] = [
  [{ [KEY]: ["shop"] }, ["shop"]],
  [{ [KEY]: ["web"] }, ["web"]],
  [{ [KEY]: ["shop", "web", "none"] }, ["shop", "web"]],
  [{ [KEY]: ["it's \\ a%b"] }, ["quoted"]],
  [{ [KEY]: ["sho%", ".*", "shop|web", "' OR 1 = 1 OR '"] }, []],
  [{ source: ["shop", "live"] }, ["live", "shop"]],
  [{ [KEY]: ["shop", "web"], source: ["shop", "live"] }, ["shop"]],
  [{ "deployment.environment.name": ["live"] }, ["live", "older"]],
];

describe.each(["embedded", "http"] as const)("%s", (way) => {
  async function read(labelLimits: LabelLimits | undefined, statement: Sql): Promise<unknown[]> {
    const lines = await clients[way].read(ORG, { labelLimits }, (ask) => ask(statement));
    return lines
      .toString()
      .split("\n")
      .filter(Boolean)
      .map((line) => Object.values(JSON.parse(line) as object)[0]);
  }

  it.each(CASES)("%j selects %j", async (limits, expected) => {
    const all = Object.keys(RECORDS).sort();
    for (const limited of [limits, undefined, limits]) {
      const sources = limited ? expected : all;
      expect(await read(limited, sql`SELECT source FROM logs ORDER BY source`)).toEqual(sources);
      expect(await read(limited, sql`SELECT service FROM spans ORDER BY service`)).toEqual(sources);
      // The engine remembers which granules have no row for a condition.
      expect(await read(limited, sql`SELECT source FROM logs WHERE level = 'info' GROUP BY source ORDER BY source`)).toEqual(sources);
      // Read from the projections of both tables.
      expect(await read(limited, sql`SELECT source, count() FROM logs GROUP BY source ORDER BY source`)).toEqual(sources);
      expect(await read(limited, sql`SELECT service, count() FROM spans GROUP BY service ORDER BY service`)).toEqual(sources);
      expect(await read(limited, sql`SELECT toUInt32(count()) FROM logs`)).toEqual([sources.length]);
      expect(await read(limited, sql`SELECT toUInt32(count()) FROM spans`)).toEqual([sources.length]);
      const series = limits.source ? [] : sources;
      const ofSeries = limited && !limits.source ? limited : undefined;
      expect(ofSeries ? await read(ofSeries, sql`SELECT name FROM exemplars ORDER BY name`) : series).toEqual(series);
    }
  });

  it.each(["span_operations", "span_minutes", "service_edges"])("%s has no labels, so no row is visible", async (table) => {
    const rows = (limits: LabelLimits | undefined) => read(limits, new Sql(`SELECT toUInt32(count()) FROM ${table} FINAL`));
    expect([await rows(undefined), await rows({ source: ["shop"] })]).toEqual([[1], [0]]);
  });

  it("a condition of the statement cannot widen the limits", async () => {
    const limits = { [KEY]: ["shop"] };
    expect(await read(limits, sql`SELECT source FROM logs WHERE source = 'web' OR 1`)).toEqual(["shop"]);
    expect(await read(limits, sql`SELECT source FROM logs WHERE labels[${KEY}] = 'web'`)).toEqual([]);
    expect(await read(limits, sql`SELECT source FROM spans AS s FULL JOIN logs ON s.service = logs.source WHERE source != ''`)).toEqual([
      "shop",
    ]);
    expect(await read(limits, sql`SELECT source FROM logs WHERE source IN (SELECT service FROM spans)`)).toEqual(["shop"]);
  });
});

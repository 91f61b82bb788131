import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { ALERTS_PASSWORD, alertingApp, RULES_PASSWORD, type AlertingApp } from "../../test/fixtures/alerting-app.ts";
import type { RuleFilter } from "../engines/vmalert/vmalert-client.ts";
import { createLog } from "../log.ts";
import { Reconciler } from "./reconciler.ts";
import type { CheckedRule, Rule } from "./alert-rule.ts";
import { RuleSets, type RuleSet } from "./rule-groups.ts";
import { RuleTable, type AlertingTables } from "./alert-rule-table.ts";
import type { SloBody } from "./slo.ts";
import { SloTable } from "./slo-table.ts";

const body = (name: string, more: Partial<CheckedRule> = {}): CheckedRule => ({
  name,
  severity: "info",
  expr: "metric == 1",
  for: "0s",
  forMs: 0,
  enabled: true,
  labels: {},
  annotations: {},
  ...more,
});
const objective = (name: string, labels: SloBody["labels"] = {}): SloBody => ({
  name,
  description: "",
  objective: 99.9,
  window: "30d",
  indicator: { promql: { total: "increase(requests[$window])", bad: "increase(errors[$window])" } },
  no_traffic: "ignore",
  alerts: false,
  labels,
});
const SOON = { timeout: 60_000, interval: 100 };
vi.setConfig({ testTimeout: 180_000 });

async function status(service: AlertingApp, orgId: string, id: string): Promise<{ state: string; error?: string; last_eval?: string }> {
  return (await service.call("GET", `/rules/${id}/status`, `${orgId}:admin`)).json();
}

describe.each([
  ["with a vmalert for dry runs", { withoutDryRun: false, external: false }],
  ["without one, on an evaluator elsewhere", { withoutDryRun: true, external: true }],
])("a stored rule that the evaluator rejects, %s", (_where, options) => {
  let service: AlertingApp;
  beforeAll(async () => void (service = await alertingApp(options)));
  afterAll(async () => await service?.[Symbol.asyncDispose]());

  test("is found and withheld with the reason, and all other rules before and after it are loaded", async () => {
    const table = new RuleTable(service.database.tables<AlertingTables>());
    const [one, two] = [await service.makeOrg(), await service.makeOrg()];
    const before = await table.create(one, body("before"));
    await vi.waitFor(async () => expect(await status(service, one, before.id)).toHaveProperty("last_eval"), SOON);

    const bad = await table.create(one, body("", { labels: { team: "a" } }));
    const together = [await table.create(one, body("together")), await table.create(two, body("of another"))];
    await vi.waitFor(async () => {
      for (const rule of together) expect(await status(service, rule.orgId, rule.id)).toHaveProperty("last_eval");
      expect(await status(service, one, bad.id)).toEqual({ state: "inactive", active_alerts: 0, error: expect.stringMatching(/rejects/) });
    }, SOON);
    expect(await status(service, one, before.id)).toHaveProperty("last_eval");

    const repaired = await service.call("PUT", `/rules/${bad.id}`, `${one}:admin`, { name: "bad", severity: "info", expr: "metric == 1" });
    expect(repaired.statusCode).toBe(200);
    await vi.waitFor(async () => expect(await status(service, one, bad.id)).toHaveProperty("last_eval"), SOON);
  });

  test("is found if it records the burn rates of an objective of an organisation without other rules", async () => {
    const db = service.database.tables<AlertingTables>();
    const [one, two] = [await service.makeOrg(), await service.makeOrg()];
    const slos = new SloTable(db);
    const bad = await slos.create(one, objective("bad", { __name__: "of another metric" }));
    const good = await slos.create(one, objective("good"));
    const other = await new RuleTable(db).create(two, body("of another"));
    const read = async (id: string) => (await slos.list(one)).find((slo) => slo.id === id);
    await vi.waitFor(async () => {
      expect(await status(service, two, other.id)).toHaveProperty("last_eval");
      expect(await read(bad.id)).toMatchObject({ error: expect.stringMatching(/rejects/) });
    }, SOON);
    await vi.waitFor(async () => {
      const loaded = await (await fetch(`${service.evaluator.url}/api/v1/rules`)).text();
      expect([loaded.includes(good.id), loaded.includes(bad.id)]).toEqual([true, false]);
    }, SOON);
    expect(await read(good.id)).toMatchObject({ error: undefined });

    await slos.replace(one, bad.id, objective("repaired"));
    await vi.waitFor(async () => expect(await (await fetch(`${service.evaluator.url}/api/v1/rules`)).text()).toContain(bad.id), SOON);
  });
});

test("withholds a stored rule with an unreadable `for` with the reason, and loads the others", async () => {
  await using service = await alertingApp();
  const db = service.database.tables<AlertingTables>();
  const table = new RuleTable(db);
  const orgId = await service.makeOrg();
  await service.push(orgId, "metric 1");
  const { id } = await table.create(orgId, body("unreadable", { enabled: false }));
  await db.updateTable("rules").set({ for_duration: "soon", enabled: true }).where("id", "=", id).execute();
  const other = await table.create(orgId, body("other"));
  await vi.waitFor(async () => expect(await status(service, orgId, other.id)).toMatchObject({ state: "firing" }), SOON);
  expect(await status(service, orgId, id)).toEqual({ state: "inactive", active_alerts: 0, error: expect.stringMatching(/^for: must be/) });
  expect(await (await fetch(`${service.evaluator.url}/api/v1/rules`)).text()).not.toContain(id);
  const sets = await new RuleSets(table, { list: async () => [] }, 1000).read();
  expect(sets.get(orgId)?.rules.map((rule) => rule.name)).toEqual(["other"]);
});

describe("an external evaluator", () => {
  let service: AlertingApp;
  beforeAll(async () => void (service = await alertingApp({ external: true })));
  afterAll(async () => await service?.[Symbol.asyncDispose]());

  test("gets the rules from the listener, and a change immediately", async () => {
    const orgId = await service.makeOrg();
    await service.push(orgId, "metric 1");
    const { id } = (await service.call("POST", "/rules", `${orgId}:admin`, { name: "a", severity: "info", expr: "metric == 1" })).json();
    await vi.waitFor(async () => expect(await status(service, orgId, id)).toMatchObject({ state: "firing" }), SOON);
    const seen = await (await fetch(`${service.evaluator.url}/api/v1/rules`)).text();
    expect(seen).toContain(id);
    expect(seen).not.toContain(RULES_PASSWORD);
    await service.call("DELETE", `/rules/${id}`, `${orgId}:admin`);
    await vi.waitFor(async () => expect(await (await fetch(`${service.evaluator.url}/api/v1/rules`)).text()).not.toContain(id), SOON);
  });

  test("the rules listener accepts alerts with their own password only, because vmalert logs that of the rules", async () => {
    const url = `http://127.0.0.1:${service.rulesPort}`;
    const ask = async (path: string, password?: string, method = "GET"): Promise<number> => {
      const authorization = `Basic ${Buffer.from(`vmalert:${password}`).toString("base64")}`;
      return (await fetch(url + path, { method, headers: password === undefined ? {} : { authorization } })).status;
    };
    expect(await ask("/rules", RULES_PASSWORD)).toBe(200);
    expect(await ask("/rules")).toBe(401);
    expect(await ask("/rules", "wrong")).toBe(401);
    expect(await ask("/rules/", RULES_PASSWORD)).toBe(404);
    expect(await ask("/rules", RULES_PASSWORD, "POST")).toBe(404);
    expect(await ask("/metrics", RULES_PASSWORD)).toBe(404);
    expect(await ask("/api/v2/alerts", RULES_PASSWORD, "POST")).toBe(401);
    expect(await ask("/rules", ALERTS_PASSWORD)).toBe(401);
    expect(await ask("/api/v2/alerts", ALERTS_PASSWORD, "POST")).not.toBe(401);
  });
});

/** An evaluator elsewhere that fetches what is newest at that moment, and organisations whose rules change without any request. */
function standIn(editsOf: string) {
  const stored = new Map<string, number>();
  const loaded = new Map<string, number>();
  const setOf = (orgId: string, revision: number): RuleSet => ({
    orgId,
    revision,
    rules: [{ id: orgId, revision } as Rule],
    slos: [],
    text: orgId,
  });
  return {
    stored,
    loaded,
    reloads: 0,
    ruleSets: { read: async () => new Map([...stored].map(([orgId, revision]) => [orgId, setOf(orgId, revision)])) },
    evaluator: {
      groups: async ({ groups }: RuleFilter = {}) =>
        [...loaded]
          .filter(([name]) => groups?.includes(name))
          .map(([name, revision]) => ({ name, params: [`rule_set_revision=${revision}`], rules: [] })),
      async reload() {
        stored.set(editsOf, (stored.get(editsOf) ?? 0) + 1);
        for (const [orgId, revision] of stored) loaded.set(orgId, revision);
      },
      refusedLastReload: async () => false,
    },
    quarantine: { withhold: async () => undefined, tryNext: async () => false },
    log: createLog("silent"),
  };
}

test("an organisation whose rules change constantly delays no other organisation's change", async () => {
  const fake = standIn("busy");
  fake.stored.set("busy", 1);
  await using reconciler = new Reconciler(fake);
  using edits = new Repeated(() => {
    fake.stored.set("busy", (fake.stored.get("busy") ?? 0) + 1);
    reconciler.reconcileSoon();
  }, 10);
  for (let change = 1; change <= 5; change++) {
    fake.stored.set("quiet", change);
    reconciler.reconcileSoon();
    await vi.waitFor(() => expect(fake.loaded.get("quiet")).toBe(change), { timeout: 50_000, interval: 10 });
    expect(reconciler.isInSync).toBe(true);
  }
  expect(edits.times).toBeGreaterThan(5);
});

test("finds the change that fails a reload, even while its organisation keeps changing rules", async () => {
  const fake = standIn("none");
  const suspects = Promise.withResolvers<string[]>();
  await using reconciler = new Reconciler({
    ...fake,
    evaluator: { ...fake.evaluator, reload: async () => undefined, refusedLastReload: async () => true },
    quarantine: { tryNext: async () => false, withhold: async (sets) => suspects.resolve(sets.map(({ orgId }) => orgId)) },
  });
  fake.stored.set("other", 1);
  using _edits = new Repeated(() => {
    fake.stored.set("at fault", (fake.stored.get("at fault") ?? 0) + 1);
    reconciler.reconcileSoon();
  }, 50);
  expect((await suspects.promise).sort()).toEqual(["at fault", "other"]);
  await vi.waitFor(() => expect(reconciler.isInSync).toBe(false), SOON);
});

class Repeated implements Disposable {
  times = 0;
  readonly #timer: NodeJS.Timeout;
  constructor(work: () => void, everyMs: number) {
    this.#timer = setInterval(() => {
      this.times += 1;
      work();
    }, everyMs);
  }
  [Symbol.dispose](): void {
    clearInterval(this.#timer);
  }
}

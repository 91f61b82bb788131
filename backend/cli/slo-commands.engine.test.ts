// `atherops slos`, and objectives in `apply` and `export`, as administrators run them, against the real routes and tables over HTTP.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { accountsApp, makeOrg, type AccountsApp } from "../../test/fixtures/accounts-app.ts";
import { relationalEngines } from "../../test/fixtures/postgres.ts";
import { temporaryFolder } from "../../test/fixtures/processes.ts";
import { createRuleRoutes } from "../alerting/alert-rule-routes.ts";
import { type AlertingTables, RuleTable } from "../alerting/alert-rule-table.ts";
import { addRoutesToApi } from "../alerting/mount.ts";
import { RuleCheck } from "../alerting/rule-check.ts";
import { registerSloReports } from "../alerting/slo-report-routes.ts";
import { createSloRoutes } from "../alerting/slo-routes.ts";
import { SloTable } from "../alerting/slo-table.ts";
import { VmalertClient } from "../engines/vmalert/vmalert-client.ts";
import { ResponseBudget } from "../http/response-budget.ts";
import { type Ran, runClient } from "./run-client.fixture.ts";

const opened = new AsyncDisposableStack();
const folder = opened.use(temporaryFolder());
let backend: AccountsApp;
let url: string;
/** 10,000 calls, 7 of which failed in the last point of a window. */
const events = async () => [{ point: 83, good: 9993, total: 10_000, minutes: 1 }];

beforeAll(async () => {
  const engine = await relationalEngines[0]?.open();
  if (!engine) throw new Error("no engine");
  opened.defer(() => engine.end());
  const db = engine.database.tables<AlertingTables>();
  const evaluator = opened.use(new VmalertClient("http://127.0.0.1:1"));
  const metrics = {
    query: async () => ({ status: 200, body: Buffer.from('{"data":{"result":[]}}'), contentType: "application/json", pieces: [] }),
  };
  backend = opened.use(
    await accountsApp(engine.database, {
      clock: { ms: Date.now() },
      routes: (app, guards) => {
        const check = new RuleCheck({ metrics, dryRun: undefined, intervalMs: 15_000 });
        const responses = new ResponseBudget();
        const rules = { rules: new RuleTable(db), check, evaluator, metrics, responses, changed: () => undefined, intervalMs: 1000 };
        addRoutesToApi(app, guards, [
          ...createRuleRoutes(rules),
          ...createSloRoutes({ slos: new SloTable(db), check, changed: () => undefined }),
        ]);
        registerSloReports(app, { db, stores: { spans: { events }, metrics }, answers: responses, guards });
      },
    }),
  );
  url = await backend.app.listen({ host: "127.0.0.1", port: 0 });
  const org = await makeOrg(backend, "shop");
  expect((await atherops(`login --email ${org.email}`, org.password)).code).toBe(0);
});
afterAll(async () => await opened.disposeAsync());

async function atherops(args: string | readonly string[], input = ""): Promise<Ran> {
  return await runClient(args, { url, sessionFile: join(folder.path, "session.json"), input });
}

function fileOf(yaml: string): string {
  const file = join(folder.path, "slos.yaml");
  writeFileSync(file, yaml);
  return file;
}

const FILE = `slos:
  - name: checkout
    objective: 99.9
    window: 7d
    indicator: {availability: {service: checkout}}
rules:
  - {name: own, severity: info, expr: up == 0}
`;

test("apply creates an objective with its rules once, and changes only what differs", async () => {
  const file = fileOf(FILE);
  for (const done of ["created", "unchanged"]) {
    const { code, out } = await atherops(`apply -f ${file} --prune`);
    expect([code, ...out.split("\n").sort()]).toEqual([0, "", `rule own ${done}`, `slo checkout ${done}`]);
  }
  writeFileSync(file, FILE.replace("99.9", "99.5"));
  expect((await atherops(`apply -f ${file}`)).out).toContain("slo checkout changed\n  objective: 99.9 -> 99.5\n");
  writeFileSync(file, FILE);
  expect((await atherops(`apply -f ${file}`)).code).toBe(0);
});

test("export has the objective but not its rules; both forms are applied unchanged", async () => {
  const all = await atherops("export rules slos");
  expect(all.out).toContain("name: own");
  expect(all.out).not.toContain("burn rate");
  expect((await atherops("apply -f -", all.out)).out).toBe("rule own unchanged\nslo checkout unchanged\n");
  const openSlo = await atherops("slos export");
  expect(openSlo.out).toContain("apiVersion: openslo/v1");
  expect((await atherops("apply -f -", openSlo.out)).out).toBe("slo checkout unchanged\n");
});

test("the list and one objective show the budget, burn rates and history", async () => {
  const list = await atherops("slos");
  expect(list.out).toMatch(/^NAME {6}OBJECTIVE .*BUDGET_LEFT .*\ncheckout {2}99\.9 % /);
  const shown = await atherops("slos show checkout");
  expect(shown.out).toMatch(
    /^30 % of the error budget is left, 99\.9 % in 7d\n.*: 7 of 10000 events were bad, 10 are allowed\n {2}burn rate: /,
  );
  expect(shown.out).toMatch(/\nSTART +TOTAL +BAD +SLI +BUDGET_LEFT\n/);
  const { id, history } = JSON.parse((await atherops("slos show checkout --json")).out);
  expect(history).toHaveLength(84);
  expect((await atherops(["--link", "slos", "show", id])).err).toBe(`console: ${url}/#/slos/${id}\n`);
  expect((await atherops("slos show unknown")).err).toBe("atherops: slo unknown not found: `atherops slos` lists all\n");
});

test("generated rules are listed, and changed with the objective only", async () => {
  const rule = "SLO checkout: burn rate 14.4 over 1h";
  expect((await atherops("rules")).out).toContain(rule);
  for (const args of [
    ["rules", "remove", rule],
    ["rules", "disable", rule],
    ["rules", "update", rule, "--for", "5m"],
  ])
    expect(await atherops(args)).toMatchObject({ code: 1, err: expect.stringContaining("change or delete the objective") });
  expect((await atherops("slos remove checkout")).err).toBe("slo checkout removed\n");
  expect((await atherops("rules")).out).not.toContain("burn rate");
});

test("an invalid objective is refused by the name of its field", async () => {
  const refused = await atherops(`apply -f ${fileOf(FILE.replace("99.9", "'99.9'"))}`);
  expect(refused).toMatchObject({ code: 1, err: expect.stringContaining("slos[0].objective: must be a number") });
  const unknown = await atherops(`apply -f ${fileOf(FILE.replace("availability", "uptime"))}`);
  expect(unknown).toMatchObject({ code: 1, err: expect.stringMatching(/slo checkout: .*uptime/) });
});

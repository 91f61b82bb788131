// `atherops rules`, `apply` and `export` as administrators run them, against the real routes and tables over HTTP.
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { accountsApp, makeOrg, type AccountsApp, type Org } from "../../test/fixtures/accounts-app.ts";
import { relationalEngines, type OpenedEngine } from "../../test/fixtures/postgres.ts";
import { addRoutesToApi } from "../alerting/mount.ts";
import { createRuleRoutes } from "../alerting/alert-rule-routes.ts";
import { RuleCheck } from "../alerting/rule-check.ts";
import { type AlertingTables, RuleTable } from "../alerting/alert-rule-table.ts";
import { ResponseBudget } from "../http/response-budget.ts";
import { VmalertClient } from "../engines/vmalert/vmalert-client.ts";
import { type Ran, runClient } from "./run-client.fixture.ts";

const folder = mkdtempSync(join(tmpdir(), "atherops-rules-"));
let opened: OpenedEngine | undefined;
let backend: AccountsApp;
let org: Org;
let url: string;
/** No process listens there: an evaluator that is unavailable. */
const evaluator = new VmalertClient("http://127.0.0.1:1");
let changes = 0;

beforeAll(async () => {
  opened = await relationalEngines[0]?.open();
  if (!opened) throw new Error("no engine");
  const { database } = opened;
  const metrics = { query: async () => ({ status: 200, body: Buffer.from("{}"), contentType: "application/json", pieces: [] }) };
  backend = await accountsApp(database, {
    clock: { ms: Date.now() },
    routes: (app, guards) => {
      const rules = new RuleTable(database.tables<AlertingTables>());
      const check = new RuleCheck({ metrics, dryRun: undefined, intervalMs: 15_000 });
      const parts = { rules, check, evaluator, metrics, responses: new ResponseBudget(), changed: () => void changes++, intervalMs: 1000 };
      addRoutesToApi(app, guards, createRuleRoutes(parts));
    },
  });
  url = await backend.app.listen({ host: "127.0.0.1", port: 0 });
  org = await makeOrg(backend, "shop");
  expect((await atherops(`login --email ${org.email}`, org.password)).code).toBe(0);
});
beforeEach(() => void (changes = 0));
afterAll(async () => {
  await evaluator[Symbol.asyncDispose]();
  await backend?.[Symbol.asyncDispose]();
  await opened?.end();
  rmSync(folder, { recursive: true, force: true });
});

async function atherops(args: string | readonly string[], input = ""): Promise<Ran> {
  return await runClient(args, { url, sessionFile: join(folder, "session.json"), input });
}

function fileOf(yaml: string): string {
  const file = join(folder, "alerting.yaml");
  writeFileSync(file, yaml);
  return file;
}

test("creates, shows, changes, disables and removes a rule by name", async () => {
  const annotation = "summary={{ $value }} left";
  const made = await atherops(["rules", "create", "Low", "--expr", "free < 5", "--label", "team=shop", "--annotation", annotation]);
  expect([made.code, made.err]).toEqual([0, "rule Low created\n"]);
  expect(made.out).toMatch(/^[0-9a-f-]{36}\n$/);
  expect((await atherops("rules update Low --for 10m --label a=b --label team=")).err).toBe("rule Low changed\n");
  expect(await atherops("rules")).toMatchObject({ code: 0, err: expect.stringMatching(/^rule states are unavailable: /) });
  expect((await atherops(`rules disable ${made.out.trim()}`)).err).toBe("rule Low disabled\n");
  expect((await atherops("rules show Low")).out).toBe(`rules:
  - name: Low
    severity: warning
    expr: free < 5
    for: 10m
    enabled: false
    labels:
      a: b
    annotations:
      summary: "{{ $value }} left"
`);
  const { out } = await atherops("rules");
  expect(out).toMatch(/^NAME +SEVERITY +STATE +FOR +EXPR +ID\nLow +warning +disabled +10m +free < 5 +[0-9a-f-]{36}\n$/);
  expect((await atherops("rules remove Low")).err).toBe("rule Low removed\n");
  expect((await atherops("rules remove Low")).err).toContain("rule Low not found: `atherops rules` lists all");
});

test("validates an expression before it creates a rule", async () => {
  expect(await atherops(["rules", "check", "up == 0"])).toMatchObject({
    code: 0,
    out: "1\n",
    err: "valid; number of series that meet the condition now:\n",
  });
  expect(await atherops("rules check up")).toMatchObject({ code: 1, out: "", err: expect.stringMatching(/^atherops: expr: /) });
});

test("creates, shows, changes and exports a rule over log records, and converts it to one over metrics", async () => {
  await atherops("apply -f - --prune", "rules: []");
  const where = ["--where", "source=shop", "--where", "q=time out", "--where", 'q=a "b" = c', "--by", "source"];
  const made = await atherops(["rules", "create", "Errors", "--logs", ">20 in 5m", ...where, "--severity", "info"]);
  expect([made.code, made.err]).toEqual([0, "rule Errors created\n"]);
  expect((await atherops(["rules", "update", "Errors", "--logs", ">= 7 in 10m"])).err).toBe("rule Errors changed\n");
  const { out } = await atherops("rules show Errors");
  expect(out).toBe(`rules:
  - name: Errors
    severity: info
    logs:
      filter:
        source: shop
        q:
          - time out
          - a "b" = c
      by:
        - source
      window: 10m
      operator: ">="
      threshold: 7
    for: 0s
    enabled: true
    labels: {}
    annotations: {}
`);
  expect((await atherops("rules")).out).toContain('count_logs({source="shop", q="time out", q="a \\"b\\" = c"}[10m]) by (source) >= 7');
  expect((await atherops("apply -f - --prune", out)).out).toBe("rule Errors unchanged\n");
  const least = "rules: [{name: Errors, severity: info, logs: {window: 10m, operator: '>=', threshold: 8}}]";
  expect((await atherops("apply -f -", least)).out).toMatch(/^rule Errors changed\n {2}logs: .*"threshold":7.* -> .*"threshold":8/);
  expect((await atherops("apply -f -", least)).out).toBe("rule Errors unchanged\n");
  expect((await atherops(["rules", "update", "Errors", "--expr", "up == 0"])).err).toBe("rule Errors changed\n");
  expect((await atherops("rules show Errors")).out).toContain("\n    expr: up == 0\n");
  expect((await atherops(["rules", "check", "--logs", "> 1 in 5m"])).out).toBe("0\n");
  expect((await atherops("rules remove Errors")).code).toBe(0);
});

test("replaces filters and fields of a rule over log records, and removes them with an empty value", async () => {
  const shown = async (): Promise<string> => (await atherops("rules show Errors --json")).out;
  await atherops(["rules", "create", "Errors", "--logs", "> 20 in 5m", "--where", "source=shop", "--by", "source", "--by", "level"]);
  expect(await atherops(["rules", "update", "Errors", "--by", ""])).toMatchObject({ code: 0, err: "rule Errors changed\n" });
  expect(await shown()).toContain('"filter":{"source":"shop"},"by":[]');
  expect((await atherops(["rules", "update", "Errors", "--by", "level", "--where", ""])).code).toBe(0);
  expect(await shown()).toContain('"filter":{},"by":["level"]');
  const help = (await atherops("rules update --help")).out.replaceAll(/\s+/g, " ");
  for (const option of ["where", "by"]) expect(help).toContain(`--${option} ''`);
  await atherops("rules remove Errors");
});

test.each([
  [["rules", "create", "n", "--logs", "many"], "--logs many: write it as '> 20 in 5m'"],
  [["rules", "create", "n", "--logs", "> 1 in 5m", "--expr", "up == 0"], "--expr and --logs: a rule has one of them"],
  [["rules", "create", "n", "--logs", "> 1 in 5m", "--where", "shop"], "--where shop: write it as filter=value"],
  [["rules", "create", "n", "--logs", "> 1 in 5m", "--where", ""], "--where : write it as filter=value"],
  [["rules", "create", "n", "--logs", "> 1 in 5m", "--where", "sauce=shop"], "atherops: --where sauce: unknown field"],
  [["rules", "create", "n", "--logs", "> 1 in 5"], "atherops: --logs window: must be a duration"],
  [["rules", "create", "n", "--expr", "up == 0", "--for", "5"], "atherops: --for: must be a Prometheus duration"],
  [["rules", "create", "n", "--expr", "up == 0", "--annotation", "summary={{ x"], "atherops: --annotation summary: "],
  [["rules", "create", "", "--expr", "up == 0"], "atherops: <name>: must not be empty"],
  [["rules", "create", "n", "--expr", "up =="], "atherops: --expr: ends too early: a bracket or an operand is missing"],
  [["rules", "update", "n", "--for", "5"], "atherops: rule n not found", 1],
  [["rules", "check", "--where", "source=shop"], "--logs: is missing, but --where or --by is given"],
  [["rules", "update", "n"], "nothing to change: see `atherops rules update --help` for the options"],
  [["rules", "check"], "specify an expression, such as 'up == 0', or --logs"],
] as [string[], string, number?][])("rejects an invalid condition, by the names that were typed: %j", async (args, words, code = 2) => {
  const refused = await atherops(args);
  expect([refused.code, refused.err]).toEqual([code, expect.stringContaining(words)]);
});

test("apply makes the changes of files once and prints them; a dry run only prints them", async () => {
  const file = fileOf(`
rules:
  - {name: First, severity: critical, expr: up == 0, for: 5m}
  - {name: Second, severity: info, expr: up == 1}
`);
  const dry = await atherops(`apply -f ${file} --dry-run`);
  expect(dry.out).toBe("rule First would be created\nrule Second would be created\n");
  expect(dry.err).toBe("2 to create, 0 to change, 0 to remove, 0 unchanged; nothing was changed (--dry-run)\n");
  expect([(await atherops("rules --json")).out, changes]).toEqual(["[]\n", 0]);
  expect((await atherops(`apply -f ${file}`)).out).toBe("rule First created\nrule Second created\n");
  const again = await atherops(`apply -f ${file}`);
  expect([again.out, again.err, changes]).toEqual([
    "rule First unchanged\nrule Second unchanged\n",
    "0 created, 0 changed, 0 removed, 2 unchanged\n",
    2,
  ]);
  const changed = "rules: [{name: First, severity: warning, expr: up == 0, for: 300s}]";
  expect((await atherops("apply -f -", changed)).out).toBe("rule First changed\n  severity: critical -> warning\n");
  expect(
    (await atherops("apply -f - --prune --json", changed)).out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as unknown),
  ).toEqual([
    { kind: "rule", name: "First", action: "none" },
    { kind: "rule", name: "Second", action: "remove" },
  ]);
});

test("an exported file can be applied here and elsewhere", async () => {
  await atherops("apply -f - --prune", "rules: [{name: Kept, severity: info, expr: up == 0, annotations: {text: '{{ $value }}'}}]");
  const { out } = await atherops("export rules");
  const file = fileOf(out);
  expect((await atherops(`apply -f ${file} --prune`)).out).toBe("rule Kept unchanged\n");
  const other = await makeOrg(backend, "elsewhere");
  await atherops(`login --email ${other.email}`, other.password);
  expect((await atherops("rules --json")).out).toBe("[]\n");
  expect((await atherops(`apply -f ${file}`)).out).toBe("rule Kept created\n");
  expect((await atherops("export rules")).out).toBe(out);
  await atherops(`login --email ${org.email}`, org.password);
  expect((await atherops("export nothing")).err).toMatch(/^atherops: unknown section nothing: known sections are .*rules/);
});

test("changes nothing if one of many is rejected, and prints all rejections", async () => {
  await atherops("apply -f - --prune", "rules: []");
  const yaml = `rules:
  - {name: Good, severity: info, expr: up == 0}
  - {name: Bad, severity: info, expr: up}
  - {name: "Worse\\u001b[2J", severity: info, expr: up == 0}`;
  const refused = await atherops("apply -f -", yaml);
  expect(refused).toMatchObject({ code: 1, out: "" });
  const [first, ...lines] = refused.err.trim().split("\n");
  expect(first).toBe("atherops: nothing was changed, because the backend would reject:");
  expect(lines).toEqual([
    expect.stringMatching(/^ {2}rule Bad: expr: /),
    expect.stringMatching(/^ {2}rule Worse\\u001b\[2J: name: must not contain control characters/),
  ]);
  expect((await atherops("rules --json")).out).toBe("[]\n");
});

test("a viewer can see the plan, but not apply it", async () => {
  await atherops("users add viewer@shop.example", "a password of a viewer\n");
  await atherops("login --email viewer@shop.example", "a password of a viewer");
  const yaml = "rules: [{name: Mine, severity: info, expr: up == 0}]";
  expect((await atherops("apply -f - --dry-run", yaml)).out).toBe("rule Mine would be created\n");
  const refused = await atherops("apply -f -", yaml);
  expect([refused.code, refused.out, refused.err]).toEqual([1, "", expect.stringMatching(/^atherops: rule Mine: .*403 forbidden/)]);
});

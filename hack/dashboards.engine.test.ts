// The dashboards and rules of docs/ work: the engine accepts every expression, every metric in them is one that a real cluster's agents
// sent (docs/dashboards/metrics.txt, which the end-to-end tests compare with the cluster), and `atherops apply` can read the rules.
import { globSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { describe, expect, test } from "vitest";
import { stringify } from "yaml";
import { readSections, type Sections } from "../backend/cli/alerting-file.ts";
import { refusalOf } from "../backend/engines/victoria-metrics/expression-guard.ts";
import { refuseCostly } from "../backend/storage/metrics/query-cost.ts";
import { ruleKind } from "../backend/cli/rule-command.ts";
import { expressionsOfDocs, metricsOf } from "../test/fixtures/metrics-of-docs.ts";
import { ROOT, temporaryFolder } from "../test/fixtures/processes.ts";
import { toolPath } from "./fetch-tools.ts";

const ARRIVED = new Set(readFileSync(join(ROOT, "docs/dashboards/metrics.txt"), "utf8").split("\n"));
const ASKED = expressionsOfDocs();

interface Dashboard {
  uid: string;
  title: string;
  templating: { list: { name: string; type: string }[] };
  panels: { title: string; datasource: { uid: string }; gridPos: { x: number; y: number; w: number; h: number } }[];
}

const DASHBOARDS = globSync("docs/dashboards/*.json", { cwd: ROOT }).map(
  (file) => [file, JSON.parse(readFileSync(join(ROOT, file), "utf8")) as Dashboard] as const,
);

test("there are dashboards for nodes, namespaces, workloads and agents, and rules", () => {
  expect(DASHBOARDS.map(([, { uid }]) => uid).toSorted()).toEqual([
    "atherops-agents",
    "atherops-namespace",
    "atherops-node",
    "atherops-workload",
  ]);
  expect(ASKED.filter(({ where }) => where.startsWith("docs/rules")).length).toBeGreaterThan(12);
});

test.each(ASKED)("$where queries metrics that exist", ({ expr }) => {
  const metrics = metricsOf(expr);
  expect(metrics.length).toBeGreaterThan(0);
  expect(metrics.filter((name) => !ARRIVED.has(name))).toEqual([]);
});

test.each(ASKED)("the backend accepts $where", ({ expr }) => {
  const asked = expr.replaceAll(/\$\{?\w+\}?/g, "x");
  expect(refusalOf(asked)).toBeUndefined();
  // With the points of a chart of one hour.
  expect(() => refuseCostly(asked, { points: 240, stepMs: 15_000 })).not.toThrow();
});

test("the engine accepts every expression", async () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "rules.yaml");
  const rules = ASKED.map(({ expr }, i) => ({ record: `asked:${i}`, expr: expr.replaceAll(/\$\{?\w+\}?/g, "x") }));
  writeFileSync(file, stringify({ groups: [{ name: "asked", rules }] }));
  const run = await execa(await toolPath("vmalert"), ["-dryRun", `-rule=${file}`], { all: true, reject: false });
  expect(run.exitCode, run.all).toBe(0);
});

describe.each(DASHBOARDS)("%s", (_file, { templating, panels }) => {
  test("defines its data source and every variable that it uses", () => {
    const names = templating.list.map(({ name }) => name);
    expect(templating.list[0]).toMatchObject({ name: "datasource", type: "datasource" });
    const used = [...JSON.stringify(panels).matchAll(/\$\{?([a-z]+)\}?/g)].map(([, name]) => name ?? "");
    expect(used.filter((name) => !names.includes(name))).toEqual([]);
    expect(panels.every(({ datasource }) => datasource.uid === "${datasource}")).toBe(true);
  });

  test("no panel overlaps another", () => {
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, i) => `${x + (i % w)},${y + Math.floor(i / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
  });
});

test.each(globSync("docs/rules/*.yaml", { cwd: ROOT }))("`atherops apply` accepts %s", (file) => {
  const sections: Sections = new Map();
  readSections(file, readFileSync(join(ROOT, file), "utf8"), [ruleKind], sections);
  const rules = (sections.get(ruleKind.section) ?? []).map((fields, at) => {
    const thing = ruleKind.read(fields);
    fields.end();
    return ruleKind.nameOf(thing, at);
  });
  expect(new Set(rules).size).toBe(rules.length);
});

// The example alert rules work: vmalert accepts them, and every metric and label in them exists, so that each rule can fire.
import { globSync, readFileSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { execa } from "execa";
import { describe, expect, test } from "vitest";
import { parse } from "yaml";
import { toolPath } from "./fetch-tools.ts";
import { startTestEngine } from "../test/fixtures/metrics-engine.ts";
import { agentMetrics, backendMetrics, type OwnMetric } from "./reference-pages.ts";

const FOLDER = join(import.meta.dirname, "..", "charts");
const FILES = globSync("*/alerts.yaml", { cwd: FOLDER }).map((name) => join(FOLDER, name));

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly for?: string;
  readonly labels: Record<string, string>;
  readonly annotations: Record<string, string>;
}

const gauge = { type: "gauge", unit: "bytes", meaning: "of the collector" };
/** Metrics of the collector; agent/collector/supervision/supervisor.engine.test.ts and test/faults/agent-disk.test.ts read them. */
const QUEUE: OwnMetric[] = ["size", "capacity"].map((what) => ({
  ...gauge,
  name: `otelcol_exporter_queue_${what}`,
  labels: ["exporter"],
}));
const METRICS = new Map([...agentMetrics(), ...backendMetrics(), ...QUEUE].flatMap(seriesOf));
/** Labels that the scrape adds. */
const TARGET = ["job", "instance", "pod", "namespace", "node"];

/** Each series name of a metric, with its labels. */
function seriesOf({ name, type, labels }: OwnMetric): [string, readonly string[]][] {
  if (type !== "histogram") return [[name, labels]];
  return ["_bucket", "_sum", "_count"].map((end) => [`${name}${end}`, end === "_bucket" ? [...labels, "le"] : labels]);
}

const RULES = FILES.flatMap((file) =>
  (parse(readFileSync(file, "utf8")) as { groups: { rules: Rule[] }[] }).groups
    .flatMap(({ rules }) => rules)
    .map((rule) => [rule.alert, basename(dirname(file)), rule] as const),
);

test("vmalert accepts every file", async () => {
  expect(FILES.map((file) => basename(dirname(file))).sort()).toEqual(["backend", "cluster-agent"]);
  await execa(await toolPath("vmalert"), ["-dryRun", ...FILES.map((file) => `-rule=${file}`)], { all: true });
});

test("every alert has a unique name", () => {
  const names = RULES.map(([name]) => name);
  expect(names).toEqual([...new Set(names)]);
  expect(names.length).toBeGreaterThan(15);
});

describe.each(RULES)("the alert %s of the chart %s", (_name, _file, rule) => {
  const used = rule.expr.match(/\b(?:atherops|otelcol)_\w+/g) ?? [];

  test("queries existing metrics", () => {
    expect(used.length).toBeGreaterThan(0);
    expect(used.filter((name) => !METRICS.has(name))).toEqual([]);
  });

  test("uses labels that its metrics have", () => {
    const have = new Set([...used.flatMap((name) => METRICS.get(name) ?? []), ...TARGET]);
    const matched = [...rule.expr.matchAll(/[{,]\s*(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, label]) => label);
    const grouped = [...rule.expr.matchAll(/\b(?:by|without|on)\s*\(([^)]*)\)/g)].flatMap(([, list = ""]) => list.split(/,\s*/));
    const shown = [...JSON.stringify(rule.annotations).matchAll(/\$labels\.(\w+)/g)].map(([, label]) => label);
    expect([...matched, ...grouped, ...shown].filter((label) => !have.has(label ?? ""))).toEqual([]);
    // The aggregation must keep each label that is printed.
    const kept = grouped.length > 0 ? grouped : [...have];
    expect(shown.filter((label) => !kept.includes(label ?? ""))).toEqual([]);
  });

  test("has a summary and a severity", () => {
    expect(rule.annotations["summary"]).toMatch(/\w+ \w+/);
    expect(["critical", "warning", "info"]).toContain(rule.labels["severity"]);
  });
});

test("a host's old key fires no alert, because only the agents of clusters rotate keys", async () => {
  await using engine = await startTestEngine();
  const body = ['key_age_days{instance="host"} 400', 'key_age_days{instance="node"} 40', 'lease_held{instance="node"} 0']
    .map((line) => `atherops_agent_${line}\n`)
    .join("");
  await fetch(`${engine.writeUrl}/api/v1/import/prometheus?timestamp=${Date.now() - 60_000}`, { method: "POST", body });
  await engine.flush();
  const query = RULES.find(([name]) => name === "AgentKeyTooOld")?.[2].expr ?? "";
  const response = await fetch(`${engine.queryUrl}/api/v1/query?query=${encodeURIComponent(query)}`);
  const { data } = (await response.json()) as { data: { result: { metric: Record<string, string> }[] } };
  expect(data.result.map(({ metric }) => metric["instance"])).toEqual(["node"]);
});

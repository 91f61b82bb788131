// Series that a limited reader gets from the real engine, with queries that try to get more.
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestEngine, type TestEngine } from "../../../test/fixtures/metrics-engine.ts";
import type { LabelLimits } from "../../admission/limited-labels.ts";
import { type QueryEndpoint, VictoriaMetricsStore } from "./metric-store.ts";

const NOW = Math.floor(Date.now() / 1000);
const SHOP: LabelLimits = { "k8s.namespace.name": ["shop"] };
let engine: TestEngine;
let store: VictoriaMetricsStore;

beforeAll(async () => {
  engine = await startTestEngine();
  store = new VictoriaMetricsStore(engine);
  const lines = [
    'up{name="shop",k8s_namespace_name="shop"} 1',
    'up{name="web",k8s_namespace_name="web"} 1',
    'up{name="dots",k8s_namespace_name="a.b"} 1',
    'up{name="other",k8s_namespace_name="axb"} 1',
    'up{name="prefix",k8s_namespace_name="shop-2"} 1',
    'up{name="upper",k8s_namespace_name="SHOP"} 1',
    'up{name="empty",k8s_namespace_name=""} 1',
    'up{name="none"} 1',
    'up{name="spelled",namespace="shop"} 1',
    'up{name="live",deployment_environment_name="live"} 1',
    'up{name="older",deployment_environment="live"} 1',
    'up{name="moved",deployment_environment_name="test",deployment_environment="live"} 1',
    'secret_of_web{secret_label="web",k8s_namespace_name="web"} 7',
  ];
  const body = Buffer.from(lines.map((line) => `${line} ${NOW * 1000}\n`).join(""));
  await store.write({ orgId: "acme", hostId: "h", node: "n" }, body, NOW * 1000);
  await engine.flush();
});
afterAll(async () => {
  await store?.[Symbol.asyncDispose]();
  await engine?.[Symbol.asyncDispose]();
});

async function ask(labelLimits: LabelLimits | undefined, endpoint: QueryEndpoint, params: Record<string, string>, label?: string) {
  const answer = await store.query("acme", endpoint, new URLSearchParams(params), { labelLimits, ...(label !== undefined && { label }) });
  return JSON.parse(answer.body.toString("utf8")).data;
}

async function names(labelLimits: LabelLimits | undefined, query: string): Promise<string[]> {
  const { result } = await ask(labelLimits, "query", { query, time: String(NOW + 1) });
  return result.map(({ metric }: { metric: Record<string, string> }) => metric["name"] ?? "").sort();
}

test.each<[LabelLimits, string[]]>([
  [SHOP, ["shop"]],
  [{ "k8s.namespace.name": ["a.b"] }, ["dots"]],
  [{ "k8s.namespace.name": [".*", "shop|web", "(?i)shop", 'x"} or {name="web'] }, []],
  [{ "k8s.namespace.name": ["shop", "web"] }, ["shop", "web"]],
  [{ "deployment.environment.name": ["live"] }, ["live", "older"]],
  [{ "deployment.environment.name": ["live"], "k8s.namespace.name": ["shop"] }, []],
])("%j selects %j", async (limits, expected) => {
  expect(await names(limits, "up")).toEqual(expected);
  expect((await names(undefined, "up")).length).toBe(12);
  expect(await names(limits, "up")).toEqual(expected);
});

test.each([
  'up{k8s_namespace_name="web"}',
  'up{k8s_namespace_name!="shop"}',
  '{__name__="up",k8s_namespace_name="web" or name="web"}',
  'up{name="shop"} or up{name="web"}',
  'up and on() vector(1) or {k8s_namespace_name=~".*"}',
  'last_over_time({k8s_namespace_name=~"web|"}[1h:1m])',
  "topk(100, {__name__!=''})",
  'label_replace(up, "k8s_namespace_name", "shop", "name", ".*")',
  'WITH (other = up{name="web"}) other or up',
  'count_values("name", secret_of_web)',
  'union(up, {k8s_namespace_name="web"})',
])("%s shows nothing of another namespace", async (query) => {
  const params = { query, time: String(NOW + 1) };
  // MetricsQL's own forms of selectors are refused for everybody.
  const refused = (error: unknown): null => {
    expect(error).toMatchObject({ code: "invalid_parameter" });
    return null;
  };
  const found = JSON.stringify(await ask(SHOP, "query", params).catch(refused));
  expect(found).not.toMatch(/web|upper|prefix|none|spelled|"7"/);
});

test("absent and counts are those of the visible series", async () => {
  const value = async (query: string) => (await ask(SHOP, "query", { query, time: String(NOW + 1) })).result[0]?.value[1];
  expect([await value("count(up)"), await value("absent(secret_of_web)"), await value("count(secret_of_web) or vector(0)")]).toEqual([
    "1",
    "1",
    "0",
  ]);
});

test("ranges, series, labels and their values are those of the visible series", async () => {
  const times = { start: String(NOW - 60), end: String(NOW + 60) };
  const range = await ask(SHOP, "query_range", { query: "count({__name__!=''})", step: "60s", ...times });
  expect(new Set(range.result[0].values.map(([, value]: [number, string]) => value))).toEqual(new Set(["1"]));
  expect(await ask(SHOP, "series", { "match[]": '{k8s_namespace_name="web"}', ...times })).toEqual([]);
  expect(await ask(SHOP, "series", { "match[]": "{__name__!=''}", ...times })).toHaveLength(1);
  expect(await ask(SHOP, "labels", times)).not.toContain("secret_label");
  expect(await ask(undefined, "labels", times)).toContain("secret_label");
  expect(await ask(SHOP, "label_values", times, "__name__")).toEqual(["up"]);
  expect(await ask(SHOP, "label_values", { "match[]": "secret_of_web", ...times }, "k8s_namespace_name")).toEqual([]);
  expect(await ask(SHOP, "label_values", times, "k8s_namespace_name")).toEqual(["shop"]);
});

test("filters in the parameters of a caller are not passed on", async () => {
  const params = {
    query: "up",
    time: String(NOW + 1),
    "extra_filters[]": '{k8s_namespace_name="web"}',
    extra_label: "k8s_namespace_name=web",
  };
  const { result } = await ask(SHOP, "query", params);
  expect(result).toMatchObject([{ metric: { name: "shop" } }]);
});

import type { FastifyInstance } from "fastify";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startTestEngine, type TestEngine } from "../../../test/fixtures/metrics-engine.ts";
import { ApiError } from "../../errors.ts";
import { createLog } from "../../log.ts";
import type { Guards } from "../../http/request-identity.ts";
import { closeRoutes, createApp } from "../../http/app.ts";
import { ResponseBudget } from "../../http/response-budget.ts";
import { registerMetricsRoutes } from "./promql-routes.ts";
import { VictoriaMetricsStore } from "../../storage/metrics/metric-store.ts";

const BASE = "/query/prometheus/api/v1";
const NOW = Math.floor(Date.now() / 1000);
let engine: TestEngine;
let store: VictoriaMetricsStore;
let app: FastifyInstance;

const guards: Guards = {
  signed: () => async () => undefined,
  user: () => async () => undefined,
  reader: () => async (request) => {
    const orgId = request.headers["x-org"];
    if (typeof orgId !== "string") throw new ApiError("invalid_token", "log in");
    request.user = { userId: "u", orgId, email: "u@example.org", role: "viewer", labelLimits: undefined };
  },
};

beforeAll(async () => {
  engine = await startTestEngine();
  store = new VictoriaMetricsStore(engine);
  for (const org of ["mine", "theirs"]) {
    const lines = [`requests{path="/${org}",secret_of_${org}="${org}-value"} 1`, `only_${org} 2`, `requests{path="/shared"} 3`];
    await store.write(
      { orgId: org, hostId: `host-${org}`, node: `node-${org}` },
      Buffer.from(lines.map((line) => `${line} ${NOW * 1000}\n`).join("")),
      NOW,
    );
  }
  await engine.flush();
  app = await createApp({ log: createLog("silent") });
  registerMetricsRoutes(app, { store, spans: { exemplars: async () => Buffer.from("[]") }, answers: new ResponseBudget(), guards });
  await closeRoutes(app);
});
afterAll(async () => {
  await app.close();
  await store[Symbol.asyncDispose]();
  await engine[Symbol.asyncDispose]();
});

async function get(path: string, params: [string, string][] = [], headers: Record<string, string> = {}) {
  const query = new URLSearchParams(params).toString();
  return app.inject({ method: "GET", url: `${BASE}${path}?${query}`, headers: { "x-org": "mine", ...headers } });
}

async function post(path: string, params: [string, string][], query = "") {
  return app.inject({
    method: "POST",
    url: `${BASE}${path}${query}`,
    headers: { "x-org": "mine", "content-type": "application/x-www-form-urlencoded" },
    payload: new URLSearchParams(params).toString(),
  });
}

test("the five endpoints return what Prometheus does, for the tenant's own metrics", async () => {
  const instant = (await get("/query", [["query", "sum(requests)"]])).json();
  expect(instant).toMatchObject({ status: "success", data: { resultType: "vector", result: [{ value: [expect.any(Number), "4"] }] } });
  // 1+1 is the question of Grafana's health check.
  for (const [query, resultType, value] of [
    ["1+1", "scalar", "2"],
    ['"all"', "string", "all"],
    ["scalar(sum(requests)) * 2", "scalar", "8"],
  ] as const) {
    const params: [string, string][] = [
      ["query", query],
      ["time", String(NOW)],
    ];
    expect((await get("/query", params)).json().data).toEqual({ resultType, result: [NOW, value] });
    expect((await post("/query", params)).json().data).toEqual({ resultType, result: [NOW, value] });
  }
  const range: [string, string][] = [
    ["query", "requests"],
    ["start", String(NOW - 60)],
    ["end", String(NOW + 60)],
    ["step", "30"],
  ];
  expect((await get("/query_range", range)).json()).toMatchObject({ status: "success", data: { resultType: "matrix", result: [{}, {}] } });
  expect((await get("/series", [["match[]", "only_mine"]])).json().data).toEqual([
    { __name__: "only_mine", org_id: "mine", host_id: "host-mine", node: "node-mine" },
  ]);
  expect((await get("/labels")).json().data).toEqual(["__name__", "host_id", "node", "org_id", "path", "secret_of_mine"]);
  expect((await get("/label/__name__/values")).json().data).toEqual(["only_mine", "requests"]);
  expect((await get("/label/path/values", [["match[]", "requests"]])).json().data).toEqual(["/mine", "/shared"]);
});

test("the POST forms return the same, as Grafana sends them", async () => {
  const query: [string, string][] = [
    ["query", "sum by (path) (requests)"],
    ["time", String(NOW + 1)],
  ];
  expect((await post("/query", query)).json().data).toEqual((await get("/query", query)).json().data);
  const range: [string, string][] = [
    ["query", "requests"],
    ["start", String(NOW - 60)],
    ["end", String(NOW + 60)],
    ["step", "30s"],
  ];
  expect((await post("/query_range", range)).json().data).toEqual((await get("/query_range", range)).json().data);
  expect((await post("/series", [["match[]", "requests"]])).json().data).toHaveLength(2);
  expect((await post("/labels", [["match[]", "requests"]])).json().data).toContain("path");
});

describe("hostile callers", () => {
  const EXPRESSIONS = [
    '{__name__=~".+"}',
    '{__name__!=""}',
    '{org_id="theirs"}',
    '{org_id=~".*"}',
    '{org_id!="mine"}',
    'requests{org_id="theirs"} or requests',
    '{org_id="theirs" or org_id="mine"}',
    '{org_id="mine" or __name__=~".+"}',
    '{__name__=~".+", org_id="theirs" or org_id=~".+"}',
    'requests or on() {org_id="theirs"}',
    'label_replace({__name__=~".+"}, "org_id", "theirs", "", "")',
    'label_set({__name__=~".+"}, "org_id", "x")',
    'count({__name__=~".+"}) by (org_id, path, host_id)',
    'count_values("v", {__name__=~".+"})',
    'sort_desc(last_over_time({__name__=~".+"}[1d]))',
    'max_over_time(({__name__=~".+"})[1h:1m])',
    '{__name__=~".+"} offset -1m',
    "only_theirs",
    "absent(only_theirs)",
    'WITH (all = {org_id="theirs"}) all',
    'WITH (f(x) = {__name__=~".+", x}) f(org_id="theirs")',
    'union({org_id="theirs"}, {__name__=~".+"})',
    'label_join({__name__=~".+"}, "x", ",", "org_id", "path", "host_id")',
    'info({__name__=~".+"})',
    'requests * on(path) group_left(secret_of_theirs) {__name__=~".+"}',
    'topk(100, {"__name__"=~".+"})',
    '{"requests", "org_id"="theirs"}',
  ];
  const FOREIGN = /\/theirs|theirs-value|secret_of_theirs|host-theirs|node-theirs/;
  const EXTRA: [string, string][] = [
    ["extra_label", "org_id=theirs"],
    ["extra_filters", '{org_id="theirs"}'],
    ["extra_filters[]", '{org_id="theirs"}'],
    ["extra_filters[]", '{__name__=~".+"}'],
    ["Extra_Label", "org_id=theirs"],
    ["extra_label ", "org_id=theirs"],
  ];

  test("the secret series exist and are visible to their own tenant", async () => {
    const answer = await get("/series", [["match[]", '{__name__=~".+"}']], { "x-org": "theirs" });
    expect(JSON.stringify(answer.json().data)).toMatch(FOREIGN);
  });

  test.each(EXPRESSIONS)("%s returns nothing of another tenant, in any form", async (query) => {
    const range: [string, string][] = [
      ["query", query],
      ["start", String(NOW - 600)],
      ["end", String(NOW + 60)],
      ["step", "60"],
    ];
    for (const extra of [[], EXTRA]) {
      for (const answer of [
        await get("/query", [["query", query], ...extra]),
        await post("/query", [["query", query], ...extra], `?${new URLSearchParams(extra).toString()}`),
        await get("/query_range", [...range, ...extra]),
        await post("/query_range", [...range, ...extra]),
        await get("/series", [["match[]", query], ...extra]),
        await get("/labels", [["match[]", query], ...extra]),
        await get("/label/path/values", [["match[]", query], ...extra]),
        await get("/label/org_id/values", [["match[]", query], ...extra]),
      ]) {
        expect([200, 400, 422]).toContain(answer.statusCode);
        const { data } = answer.json();
        expect(JSON.stringify(data ?? null)).not.toMatch(FOREIGN);
      }
    }
  });

  test.each(['"s" + (a)', "- bool[5m]", '{""="c"} + 1', "max{} and 1"])("%s, which would crash the engine, is rejected", async (query) => {
    for (const [path, name] of [["/query", "query"] as const, ["/query_range", "query"] as const, ["/series", "match[]"] as const]) {
      const answer = await get(path, [
        ["match[]", "up"],
        [name, query],
        ["start", "1"],
        ["end", "2"],
        ["step", "1"],
      ]);
      expect([answer.statusCode, answer.json()]).toMatchObject([
        400,
        { status: "error", errorType: "bad_data", error: expect.stringContaining(`${name}: `) },
      ]);
    }
    expect((await get("/query", [["query", "1 + (1)"]])).statusCode).toBe(200);
  });

  test("an additional scope of the caller changes nothing, wherever it is", async () => {
    const plain = (await get("/series", [["match[]", "requests"]])).json().data;
    expect((await get("/series", [["match[]", "requests"], ...EXTRA])).json().data).toEqual(plain);
    expect((await post("/series", [["match[]", "requests"], ...EXTRA], "?extra_label=org_id=theirs")).json().data).toEqual(plain);
    const odd = await app.inject({
      method: "GET",
      url: `${BASE}/series?match[]=requests&extra%5Flabel=org_id%3Dtheirs;extra_label=org_id=theirs`,
      headers: { "x-org": "mine" },
    });
    expect(JSON.stringify(odd.json())).not.toMatch(FOREIGN);
  });

  test("no header of the caller reaches the engine's tenancy", async () => {
    const headers = { accountid: "7", projectid: "7", "x-forwarded-for": "1.2.3.4", "x-scope-orgid": "theirs", authorization: "Bearer x" };
    expect((await get("/label/__name__/values", [], headers)).json().data).toEqual(["only_mine", "requests"]);
  });

  test.each(["..", "%2e%2e", "a%2F..%2F..%2Fstatus%2Ftsdb", "__name__%2Fvalues%3Fx", "%00", ""])(
    "label name %j does not escape the scope",
    async (name) => {
      const answer = await app.inject({ method: "GET", url: `${BASE}/label/${name}/values`, headers: { "x-org": "mine" } });
      expect([200, 400, 404]).toContain(answer.statusCode);
      expect(answer.body).not.toMatch(FOREIGN);
    },
  );

  test.each(["/status/tsdb", "/export", "/series/count", "/status/active_queries", "/admin/tsdb/delete_series", "/import", "/rules"])(
    "%s, which the engine does not scope or a tenant does not need, is not available",
    async (path) => {
      expect((await get(path)).statusCode).toBe(404);
      expect((await post(path, [])).statusCode).toBe(404);
    },
  );
});

test("Grafana's other requests are answered without the engine, which would return all tenants", async () => {
  const form: [string, string][] = [["query", "up"]];
  for (const [answer, data] of [
    [await get("/status/buildinfo"), { version: "2.24.0" }],
    [await get("/status/config"), { yaml: "" }],
    [await get("/status/flags"), {}],
    [await get("/status/runtimeinfo"), { reloadConfigSuccess: true, corruptionCount: 0 }],
    [await get("/targets", [["state", "active"]]), { activeTargets: [], droppedTargets: [], droppedTargetCounts: {} }],
    [await get("/targets/metadata", [["limit", "100"]]), []],
    [await get("/query_exemplars", form), []],
    [await post("/query_exemplars", form), []],
  ] as const) {
    expect([answer.statusCode, answer.json()]).toEqual([200, { status: "success", data }]);
    expect(answer.headers["content-type"]).toMatch(/^application\/json/);
  }
  // prometheus-api-client checks the connection at the base address.
  const root = { method: "GET", url: "/query/prometheus/" } as const;
  expect((await app.inject({ ...root, headers: { "x-org": "mine" } })).json()).toEqual({ status: "success", data: {} });
});

test("returns metadata of the tenant's own metrics by name, up to the limit", async () => {
  const unknown = [{ type: "unknown", help: "", unit: "" }];
  const data = async (params: [string, string][] = []) => (await get("/metadata", params)).json();
  expect(await data()).toEqual({ status: "success", data: { only_mine: unknown, requests: unknown } });
  expect(await data([["limit", "-1"]])).toEqual(await data());
  expect((await data([["limit", "1"]])).data).toEqual({ only_mine: unknown });
  expect((await data([["metric", "requests"]])).data).toEqual({ requests: unknown });
  expect((await data([["metric", "only_theirs"]])).data).toEqual({});
  expect((await data([["metric", 'x"} or {__name__=~".+']])).data ?? {}).toEqual({});
  const histogram = ["latency_seconds_bucket", "latency_seconds_sum", "latency_seconds_count"].map((name) => `${name} 1 ${NOW * 1000}\n`);
  await store.write({ orgId: "other", hostId: "h", node: "n" }, Buffer.from(histogram.join("")), NOW);
  await engine.flush();
  const ofOther = await get("/metadata", [["metric", "latency_seconds"]], { "x-org": "other" });
  expect(ofOther.json().data).toEqual({ latency_seconds: [{ type: "histogram", help: "", unit: "seconds" }] });
});

test("reports an invalid parameter of metadata in Prometheus' format", async () => {
  for (const params of [
    ["limit", "x"],
    ["metric", "a".repeat(257)],
    ["metric", "\u0000"],
  ] as [string, string][]) {
    const answer = await get("/metadata", [params]);
    expect([answer.statusCode, answer.json()]).toMatchObject([400, { status: "error", errorType: "bad_data" }]);
  }
});

test("limits metadata of too many names with a warning", async () => {
  const answerOf = async (names: readonly string[]) => {
    const body = Buffer.from(JSON.stringify({ status: "success", data: names }));
    const few = { query: async () => ({ status: 200, pieces: [body], body }) };
    const limited = await createApp({ log: createLog("silent") });
    registerMetricsRoutes(limited, { store: few as never, spans: {} as never, answers: new ResponseBudget(), guards });
    await closeRoutes(limited);
    const answer = await limited.inject({ method: "GET", url: `${BASE}/metadata`, headers: { "x-org": "mine" } });
    await limited.close();
    return answer.json();
  };
  const many = await answerOf(Array.from({ length: 10_000 }, (_, index) => `metric_${index}`));
  expect([Object.keys(many.data).length, many.warnings]).toEqual([
    10_000,
    ["only 10000 names of metrics were read: request one with the parameter `metric`"],
  ]);
  const long = await answerOf(Array.from({ length: 300 }, (_, index) => `${"x".repeat(4000)}${index}`));
  expect([long.status, long.data, long.warnings]).toEqual(["success", {}, [expect.stringContaining("too long together")]]);
});

test("errors have Prometheus' format without the engine's prefix, so that clients show the message", async () => {
  const syntax = await get("/query", [["query", "sum("]]);
  expect([syntax.statusCode, syntax.json()]).toEqual([
    400,
    { status: "error", errorType: "bad_data", error: expect.stringMatching(/^(?!error when executing).*unexpected token/) },
  ]);
  const execution = await get("/query_range", [
    ["query", "round(requests, 1, 2)"],
    ["start", String(NOW - 60)],
    ["end", String(NOW)],
    ["step", "30s"],
  ]);
  expect([execution.statusCode, execution.json()]).toEqual([
    422,
    { status: "error", errorType: "execution", error: expect.not.stringContaining("error when executing query=") },
  ]);
});

test.each<[path: string, params: string, problem: string]>([
  ["/query", "", "query: is missing"],
  ["/query", "query=up&time=NaN", "time: must be"],
  ["/query_range", "query=up&start=1&end=2", "step: is missing"],
  ["/query_range", "query=up&start=1&end=2&step=", "step: is missing"],
  ["/query_range", "query=up&start=1&step=1", "end: is missing"],
  ["/query_range", "query=up&end=2&step=1", "start: is missing"],
  ["/query_range", "query=up&start=2&end=1&step=1", "end: must not be before start"],
  ["/query_range", "query=up&start=1&end=2&step=-1", "step: must be"],
  ["/query_range", "query=up&start=1&end=2&step=0", "step: must be"],
  ["/query_range", "query=up&start=1&end=2&step=NaN", "step: must be"],
  ["/query_range", "query=up&start=1&end=Inf&step=1", "end: must be"],
  ["/query_range", "query=up&step=0&step=1&start=1&end=2", "step: must be"],
  ["/series", "", "match[]: is missing"],
  ["/labels", "limit=-1", "limit: must be"],
  ["/labels", "limit=ten", "limit: must be"],
  ["/labels", "limit=1.5", "limit: must be"],
  ["/labels", "limit=NaN", "limit: must be"],
  ["/labels", "start=yesterday", "start: must be"],
  ["/label/path/values", "limit=-1", "limit: must be"],
  ["/label/path/values", "start=2&end=1", "end: must not be before start"],
  ["/query_exemplars", "", "query: is missing"],
])("refuses %s?%s as Prometheus does", async (path, params, problem) => {
  const answers = [await get(path, [...new URLSearchParams(params)])];
  if (!path.startsWith("/label/")) answers.push(await post(path, [...new URLSearchParams(params)]));
  for (const answer of answers) {
    expect([answer.statusCode, answer.json()]).toEqual([
      400,
      { status: "error", errorType: "bad_data", error: expect.stringContaining(problem) },
    ]);
  }
});

test("returns raw samples as application/json, like Prometheus", async () => {
  const answer = await get("/query", [["query", "requests[1h]"]]);
  expect([answer.statusCode, answer.headers["content-type"]]).toEqual([200, expect.stringMatching(/^application\/json/)]);
});

test("accepts an expression of 64 KiB in a form, and rejects a longer one with the limit", async () => {
  const pods = (bytes: number) => Array.from({ length: bytes / 32 }, (_, n) => `shop-checkout-5d4f6b7c88-x${String(n).padStart(5, "0")}`);
  const among = (bytes: number) => `requests{pod!~"${pods(bytes).join("|")}"}`;
  for (const [path, name] of [
    ["/query", "query"],
    ["/query_range", "query"],
    ["/series", "match[]"],
  ] as const) {
    const times: [string, string][] = [
      ["start", String(NOW - 60)],
      ["end", String(NOW)],
      ["step", "15"],
    ];
    const answer = await post(path, [[name, among(64_000)], ...times]);
    expect([answer.statusCode, answer.json().status], answer.body).toEqual([200, "success"]);
    expect(answer.body).toContain("mine-value");
    const longer = await post(path, [[name, among(65_600)], ...times]);
    expect([longer.statusCode, longer.body]).toEqual([400, expect.stringMatching(/65536 bytes|64 KiB/)]);
  }
});

test("caps a timeout, and rejects one that is no duration", async () => {
  for (const timeout of ["10s", "10", "1h", "500ms", "0.5s", "1m30s", "1e-9"]) {
    expect(
      (
        await get("/query", [
          ["query", "up"],
          ["timeout", timeout],
        ])
      ).statusCode,
    ).toBe(200);
  }
  const answer = await get("/query", [
    ["query", "up"],
    ["timeout", "soon"],
  ]);
  expect([answer.statusCode, answer.json()]).toMatchObject([400, { status: "error", errorType: "bad_data" }]);
});

test("returns 502 with Retry-After if the engine is unreachable", async () => {
  await using away = new VictoriaMetricsStore({ writeUrl: "http://127.0.0.1:1", queryUrl: "http://127.0.0.1:1" });
  const other = await createApp({ log: createLog("silent") });
  registerMetricsRoutes(other, { store: away, spans: {} as never, answers: new ResponseBudget(), guards });
  const answer = await other.inject({ method: "GET", url: `${BASE}/query?query=up`, headers: { "x-org": "mine" } });
  expect([answer.statusCode, answer.json().error, answer.headers["retry-after"]]).toEqual([502, "storage_unavailable", "2"]);
  await expect(away.check()).rejects.toThrow("ECONNREFUSED");
  await other.close();
});

// Every request of Grafana's Loki data source, with the response shapes that its source code reads, and a read token as the password of
// Basic auth. Two organisations send records with the same names; neither sees the other's.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { LOKI, type LokiApp, type LokiOrg, openLokiApp } from "../../../test/fixtures/loki-app.ts";
import { logRecord, nanosecondsOf, stringAttribute } from "../../ingest/otlp/otlp-body.fixture.ts";

const SECOND = 1_000_000_000n;
const nowNs = nanosecondsOf(new Date(Math.floor(Date.now() / 60_000) * 60_000)) - 600n * SECOND;
const at = (seconds: number): bigint => nowNs + BigInt(seconds) * SECOND;
const RANGE = { start: String(at(-60)), end: String(at(300)) };
const record = (seconds: number, message: string, severityText = "INFO", attributes: Record<string, string> = {}): object =>
  logRecord(at(seconds), message, {
    severityText,
    attributes: Object.entries(attributes).map(([key, value]) => stringAttribute(key, value)),
  });

let app: LokiApp;
/** Simulates that a shard is unavailable. */
let isPartial = false;
let red: LokiOrg;
let blue: LokiOrg;

beforeAll(async () => {
  app = await openLokiApp({}, undefined, {
    clickhouse: {
      read: (orgId, options, work) => {
        if (isPartial) options.onPartial?.();
        return app.clickhouse.read(orgId, options, work);
      },
    },
  });
  [red, blue] = [await app.org(), await app.org()];
  const pod = [stringAttribute("k8s.pod.name", "shop-1"), stringAttribute("k8s.namespace.name", "store")];
  await red.send(
    [
      record(0, "GET /pay took=120ms status=200", "INFO", { "http.route": "/pay" }),
      record(10, 'GET /pay took=2s status=500 err="card refused"', "ERROR", { "http.route": "/pay" }),
      record(20, '{"path":"/list","status":200,"user":{"id":"u1"}}', "INFO"),
      record(30, "debug: nothing", "DEBUG"),
    ],
    "shop",
    pod,
  );
  await red.send([record(15, "backup done")], "nightly");
  await blue.send([record(5, "of blue status=500", "ERROR", { "http.route": "/blue" })], "shop", [stringAttribute("cloud.region", "eu")]);
});
afterAll(() => app?.[Symbol.asyncDispose]());

interface Stream {
  stream: Record<string, string>;
  values: [string, string, { structuredMetadata?: Record<string, string>; parsed?: Record<string, string> }?][];
}

async function ask(org: LokiOrg, path: string, params: Record<string, string> = {}, headers: Record<string, string> = {}) {
  const answer = await org.get(path, params, headers);
  expect([answer.statusCode, answer.headers["content-type"]], answer.body).toEqual([200, expect.stringMatching(/^application\/json/)]);
  const { status, data } = answer.json();
  expect(status).toBe("success");
  return data;
}
const logs = async (org: LokiOrg, query: string, params: Record<string, string> = {}): Promise<Stream[]> => {
  const data = await ask(org, "query_range", { query, ...RANGE, ...params });
  expect(data).toMatchObject({ resultType: "streams", stats: expect.any(Object) });
  return data.result as Stream[];
};
/** Newest first. */
const lines = async (org: LokiOrg, query: string, params: Record<string, string> = {}): Promise<string[]> =>
  (await logs(org, query, params))
    .flatMap(({ values }) => values)
    .sort(([one], [other]) => (BigInt(one) < BigInt(other) ? 1 : -1))
    .map(([, line]) => line);

describe("Grafana's Loki data source", () => {
  it("is healthy: vector(1)+vector(1) is a vector of two", async () => {
    const data = await ask(red, "query", { query: "vector(1)+vector(1)", time: "4000000000", limit: "1", direction: "backward" });
    expect(data).toEqual({ resultType: "vector", result: [{ metric: {}, value: [4_000_000_000, "2"] }], stats: {} });
  });

  it("gets for a form what the same parameters in the URL return", async () => {
    for (const [path, parameters] of [
      ["query_range", { query: 'sum by (level) (count_over_time({service_name="shop"}[1m]))', ...RANGE, step: "60" }],
      ["series", { "match[]": '{service_name=~".+"}', ...RANGE }],
      ["label/service_name/values", RANGE],
    ] as const) {
      const { data } = (await red.post(path, parameters)).json();
      expect(data).toEqual(await ask(red, path, parameters));
      expect(data).not.toEqual((await blue.post(path, parameters)).json().data);
    }
    const twice = await red.post("query_range?query=%7Ba%3D%22b%22%7D", { query: "{a=`c`}" });
    expect(twice.json()).toMatchObject({ message: "query: is given more than once" });
  });

  it("finds one pod among 1,800 that a query names, in the URL and in a form", async () => {
    const pods = Array.from({ length: 1800 }, (_, n) => `shop-checkout-5d4f6b7c88-x${n}`);
    const matcher = `{k8s_pod_name=~"${[...pods, "shop-1"].join("|")}"}`;
    for (const [path, query, found] of [
      ["query_range", matcher, 4],
      ["query_range", `${matcher} | json | status = 200`, 1],
      ["query_range", `sum(count_over_time(${matcher}[5m]))`, 1],
    ] as const) {
      const parameters = { query, ...RANGE };
      const { result } = await ask(red, path, parameters);
      expect((result as { values: unknown[] }[]).flatMap(({ values }) => values).length).toBeGreaterThanOrEqual(found);
      expect((await red.post(path, parameters)).json().data).toEqual(await ask(red, path, parameters));
    }
    expect((await red.post("query_range", { query: `{a="${"b".repeat(65_536)}"}`, ...RANGE })).json().message).toContain(
      "65536 characters",
    );
  });

  it("lists labels, values and series of its own organisation", async () => {
    expect(await ask(red, "labels", RANGE)).toEqual(["host_id", "k8s_namespace_name", "k8s_pod_name", "level", "node", "service_name"]);
    expect(await ask(blue, "labels", RANGE)).toEqual(["cloud_region", "host_id", "level", "node", "service_name"]);
    expect(await ask(await app.org(), "labels", RANGE)).toEqual([]);
    expect(await ask(red, "labels", { ...RANGE, query: '{service_name="nightly"}' })).toEqual(["host_id", "level", "node", "service_name"]);
    expect(await ask(red, "label/service_name/values", RANGE)).toEqual(["nightly", "shop"]);
    expect(await ask(red, "label/level/values", { ...RANGE, query: '{service_name="shop"}' })).toEqual(["debug", "error", "info"]);
    expect(await ask(red, "label/k8s_pod_name/values", RANGE)).toEqual(["shop-1"]);
    expect(await ask(red, "label/http_route/values", RANGE)).toEqual(["/pay"]);
    expect(await ask(blue, "label/http_route/values", RANGE)).toEqual(["/blue"]);
    expect(await ask(red, "label/missing/values", RANGE)).toEqual([]);
    const own = { host_id: `host-of-${red.orgId}`, node: `node-of-host-of-${red.orgId}` };
    expect(await ask(red, "series", { ...RANGE, "match[]": '{service_name="nightly"}' })).toEqual([
      { ...own, service_name: "nightly", level: "info" },
    ]);
    expect(await ask(blue, "series", { ...RANGE, "match[]": '{cloud_region=~".+"}' })).toMatchObject([{ cloud_region: "eu" }]);
  });

  it("reads streams of entries, with categories on request", async () => {
    const flags = { "x-loki-response-encoding-flags": "categorize-labels" };
    const query = '{service_name="shop", level="error"} | logfmt';
    const stream = { service_name: "shop", level: "error", host_id: `host-of-${red.orgId}`, node: expect.any(String) };
    const ofPod = { k8s_pod_name: "shop-1", k8s_namespace_name: "store" };
    const line = 'GET /pay took=2s status=500 err="card refused"';
    const parsed = { took: "2s", status: "500", err: "card refused" };
    const metadata = { detected_level: "error", http_route: "/pay" };
    expect(await ask(red, "query_range", { query, ...RANGE }, flags)).toEqual({
      resultType: "streams",
      encodingFlags: ["categorize-labels"],
      result: [{ stream: { ...stream, ...ofPod }, values: [[String(at(10)), line, { structuredMetadata: metadata, parsed }]] }],
      stats: {},
    });
    expect(await logs(red, query)).toEqual([{ stream: { ...stream, ...ofPod, ...metadata, ...parsed }, values: [[String(at(10)), line]] }]);
  });

  it("reads entries newest or oldest first, up to the limit, from the start up to but without the end", async () => {
    const all = [
      "debug: nothing",
      '{"path":"/list","status":200,"user":{"id":"u1"}}',
      "backup done",
      'GET /pay took=2s status=500 err="card refused"',
      "GET /pay took=120ms status=200",
    ];
    const any = '{service_name=~".+"}';
    expect(await lines(red, any)).toEqual(all);
    expect(await lines(red, any, { limit: "2" })).toEqual(all.slice(0, 2));
    expect(await lines(red, any, { limit: "2", direction: "forward" })).toEqual(all.slice(3));
    expect(await lines(red, any, { start: String(at(10)), end: String(at(20)) })).toEqual(all.slice(2, 4));
    expect(await lines(red, `${any} |~ "took"`, { limit: "1" })).toEqual(all.slice(3, 4));
    expect(await lines(blue, any)).toEqual(["of blue status=500"]);
  });

  it.each([
    ['{service_name="shop"} |= "GET" != "500"', ["GET /pay took=120ms status=200"]],
    ['{service_name="shop"} |= "card" or "debug"', ["debug: nothing", 'GET /pay took=2s status=500 err="card refused"']],
    ['{service_name="shop"} |~ "status=5.."', ['GET /pay took=2s status=500 err="card refused"']],
    ['{service_name="shop"} !~ "GET|u1"', ["debug: nothing"]],
    ['{service_name="shop"} |> "GET <_> took=2s<_>"', ['GET /pay took=2s status=500 err="card refused"']],
    ['{http_route="/pay", level=~"err.*"}', ['GET /pay took=2s status=500 err="card refused"']],
    ['{service_name="shop"} | http_route="/pay" | detected_level="info"', ["GET /pay took=120ms status=200"]],
    ['{service_name="shop"} | logfmt | took > 1s', ['GET /pay took=2s status=500 err="card refused"']],
    ['{service_name="shop"} | json | __error__="" | user_id="u1" | line_format "{{.path}} {{.status}}"', ["/list 200"]],
    ['{service_name="shop"} | json p="path" | p="/list" | line_format `{{.p | trimPrefix "/" | upper}}`', ["LIST"]],
    ['{service_name=~"night.*"} | label_format x=service_name | line_format "{{.x}}{{.service_name}}"', ["nightly"]],
    [`{service_name="' OR 1=1 --"}`, []],
    ['{service_name="shop"} | json | level="error"', ['GET /pay took=2s status=500 err="card refused"']],
  ])("supports %s", async (query, found) => {
    expect(await lines(red, query)).toEqual(found);
  });

  it("draws the histogram of Explore, with any parser", async () => {
    const histogram = async (stages: string) => {
      const query = `sum by (level, detected_level) (count_over_time({service_name="shop"} ${stages}| drop __error__ [60s]))`;
      const data = await ask(red, "query_range", { query, start: String(at(0)), end: String(at(120)), step: "60000ms" });
      expect(data.resultType).toBe("matrix");
      return data.result;
    };
    const series = (level: string, values: [number, string][]) => ({ metric: { level, detected_level: level }, values });
    const second = (seconds: number): number => Number(at(seconds) / SECOND);
    const expected = [
      series("debug", [[second(60), "1"]]),
      series("error", [[second(60), "1"]]),
      series("info", [
        [second(0), "1"],
        [second(60), "1"],
      ]),
    ];
    expect(await histogram("")).toEqual(expected);
    expect(await histogram("| json ")).toEqual(expected);
    expect(await histogram("| logfmt ")).toEqual(expected);
  });

  it("estimates volume, and lists fields and labels before the first query", async () => {
    const json = async (org: LokiOrg, path: string, params: Record<string, string> = {}) =>
      (await org.get(path, { ...RANGE, ...params })).json();
    expect(await json(red, "index/stats", { query: '{service_name="shop"}' })).toMatchObject({ entries: 4, chunks: 0, bytes: 138 });
    expect(await json(blue, "index/stats", { query: '{service_name="shop"}' })).toMatchObject({ entries: 1, bytes: 18 });
    const volume = { query: '{service_name=~".+"}', targetLabels: "service_name", limit: "5" };
    expect((await json(red, "index/volume", volume)).data.result).toEqual([
      { metric: { service_name: "shop" }, value: [expect.any(Number), "138"] },
      { metric: { service_name: "nightly" }, value: [expect.any(Number), "11"] },
    ]);
    expect(
      (await json(red, "index/volume", { query: '{service_name="shop"}', targetLabels: "level,node", aggregateBy: "labels" })).data.result,
    ).toEqual([
      { metric: { level: "" }, value: [expect.any(Number), "138"] },
      { metric: { node: "" }, value: [expect.any(Number), "138"] },
    ]);
    const inSteps = { ...volume, start: String(at(0)), end: String(at(60)), step: "20" };
    const { resultType, result } = (await json(red, "index/volume_range", inSteps)).data;
    const seconds = (after: number): number => Number(at(after) / 1_000_000n) / 1000;
    expect([resultType, result[0]]).toEqual([
      "matrix",
      {
        metric: { service_name: "shop" },
        values: [
          [seconds(20), "76"],
          [seconds(40), "62"],
        ],
      },
    ]);
    expect((await json(red, "detected_labels")).detectedLabels).toContainEqual({ label: "level", cardinality: 3 });
    const { fields } = await json(red, "detected_fields", { query: '{service_name="shop"}' });
    expect(fields).toEqual(
      expect.arrayContaining([
        { label: "http_route", type: "string", cardinality: 1, parsers: null },
        { label: "took", type: "duration", cardinality: 2, parsers: ["logfmt"] },
        { label: "status", type: "int", cardinality: 2, parsers: expect.arrayContaining(["json", "logfmt"]) },
        { label: "user_id", type: "string", cardinality: 1, parsers: ["json"] },
      ]),
    );
    const values = await json(red, "detected_field/status/values", { query: '{service_name="shop"}' });
    expect(values.values.sort()).toEqual(["200", "500"]);
    expect((await json(blue, "detected_field/http_route/values", { query: '{service_name="shop"}' })).values).toEqual(["/blue"]);
    const { data } = await json(red, "patterns", { query: '{service_name="shop"} != "{"', step: "3600" });
    expect(data).toContainEqual({ pattern: expect.stringContaining("status=<_>"), samples: [[expect.any(Number), expect.any(Number)]] });
    const parsed = await app.backend.call("GET", `${LOKI}/patterns?query=${encodeURIComponent('{service_name="shop"} | json')}`, {
      headers: { authorization: red.authorization },
    });
    expect([parsed.statusCode, parsed.json().message]).toEqual([400, expect.stringContaining("the stage json is not supported")]);
  });

  it("counts lines after a filter, in SQL and in JavaScript", async () => {
    const counted = async (query: string) => (await ask(red, "query", { query, time: String(at(60)) })).result;
    const ofShop = { service_name: "shop", level: "error" };
    const stage = '{service_name="shop"} |= "status=500"';
    expect(await counted(`sum by (service_name, level) (count_over_time(${stage} [5m]))`)).toMatchObject([
      { metric: ofShop, value: [expect.any(Number), "1"] },
    ]);
    const [series] = await counted(`sum without (host_id) (count_over_time(${stage} [5m]))`);
    expect(series).toEqual({
      metric: {
        ...ofShop,
        detected_level: "error",
        http_route: "/pay",
        k8s_namespace_name: "store",
        k8s_pod_name: "shop-1",
        node: expect.any(String),
      },
      value: [expect.any(Number), "1"],
    });
  });

  it.each([
    ["query_range?query=%7Ba%3D%22b%22%7D%20%7C%3D%20ip(%221.1.1.1%22)", "ip() is not supported"],
    ["query_range?query=%7B", "parse error"],
    ["query_range", "query: a LogQL query is required"],
    ["query_range?query=1&step=0", "step"],
    ["query_range?query=1&start=0&end=4000000000&step=1", "exceeded maximum resolution"],
    ["query_range?query=1&start=yesterday", "start"],
    ["query_range?query=1&start=2026-02-30T00:00:00Z", "start"],
    ["query_range?query=1&start=5&end=4", "end"],
    ["query_range?query=%7Ba%3D%22b%22%7D&limit=5001", "max entries limit"],
    ["query_range?query=%7Ba%3D%22b%22%7D&direction=up", "direction"],
    ["query?query=%7Ba%3D%22b%22%7D", "log queries are not supported as an instant query type"],
    ["query?query=1&query=2", "query: is given more than once"],
    ["labels?query=%7Ba%3D%22b%22%7D%7C%3D%22x%22", "and no more"],
    ["detected_fields?query=1", "a log query"],
    ["index/volume?aggregateBy=all", "aggregateBy"],
    ["index/volume_range?aggregateBy=labels", "aggregateBy"],
    ["index/volume_range?start=0&end=10000&step=1&limit=5000", "exceed 200000 points"],
    ["tail?query=%7Ba%3D%22b%22%7D", "tail is a WebSocket"],
    ["label/a-b/values", "name"],
    ["series?match%5B%5D=rate(%7Ba%3D%22b%22%7D%5B1m%5D)", "match[]"],
  ])("gets %s rejected by name", async (path, message) => {
    const answer = await app.backend.call("GET", `${LOKI}/${path}`, { headers: { authorization: red.authorization } });
    expect([answer.statusCode, answer.json()]).toEqual([400, { error: "invalid_parameter", message: expect.stringContaining(message) }]);
  });
});

describe("a query that is too expensive", () => {
  it("because of a line that is too long for a stage is rejected, and answered without the stage", async () => {
    const org = await app.org();
    await org.send([record(0, `{"a":"${"x".repeat(300_000)}"}`)]);
    const [stream] = await logs(org, '{service_name="shop"} |= "xx"');
    expect(stream?.values[0]?.[1]).toHaveLength(300_008);
    const answer = await org.get("query_range", { query: '{service_name="shop"} | json', ...RANGE });
    expect([answer.statusCode, answer.json()]).toEqual([
      400,
      { error: "query_too_expensive", message: expect.stringContaining("256 KiB") },
    ]);
  });

  it("because of more than 500 series is rejected, and their sum is not", async () => {
    const org = await app.org();
    await org.send(Array.from({ length: 501 }, (_, n) => record(n % 60, "x", "INFO", { user: `u${n}` })));
    const counted = (query: string) => org.get("query", { query, time: String(at(60)) });
    const many = await counted('count_over_time({service_name="shop"}[5m])');
    expect([many.statusCode, many.json()]).toEqual([
      400,
      { error: "invalid_parameter", message: expect.stringContaining("maximum number of series (500)") },
    ]);
    const sum = await counted('sum(count_over_time({service_name="shop"}[5m]))');
    expect(sum.json().data.result).toEqual([{ metric: {}, value: [expect.any(Number), "501"] }]);
    const top = await counted('topk(2, sum by (user) (count_over_time({service_name="shop"}[5m])))');
    expect(top.json().data.result).toHaveLength(2);
  });
});

it("a response without one shard has a warning, in its header and where Grafana reads it", async () => {
  isPartial = true;
  const answer = await red.get("query_range", { query: '{service_name="shop"}', ...RANGE });
  isPartial = false;
  const text = "a shard of the log and trace store is unavailable: rows are missing";
  expect(answer.headers["warning"]).toBe(`199 atherops "${text}"`);
  expect(answer.json()).toMatchObject({ status: "success", warnings: [text], data: { resultType: "streams" } });
});

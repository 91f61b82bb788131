// Every request of Jaeger's own UI to its API v3, in OTLP JSON. Two organisations have services and traces with the same names; neither
// sees the other's.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openTracesApp, type TracesApp, type TracesOrg } from "../../../test/fixtures/traces-app.ts";
import { nanosecondsOf, span, stringAttribute } from "../../ingest/otlp/otlp-body.fixture.ts";

const BASE = "/query/jaeger/api/v3";
const MS = 1_000_000n;
const nowNs = nanosecondsOf(new Date()) - 60_000n * MS;
const trace = (digit: string) => digit.repeat(32);
const spanId = (n: number) => n.toString(16).padStart(16, "0");
const text = (key: string, stringValue: string) => ({ key, value: { stringValue } });

interface OtlpSpan {
  readonly traceId: string;
  readonly spanId: string;
  readonly attributes: readonly { key: string; value: object }[];
}
interface ResourceSpans {
  readonly resource: object;
  readonly scopeSpans: readonly { readonly scope: object; readonly spans: readonly OtlpSpan[] }[];
}

let app: TracesApp;
let red: TracesOrg;
let blue: TracesOrg;

const ask = async (org: TracesOrg, path: string, params: Record<string, string> = {}) => {
  const answer = await org.get(`${BASE}/${path}?${new URLSearchParams(params).toString()}`);
  return [answer.statusCode, answer.json()];
};
const RANGE = { "query.startTimeMin": new Date(Date.now() - 3_600_000).toISOString(), "query.startTimeMax": "2199-01-01T00:00:00Z" };
const elements = async (org: TracesOrg, path: string, params: Record<string, string> = {}): Promise<ResourceSpans[]> => {
  const [status, answer] = await ask(org, path, params);
  expect(status).toBe(200);
  return answer.result.resourceSpans;
};
const spansOf = (all: readonly ResourceSpans[]): OtlpSpan[] => all.flatMap(({ scopeSpans }) => scopeSpans.flatMap(({ spans }) => spans));
const found = async (org: TracesOrg, params: Record<string, string>) => [
  ...new Set(spansOf(await elements(org, "traces", { ...RANGE, ...params })).map(({ traceId }) => traceId)),
];

beforeAll(async () => {
  app = await openTracesApp();
  [red, blue] = [await app.org(), await app.org()];
  const root = span(nowNs, trace("a"), spanId(1), {
    name: "GET /pay",
    kind: 2,
    traceState: "a=b",
    endTimeUnixNano: String(nowNs + 250n * MS + 999n),
    status: { code: 2, message: "card 'refused'" },
    attributes: [stringAttribute("http.status_code", "500"), stringAttribute("k", "v\n")],
    events: [{ timeUnixNano: String(nowNs + 5n), name: "exception", attributes: [stringAttribute("exception.message", "x")] }],
    links: [{ traceId: trace("b"), spanId: spanId(9), traceState: "c=d", attributes: [stringAttribute("why", "batch")] }],
  });
  await red.send([root], "shop");
  await red.send([span(nowNs + 10n * MS, trace("a"), spanId(2), { parentSpanId: spanId(1), name: "SELECT", kind: 3 })], "db");
  await red.send([span(nowNs + 20n * MS, trace("b"), spanId(1), { parentSpanId: spanId(7), name: "list" })], "shop");
  await blue.send([span(nowNs + 1n, trace("a"), spanId(3), { name: "not yours" })], "shop");
});
afterAll(() => app?.[Symbol.asyncDispose]());

describe("Jaeger's page", () => {
  it("gets services and their operations with kinds of its own organisation", async () => {
    expect(await ask(red, "services")).toEqual([200, { services: ["db", "shop"] }]);
    const operations = [
      { name: "GET /pay", spanKind: "server" },
      { name: "list", spanKind: "unspecified" },
    ];
    expect(await ask(red, "operations", { service: "shop" })).toEqual([200, { operations }]);
    for (const name of ["spanKind", "span_kind"])
      expect(await ask(red, "operations", { service: "shop", [name]: "server" })).toEqual([200, { operations: operations.slice(0, 1) }]);
    expect(await ask(blue, "operations", { service: "db" })).toEqual([200, { operations: [] }]);
    expect(await ask(red, "operations")).toEqual([200, { operations: [] }]);
  });

  it("gets a trace as OTLP, with every field of its spans", async () => {
    const [first, second, ...more] = await elements(red, `traces/${trace("A")}`, { startTime: "2026-01-01T00:00:00Z" });
    expect(more).toEqual([]);
    expect(first).toEqual({
      resource: { attributes: [text("service.name", "shop")] },
      scopeSpans: [
        {
          scope: { name: "tracer", version: "1.2" },
          spans: [
            {
              traceId: trace("a"),
              spanId: spanId(1),
              parentSpanId: "",
              traceState: "a=b",
              name: "GET /pay",
              kind: 2,
              startTimeUnixNano: String(nowNs),
              endTimeUnixNano: String(nowNs + 250n * MS + 999n),
              status: { code: 2, message: "card 'refused'" },
              attributes: expect.arrayContaining([{ key: "http.status_code", value: { intValue: "500" } }, text("k", "v\n")]),
              events: [{ timeUnixNano: String(nowNs + 5n), name: "exception", attributes: [text("exception.message", "x")] }],
              links: [{ traceId: trace("b"), spanId: spanId(9), traceState: "c=d", attributes: [text("why", "batch")] }],
            },
          ],
        },
      ],
    });
    expect(second).toMatchObject({
      resource: { attributes: [text("service.name", "db")] },
      scopeSpans: [{ spans: [{ kind: 3, parentSpanId: spanId(1) }] }],
    });
    expect(spansOf(await elements(blue, `traces/${trace("a")}`)).map((each) => each.spanId)).toEqual([spanId(3)]);
    expect(await ask(blue, `traces/${trace("b")}`)).toEqual([404, expect.objectContaining({ error: "not_found" })]);
  });

  it.each([
    [{}, ["b", "a"]],
    [{ "query.serviceName": "shop" }, ["b", "a"]],
    [{ "query.service_name": "db" }, ["a"]],
    [{ "query.serviceName": "shop", "query.searchDepth": "1" }, ["b"]],
    [{ "query.num_traces": "1" }, ["b"]],
    [{ "query.operationName": "SELECT" }, ["a"]],
    [{ "query.attributes": '{"http.status_code":"500","error":"true"}' }, ["a"]],
    [{ "query.durationMin": "250ms" }, ["a"]],
    [{ "query.durationMax": "2ms", "query.operationName": "list" }, ["b"]],
  ])("searches with %j", async (params, digits) => {
    expect(await found(red, params as Record<string, string>)).toEqual(digits.map(trace));
  });

  it("gets summaries of the found traces, with orphans and errors of each service", async () => {
    const [, { summaries }] = await ask(red, "trace-summaries", { ...RANGE, "query.serviceName": "shop" });
    expect(summaries).toEqual([
      expect.objectContaining({ traceId: trace("b"), rootServiceName: "shop", spanCount: 1, errorSpanCount: 0, orphanSpanCount: 1 }),
      {
        traceId: trace("a"),
        rootServiceName: "shop",
        rootOperationName: "GET /pay",
        minStartTimeUnixNano: String(nowNs),
        maxEndTimeUnixNano: String(nowNs + 250n * MS + 999n),
        spanCount: 2,
        errorSpanCount: 1,
        orphanSpanCount: 0,
        services: [
          { name: "db", spanCount: 1, errorSpanCount: 0 },
          { name: "shop", spanCount: 1, errorSpanCount: 1 },
        ],
      },
    ]);
    const [, blues] = await ask(blue, "trace-summaries", RANGE);
    expect(blues.summaries.map(({ rootOperationName }: { rootOperationName: string }) => rootOperationName)).toEqual(["not yours"]);
    expect(await ask(blue, "trace-summaries", { ...RANGE, "query.serviceName": "db" })).toEqual([200, { summaries: [] }]);
  });

  it("gets invalid parameters rejected by name, and 404 for a search without a result, like from Jaeger", async () => {
    expect(await ask(red, "traces", { ...RANGE, "query.serviceName": "none" })).toEqual([
      404,
      expect.objectContaining({ error: "not_found" }),
    ]);
    for (const [params, name] of [
      [{}, "query.startTimeMin"],
      [{ ...RANGE, "query.startTimeMax": "yesterday" }, "query.startTimeMax"],
      [{ ...RANGE, "query.searchDepth": "0" }, "query.searchDepth"],
      [{ ...RANGE, "query.durationMin": "5" }, "query.durationMin"],
      [{ ...RANGE, "query.attributes": "[]" }, "query.attributes"],
      [{ ...RANGE, "query.filter": "{}" }, "query.filter"],
    ] as const) {
      for (const path of ["traces", "trace-summaries"])
        expect(await ask(red, path, params)).toEqual([400, { error: "invalid_parameter", message: expect.stringContaining(name) }]);
    }
    const twice = await red.get(`${BASE}/operations?service=a&service=b`);
    expect([twice.statusCode, twice.json().message]).toEqual([400, expect.stringContaining("service")]);
  });

  it("gets a warning on the first span of an incomplete trace", async () => {
    const org = await app.org();
    const spans = Array.from({ length: 150 }, (_, n) => span(nowNs + BigInt(n), trace("c"), spanId(n + 1)));
    await org.send(spans);
    const all = spansOf(await elements(org, "traces", RANGE));
    const values = [{ stringValue: expect.stringContaining("150 spans") }];
    expect(all).toHaveLength(100);
    expect(all.map(({ attributes }) => attributes.filter(({ key }) => key === "@jaeger@warnings"))).toEqual([
      [{ key: "@jaeger@warnings", value: { arrayValue: { values } } }],
      ...Array.from({ length: 99 }, () => []),
    ]);
    const whole = spansOf(await elements(org, `traces/${trace("c")}`));
    expect([whole.length, whole[0]?.attributes.filter(({ key }) => key === "@jaeger@warnings")]).toEqual([150, []]);
  });
});

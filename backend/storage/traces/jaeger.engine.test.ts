// Every request of Grafana's Jaeger data source, with the response shapes that its source code reads, and a read token as the password of
// Basic auth. Two organisations have services and traces with the same names; neither sees the other's.
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openTracesApp, type TracesApp, type TracesOrg } from "../../../test/fixtures/traces-app.ts";
import { nanosecondsOf, span, stringAttribute } from "../../ingest/otlp/otlp-body.fixture.ts";

const BASE = "/query/jaeger/api";
const MS = 1_000_000n;
const nowNs = nanosecondsOf(new Date()) - 60_000n * MS;
const nowUs = Number(nowNs / 1000n);
let count = 0;
const newTrace = () => (count++).toString(16).padStart(32, "c");
const spanId = (n: number) => n.toString(16).padStart(16, "0");

interface Tag {
  key: string;
  type: string;
  value: unknown;
}
interface JaegerSpan {
  traceID: string;
  spanID: string;
  processID: string;
  operationName: string;
  startTime: number;
  duration: number;
  logs: { timestamp: number; fields: Tag[] }[];
  references: { refType: string; traceID: string; spanID: string }[];
  tags: Tag[];
  warnings: string[] | null;
  flags: number;
}
interface JaegerTrace {
  traceID: string;
  spans: JaegerSpan[];
  processes: Record<string, { serviceName: string; tags: Tag[] }>;
  warnings: string[] | null;
}

/** Fails as Go does, which reads texts as texts and integers as integers. */
function expectReadable(traces: JaegerTrace[]): void {
  const text = expect.any(String);
  const tag = { key: text, type: text, value: expect.anything() };
  for (const trace of traces) {
    expect(trace.spans.length).toBeGreaterThan(0);
    for (const one of trace.spans) {
      expect([one.startTime, one.duration, one.flags, ...one.logs.map(({ timestamp }) => timestamp)].every(Number.isSafeInteger)).toBe(
        true,
      );
      expect([one.traceID, one.spanID, one.processID, one.operationName]).toEqual([trace.traceID, text, text, text]);
      for (const each of [...one.tags, ...one.logs.flatMap(({ fields }) => fields)]) expect(each).toEqual(tag);
      for (const each of one.references) expect(each).toEqual({ refType: text, traceID: text, spanID: text });
      expect(trace.processes[one.processID]).toEqual({ serviceName: one.processID, tags: [] });
    }
  }
}

let app: TracesApp;
let red: TracesOrg;
let blue: TracesOrg;
const [shared, ofRed, plain] = [newTrace(), newTrace(), newTrace()];

async function ask(org: TracesOrg, path: string, params: Record<string, string> = {}) {
  const query = new URLSearchParams(params).toString();
  const answer = await org.get(`${BASE}/${path}${query && `?${query}`}`);
  expect([answer.statusCode, answer.headers["content-type"]]).toEqual([200, expect.stringMatching(/^application\/json/)]);
  const { data, ...rest } = answer.json();
  expect(rest).toEqual({ total: 0, limit: 0, offset: 0, errors: null });
  return data;
}
const traces = async (org: TracesOrg, path: string, params: Record<string, string> = {}): Promise<JaegerTrace[]> => {
  const data = (await ask(org, path, params)) as JaegerTrace[];
  expectReadable(data);
  return data;
};
const RANGE = { start: String(nowUs - 3_600_000_000), end: String(nowUs + 60_000_000) };
const found = async (org: TracesOrg, params: Record<string, string>) =>
  (await traces(org, "traces", { ...RANGE, ...params })).map(({ traceID }) => traceID);

beforeAll(async () => {
  app = await openTracesApp();
  [red, blue] = [await app.org(), await app.org()];
  const root = span(nowNs, shared, spanId(1), {
    name: "GET /pay",
    kind: 2,
    traceState: "a=b",
    endTimeUnixNano: String(nowNs + 250n * MS + 999n),
    status: { code: 2, message: "card 'refused'" },
    attributes: [
      stringAttribute("http.status_code", "500"),
      stringAttribute("looks.like.a.bool", "true"),
      { key: "n", value: { intValue: "5" } },
      { key: "thread.id", value: { intValue: "12345678901234567" } },
      stringAttribute("server.port", "http"),
    ],
    events: [
      { timeUnixNano: String(nowNs + 5n * MS), name: "exception", attributes: [stringAttribute("exception.message", "x\n")] },
      { timeUnixNano: String(nowNs), attributes: [stringAttribute("k", "v")] },
    ],
    links: [{ traceId: ofRed, spanId: spanId(9) }],
  });
  await red.send([root], "shop");
  await red.send([span(nowNs + 10n * MS, shared, spanId(2), { parentSpanId: spanId(1), name: "SELECT", kind: 3 })], "team/database");
  await red.send([span(nowNs + 20n * MS, ofRed, spanId(1), { name: "list" })], "shop");
  await blue.send([span(nowNs + 1n, shared, spanId(3), { name: "not yours" })], "shop");
  await blue.send([span(nowNs + 2n, plain, spanId(4), { name: "mine" })], "of blue");
});
afterAll(() => app?.[Symbol.asyncDispose]());

describe("Grafana's Jaeger data source", () => {
  it("is healthy: services are returned without a range, of its own organisation", async () => {
    expect(await ask(red, "services")).toEqual(["shop", "team/database"]);
    expect(await ask(blue, "services")).toEqual(["of blue", "shop"]);
    expect(await ask(await app.org(), "services")).toEqual([]);
  });

  it("lists operations of a service, also for an unencoded name with a slash", async () => {
    expect(await ask(red, "services/shop/operations")).toEqual(["GET /pay", "list"]);
    expect(await ask(blue, "services/shop/operations")).toEqual(["not yours"]);
    for (const name of ["team/database", "team%2Fdatabase"]) expect(await ask(red, `services/${name}/operations`)).toEqual(["SELECT"]);
    for (const none of ["of%20blue", "'%20OR%201=1--", "%00", "a/b/c", "x".repeat(4000)])
      expect(await ask(red, `services/${none}/operations`)).toEqual([]);
    for (const path of ["services/shop", "services/shop/", "services/a/b"])
      expect([path, (await red.get(`${BASE}/${path}`)).statusCode]).toEqual([path, 404]);
  });

  it("reads a trace by its id, in any case and without leading zeros, whatever range it sends in milliseconds", async () => {
    const [trace, ...more] = await traces(red, `traces/${shared.toUpperCase()}`, { start: "1", end: String(Date.now()) });
    const at = (key: string, value: unknown, type = "string") => ({ key, type, value });
    expect(more).toEqual([]);
    expect(trace).toEqual({
      traceID: shared,
      processes: { shop: { serviceName: "shop", tags: [] }, "team/database": { serviceName: "team/database", tags: [] } },
      warnings: null,
      spans: [
        {
          traceID: shared,
          spanID: spanId(1),
          flags: 1,
          operationName: "GET /pay",
          references: [{ refType: "FOLLOWS_FROM", traceID: ofRed, spanID: spanId(9) }],
          startTime: nowUs,
          duration: 250_000,
          tags: expect.arrayContaining([
            at("http.status_code", 500, "int64"),
            at("looks.like.a.bool", "true"),
            at("n", "5"),
            // Integers of the semantic conventions are numbers, unless they are not safe or not integers.
            at("thread.id", "12345678901234567"),
            at("server.port", "http"),
            at("span.kind", "server"),
            at("otel.status_code", "ERROR"),
            at("otel.status_description", "card 'refused'"),
            at("otel.scope.name", "tracer"),
            at("otel.scope.version", "1.2"),
            at("w3c.tracestate", "a=b"),
            at("error", true, "bool"),
          ]),
          logs: [
            { timestamp: nowUs + 5000, fields: [at("event", "exception"), at("exception.message", "x\n")] },
            { timestamp: nowUs, fields: [at("k", "v")] },
          ],
          processID: "shop",
          warnings: null,
        },
        expect.objectContaining({
          spanID: spanId(2),
          processID: "team/database",
          references: [{ refType: "CHILD_OF", traceID: shared, spanID: spanId(1) }],
          tags: [at("span.kind", "client"), at("otel.scope.name", "tracer"), at("otel.scope.version", "1.2")],
        }),
      ],
    });
    expect(trace?.spans[0]?.tags).toHaveLength(12);
    expect((await traces(blue, `traces/${shared}`)).flatMap(({ spans }) => spans.map(({ spanID }) => spanID))).toEqual([spanId(3)]);
    const short = "7".padStart(32, "0");
    const green = await app.org();
    await green.send([span(nowNs, short, spanId(1))]);
    expect((await traces(green, "traces/7"))[0]?.traceID).toBe(short);
    expect((await blue.get(`${BASE}/traces/7`)).json()).toMatchObject({ error: "not_found" });
  });

  it.each([
    [{ service: "shop" }, [ofRed, shared]],
    [{ service: "shop", limit: "1" }, [ofRed]],
    [{ service: "shop", operation: "GET /pay" }, [shared]],
    [{ service: "shop", operation: "SELECT" }, []],
    [{ service: "team/database" }, [shared]],
    [{ service: "of blue" }, []],
    [{ service: "shop", tags: '{"http.status_code":"500"}' }, [shared]],
    [{ service: "shop", tags: '{"http.status_code":500,"error":true}' }, [shared]],
    [{ service: "shop", tags: '{"error":"false"}' }, [ofRed]],
    [{ service: "shop", tags: '{"span.kind":"server","otel.status_code":"ERROR","w3c.tracestate":"a=b"}' }, [shared]],
    [{ service: "shop", tags: '{"span.kind":"client"}' }, []],
    [{ service: "shop", tags: "http.status_code=500 error=true" }, [shared]],
    [{ service: "shop", tags: 'http.status_code="501"' }, []],
    [{ service: "shop", tag: "http.status_code:500", unknown: "ignored" }, [shared]],
    [{ service: "shop", tag: "error:false" }, [ofRed]],
    [{ service: "shop", tags: `{"__proto__":"x","it's":"\\\\"}` }, []],
    [{ service: "shop", minDuration: "250ms" }, [shared]],
    [{ service: "shop", minDuration: "0.2501s" }, []],
    [{ service: "shop", maxDuration: "1500us" }, [ofRed]],
    [{ service: "team/database", minDuration: "1ms400µs", maxDuration: "1h2m" }, [shared]],
    [{ service: "' OR 1=1--" }, []],
    [{ service: "shop", start: String(nowUs + 15_000) }, [ofRed]],
    [{ service: "shop", end: String(nowUs + 15_000), lookback: "1h" }, [shared]],
    [{ service: "shop", start: "0", end: "9999999999999999999" }, [ofRed, shared]],
    [{}, [ofRed, shared]],
  ] as const)("finds the newest first: %j", async (params, ids) => {
    expect(await found(red, params)).toEqual(ids);
  });

  it("searches its own organisation, and gets whole spans", async () => {
    expect(await found(blue, { service: "shop" })).toEqual([shared]);
    const [, first] = await traces(red, "traces", { ...RANGE, service: "shop" });
    expect(first?.spans.map(({ spanID }) => spanID)).toEqual([spanId(1), spanId(2)]);
    expect(first?.processes).toEqual({
      shop: { serviceName: "shop", tags: [] },
      "team/database": { serviceName: "team/database", tags: [] },
    });
  });

  it.each([
    ["traces?limit=0", "limit"],
    ["traces?limit=1&limit=2", "limit"],
    ["traces?minDuration=5", "minDuration"],
    ["traces?maxDuration=999999999999h", "maxDuration"],
    ["traces?start=yesterday", "start"],
    ["traces?end=1.5", "end"],
    ["traces?tags=%7B", "tags"],
    ["traces?tags=%5B%5D", "tags"],
    ["traces?tags=%7B%22a%22:%7B%7D%7D", "tags"],
    ["traces?tag=a", "tag"],
    ["traces?service=a&service=b", "service"],
    ["traces/xyz", "trace_id: must be up to 32 hex digits"],
  ])("gets %s rejected by name", async (path, name) => {
    const answer = await red.get(`${BASE}/${path}`);
    expect([answer.statusCode, answer.json()]).toEqual([400, { error: "invalid_parameter", message: expect.stringContaining(name) }]);
  });
});

describe("a trace with many spans", () => {
  it("has its first 100 in a search and all by its id, and reports omitted ones", async () => {
    const org = await app.org();
    const trace = newTrace();
    const spans = Array.from({ length: 5000 }, (_, n) => span(nowNs + BigInt(n), trace, spanId(n + 1)));
    for (let from = 0; from < spans.length; from += 1000) await org.send(spans.slice(from, from + 1000));
    const [whole] = await traces(org, `traces/${trace}`);
    expect([whole?.spans.length, whole?.warnings]).toEqual([5000, null]);
    const [first] = await traces(org, "traces", { ...RANGE, service: "shop" });
    expect(first?.spans.map(({ spanID }) => spanID)).toEqual(spans.slice(0, 100).map((_, n) => spanId(n + 1)));
    expect(first?.warnings).toEqual([expect.stringContaining("5000 spans")]);
  });

  it("is returned up to 8 MiB, and in a search with its first span", async () => {
    const org = await app.org();
    const large = { attributes: [stringAttribute("body", "x".repeat(1_000_000))] };
    const ids = [newTrace(), newTrace()];
    for (const trace of ids) await org.send(Array.from({ length: 12 }, (_, n) => span(nowNs + BigInt(n), trace, spanId(n + 1), large)));
    const [whole] = await traces(org, `traces/${ids[0]}`);
    expect(whole?.warnings).toEqual([expect.stringContaining("12 spans")]);
    expect(whole?.spans).toHaveLength(8);
    const all = await traces(org, "traces", { ...RANGE, service: "shop" });
    expect(all.map(({ spans }) => spans.map(({ spanID }) => spanID))).toEqual([[spanId(1)], [spanId(1)]]);
    expect(all.map(({ warnings }) => warnings?.length)).toEqual([1, 1]);
  });
});

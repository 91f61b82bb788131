// GET /query/logs and /query/traces over HTTP: parameters, pages by Link, and what they pass to the store.
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { FastifyInstance } from "fastify";
import { pino } from "pino";
import { registerLogRoutes } from "./native/log-routes.ts";
import type { LogFilter, LogRow } from "../storage/logs/log-store.ts";
import type { Guards } from "../http/request-identity.ts";
import { closeRoutes, createApp } from "../http/app.ts";
import { ResponseBudget } from "../http/response-budget.ts";
import { registerTraceRoutes } from "./native/trace-routes.ts";
import type { SpanFilter } from "../storage/traces/span-store.ts";

const NOW = new Date("2026-11-21T12:00:00.000Z");
const NOW_NS = BigInt(NOW.getTime()) * 1_000_000n + 999_999n;
const HOUR_NS = 3_600_000_000_000n;

const neverAsked = async (): Promise<never> => {
  throw new Error("not asked here");
};
const OTHER_QUESTIONS = {
  trace: neverAsked,
  search: neverAsked,
  red: neverAsked,
  operationPoints: neverAsked,
  events: neverAsked,
  graph: neverAsked,
  exemplars: neverAsked,
  insertExemplars: neverAsked,
  statistics: neverAsked,
  versionCounts: neverAsked,
  serviceNames: neverAsked,
  operationNames: neverAsked,
  jaegerTrace: neverAsked,
  jaegerSearch: neverAsked,
  operationKinds: neverAsked,
  jaegerSummaries: neverAsked,
  metricFamily: neverAsked,
};

describe("the query routes", () => {
  let app: FastifyInstance;
  let asked: { orgId: string; filter: LogFilter | SpanFilter }[];
  let next: { time: bigint; id: bigint } | undefined;
  const row: LogRow = {
    timestamp: "t",
    level: "info",
    source: "s",
    message: "m",
    labels: { a: "b" },
    host_id: "h",
    node: "n",
    trace_id: "",
    span_id: "",
    severity_number: 9,
    scope: "",
  };

  beforeEach(async () => {
    asked = [];
    next = undefined;
    const guards: Pick<Guards, "reader"> = {
      reader: () => async (request) => {
        request.user = { userId: "u", orgId: "org-1", email: "e", role: "viewer", labelLimits: undefined };
      },
    };
    app = await createApp({ log: pino({ level: "silent" }), openApiTitle: "test" });
    const remember = (rows: unknown[]) => ({
      query: async (orgId: string, filter: LogFilter | SpanFilter) => {
        asked.push({ orgId, filter });
        return { json: Buffer.from(JSON.stringify(rows)), next };
      },
    });
    const answers = new ResponseBudget();
    registerLogRoutes(app, {
      store: {
        ...remember([row]),
        histogram: neverAsked,
        patterns: neverAsked,
        fields: neverAsked,
        comparePatterns: neverAsked,
        tail: neverAsked,
      },
      sandbox: { run: neverAsked },
      answers,
      guards,
      now: () => NOW,
    });
    registerTraceRoutes(app, {
      store: { ...remember([]), ...OTHER_QUESTIONS },
      answers,
      guards,
      now: () => NOW,
    });
    await closeRoutes(app);
  });

  afterEach(() => app.close());

  const get = (url: string) => app.inject({ method: "GET", url });

  it("default to the organisation of the session, the last hour and 100 rows", async () => {
    const answer = await get("/query/logs");
    expect([answer.statusCode, answer.json(), answer.headers["link"]]).toEqual([200, [row], undefined]);
    await get("/query/traces");
    for (const { orgId, filter } of asked) {
      expect(orgId).toBe("org-1");
      expect(filter).toMatchObject({ limit: 100, range: { start: NOW_NS - HOUR_NS, end: NOW_NS }, after: undefined });
    }
  });

  it("parse every parameter of logs", async () => {
    await get(
      "/query/logs?source=s&level=Error&q=%25x'&not_q=y&not_q=z&regex=a%2Bb&regex=c&not_regex=d&not_label.n=%26&host_id=h&node=n&limit=7&label.a=1&label.b.c=x%3Dy&label.b.c=z&start=2026-11-21T10:00:00.5%2B02:00&end=2026-11-21t11:59:60.1234567891Z",
    );
    expect(asked).toEqual([
      {
        orgId: "org-1",
        filter: {
          source: "s",
          level: "Error",
          q: ["%x'"],
          notQ: ["y", "z"],
          regex: ["a+b", "c"],
          notRegex: ["d"],
          notLabels: [["n", "&"]],
          traceId: undefined,
          hostId: "h",
          node: "n",
          limit: 7,
          labels: [
            ["a", "1"],
            ["b.c", "x=y"],
            ["b.c", "z"],
          ],
          range: {
            start: BigInt(Date.UTC(2026, 10, 21, 8)) * 1_000_000n + 500_000_000n,
            end: BigInt(Date.UTC(2026, 10, 21, 12)) * 1_000_000n + 123_456_789n,
          },
          after: undefined,
        },
      },
    ]);
  });

  it("search the whole retention for a trace id, in any case, unless a range is given", async () => {
    await get("/query/logs?trace_id=0AF7651916CD43DD8448EB211C80319C");
    const range = { start: undefined, end: undefined };
    expect(asked.splice(0)).toMatchObject([{ filter: { traceId: "0af7651916cd43dd8448eb211c80319c", range } }]);
    await get("/query/traces?trace_id=0AF7651916CD43DD8448EB211C80319C&error=true&service=shop&limit=9999");
    await get("/query/traces?trace_id=0AF7651916CD43DD8448EB211C80319C&start=2026-11-21T00:00:00Z");
    expect(asked.map(({ filter }) => filter)).toMatchObject([
      {
        traceId: "0af7651916cd43dd8448eb211c80319c",
        error: true,
        service: "shop",
        limit: 500,
        range: { start: undefined, end: undefined },
      },
      { range: { start: BigInt(Date.UTC(2026, 10, 21)) * 1_000_000n, end: NOW_NS } },
    ]);
  });

  it.each([
    ["/query/logs?limit=0", "limit"],
    ["/query/logs?limit=1e2", "limit"],
    ["/query/logs?limit=", "limit"],
    ["/query/logs?limit=%2B5", "limit"],
    ["/query/logs?service=shop", "service: no such parameter; there is query, source,"],
    ["/query/logs?trace_id=0af7651916cd43dd8448eb211c80319", "trace_id"],
    [`/query/logs?regex=${"a".repeat(1001)}`, "regex: the regular expressions of a query have at most 1000 characters in all"],
    ["/query/logs?regex=x&regex=((a%7B10%7D)%7B10%7D)%7B10%7D", "regex"],
    ["/query/logs?not_regex=%5CpL%7B3%7D", "not_regex"],
    ["/query/logs?not_label.=x", "not_label."],
    ["/query/logs?not_level=x", "not_level: no such parameter"],
    ["/query/logs?org_id=org-2", "org_id"],
    ["/query/logs?label.=x", "label."],
    ["/query/logs?label=x", "label"],
    ["/query/logs?limit=1&limit=2", "limit"],
    ["/query/traces?service=a&service=b", "service"],
    ["/query/logs?order=up", "order"],
    ["/query/logs?order=oldest&order=newest", "order"],
    ["/query/logs?start=yesterday", "start"],
    ["/query/logs?end=2026-02-30T00:00:00Z", "end"],
    ["/query/logs?end=2026-01-01T24:00:00Z", "end"],
    ["/query/logs?end=2026-01-01T00:00:00", "end"],
    ["/query/logs?end=1763700000", "end"],
    ["/query/logs?cursor=x", "cursor"],
    ["/query/logs?cursor=OTk5OTk5OTk5OTk5OTk5OTk5OS4x", "cursor"],
    ["/query/traces?error=maybe", "error"],
    ["/query/traces?trace_id=", "trace_id"],
    ["/query/traces?trace_id=0af7651916cd43dd8448eb211c80319c00", "trace_id"],
  ])("reject %s, naming %s", async (url, name) => {
    const answer = await get(url);
    expect(answer.statusCode).toBe(400);
    expect(answer.json()).toEqual({ error: "invalid_parameter", message: expect.stringContaining(name) });
    expect(asked).toEqual([]);
  });

  it("return a Link to the next page that keeps the filters and the range", async () => {
    next = { time: 1_795_262_400_123_456_789n, id: 18_446_744_073_709_551_615n };
    const answer = await get("/query/logs?label.a=%26&q=a%20b&limit=2");
    const [, url] = /^<(\/query\/logs\?[^>]*)>; rel="next"$/.exec(String(answer.headers["link"])) ?? [];
    expect(url).toBeDefined();
    await get(url ?? "");
    expect(asked[1]?.filter).toMatchObject({
      labels: [["a", "&"]],
      q: ["a b"],
      limit: 2,
      range: { start: NOW_NS - HOUR_NS, end: NOW_NS },
      after: next,
    });
  });

  it("keep the filters behind a question mark that is not encoded, as curl sends it, on the next page", async () => {
    next = { time: 5n, id: 6n };
    const answer = await get("/query/logs?q=ready?&level=error&limit=2");
    await get(/<(.*)>/.exec(String(answer.headers["link"]))?.[1] ?? "");
    expect(asked.map(({ filter }) => filter)).toMatchObject([
      { q: ["ready?"], level: "error", limit: 2 },
      { q: ["ready?"], level: "error", limit: 2, after: next },
    ]);
  });

  it("keep a search for a trace id without a range on its next page", async () => {
    next = { time: 5n, id: 6n };
    const answer = await get("/query/traces?trace_id=0af7651916cd43dd8448eb211c80319c");
    await get(/<(.*)>/.exec(String(answer.headers["link"]))?.[1] ?? "");
    expect(asked[1]?.filter).toMatchObject({ range: { start: undefined, end: undefined }, after: next });
  });
});

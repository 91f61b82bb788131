// The service map on the real engine: calls between services, messages, databases and hosts, although spans arrive late or twice; and the
// same figures as series.
import { randomUUID } from "node:crypto";
import { pino } from "pino";
import { afterAll, beforeAll, expect, it } from "vitest";
import { openTracesApp, type TracesApp, type TracesOrg } from "../../../test/fixtures/traces-app.ts";
import type { ClickHouse } from "../../engines/clickhouse/clickhouse-client.ts";
import type { Sql } from "../../engines/clickhouse/sql.ts";
import { nanosecondsOf, span, stringAttribute } from "../../ingest/otlp/otlp-body.fixture.ts";
import type { EdgeRow } from "./graph.ts";
import { SpanSummaries, type SummariesOptions } from "./summaries.ts";

const [SERVER, CLIENT, PRODUCER, CONSUMER] = [2, 3, 4, 5];
const now = new Date();
const nowNs = nanosecondsOf(now);
const MINUTE_NS = 60_000_000_000n;
const id = (): string => randomUUID().replaceAll("-", "");

let app: TracesApp;
beforeAll(async () => void (app = await openTracesApp()));
afterAll(() => app?.[Symbol.asyncDispose]());

interface Written {
  readonly orgId: string;
  readonly text: string;
  readonly atMs: number;
}

/** Runs passes by hand: the loop never comes to its first one. */
function summaries(
  at: Date = now,
  options: Partial<SummariesOptions> = {},
): { pass: () => Promise<void>; written: Written[] } & AsyncDisposable {
  const written: Written[] = [];
  const made = new SpanSummaries({
    clickhouse: app.clickhouse,
    isUnused: () => false,
    metrics: { write: async ({ orgId }, body, atMs) => void written.push({ orgId, text: body.toString(), atMs }) },
    retentionDays: 30,
    log: pino({ level: "silent" }),
    nowMs: () => at.getTime(),
    everyMs: 3_600_000,
    ...options,
  });
  return { written, pass: () => made.pass(new AbortController().signal), [Symbol.asyncDispose]: () => made[Symbol.asyncDispose]() };
}

async function graph(org: TracesOrg): Promise<Record<string, Pick<EdgeRow, "calls" | "failed">>> {
  const answer = await org.get("/query/services/graph");
  expect([answer.statusCode, answer.statusCode === 200 ? "" : answer.body]).toEqual([200, ""]);
  const { edges } = answer.json<{ edges: EdgeRow[] }>();
  return Object.fromEntries(
    edges.map(({ client, server, connection, calls, failed }) => [`${client} -${connection}-> ${server}`, { calls, failed }]),
  );
}

interface Call {
  readonly traceId: string;
  readonly spanId: string;
}

async function call(org: TracesOrg, from: string, kind: number, rest: object = {}, agoNs = 5n * MINUTE_NS): Promise<Call> {
  const [traceId, spanId] = [id(), id().slice(0, 16)];
  await org.send([span(nowNs - agoNs, traceId, spanId, { kind, ...rest })], from);
  return { traceId, spanId };
}
const answer = (org: TracesOrg, { traceId, spanId }: Call, service: string, kind: number, rest: object = {}, agoNs = 5n * MINUTE_NS) =>
  org.send([span(nowNs - agoNs, traceId, id().slice(0, 16), { kind, parentSpanId: spanId, ...rest })], service);
const attributes = (pairs: Record<string, string>) => ({
  attributes: Object.entries(pairs).map(([key, value]) => stringAttribute(key, value)),
});
const FAILED = { status: { code: 2 } };

it("counts calls, messages, databases and hosts once, for their own organisation only", async () => {
  const [org, other] = [await app.org(), await app.org()];
  for (const isFailed of [false, false, true]) {
    await answer(org, await call(org, "web", CLIENT), "shop", SERVER, isFailed ? FAILED : {});
  }
  await answer(org, await call(org, "shop", PRODUCER), "mailer", CONSUMER);
  const { traceId, spanId } = await call(org, "shop", PRODUCER);
  await org.send([span(nowNs - 5n * MINUTE_NS, id(), id().slice(0, 16), { kind: CONSUMER, links: [{ traceId, spanId }] })], "audit");
  await call(org, "shop", CLIENT, { ...attributes({ "db.system": "postgresql", "db.namespace": "orders" }), ...FAILED });
  await call(org, "shop", CLIENT, attributes({ "db.system.name": "redis" }));
  await call(org, "shop", CLIENT, attributes({ "server.address": "api.example.com" }));
  await call(org, "shop", CLIENT, attributes({ "url.full": "https://pay.example.com/x?y" }));
  await call(org, "shop", PRODUCER, attributes({ "messaging.system": "kafka", "messaging.destination.name": "mails" }));
  await call(org, "shop", CLIENT);
  await answer(other, await call(other, "secret-client", CLIENT), "secret-server", SERVER);

  await using first = summaries();
  await using second = summaries();
  await first.pass();
  await second.pass();
  const expected = {
    "web --> shop": { calls: 3, failed: 1 },
    "shop -messaging-> mailer": { calls: 1, failed: 0 },
    "shop -messaging-> audit": { calls: 1, failed: 0 },
    "shop -database-> postgresql:orders": { calls: 1, failed: 1 },
    "shop -database-> redis": { calls: 1, failed: 0 },
    "shop -external-> api.example.com": { calls: 1, failed: 0 },
    "shop -external-> pay.example.com": { calls: 1, failed: 0 },
    "shop -queue-> kafka:mails": { calls: 1, failed: 0 },
  };
  expect(await graph(org)).toEqual(expected);
  expect(await graph(other)).toEqual({ "secret-client --> secret-server": { calls: 1, failed: 0 } });
  const { nodes } = (await org.get("/query/services/graph")).json();
  expect(nodes).toContainEqual({ name: "postgresql:orders", kind: "database" });
  expect(nodes).toContainEqual({ name: "mailer", kind: "service" });
  const dependencies = (await org.get(`/query/jaeger/api/dependencies?endTs=${now.getTime()}&lookback=3600000`)).json();
  expect(dependencies.data).toHaveLength(8);
  expect(dependencies.data[0]).toEqual({ parent: "web", child: "shop", callCount: 3 });
  expect((await org.get("/query/jaeger/api/dependencies?lookback=x")).statusCode).toBe(400);
});

it("counts a call as failed only if it failed, not because its caller's own request did", async () => {
  const org = await app.org();
  const INTERNAL = 1;
  for (const kind of [SERVER, INTERNAL, CONSUMER]) await answer(org, await call(org, "checkout", kind, FAILED), "pricing", SERVER);
  await answer(org, await call(org, "checkout", CLIENT, FAILED), "fraud", SERVER);
  await answer(org, await call(org, "checkout", PRODUCER, FAILED), "mailer", CONSUMER);
  await answer(org, await call(org, "checkout", SERVER), "payment", SERVER, FAILED);
  await using made = summaries();
  await made.pass();
  expect(await graph(org)).toEqual({
    "checkout --> pricing": { calls: 3, failed: 0 },
    "checkout --> fraud": { calls: 1, failed: 1 },
    "checkout -messaging-> mailer": { calls: 1, failed: 1 },
    "checkout --> payment": { calls: 1, failed: 1 },
  });
});

it("follows late spans: a host becomes the service that it is", async () => {
  const org = await app.org();
  const late = await call(org, "web", CLIENT, attributes({ "server.address": "shop.example.com" }));
  await using made = summaries();
  await made.pass();
  expect(await graph(org)).toEqual({ "web -external-> shop.example.com": { calls: 1, failed: 0 } });
  await answer(org, late, "shop", SERVER);
  await using later = summaries(new Date(now.getTime() + 1000));
  await later.pass();
  expect(await graph(org)).toEqual({ "web --> shop": { calls: 1, failed: 0 } });
});

it("writes calls and service figures as counters with the names that Grafana queries", async () => {
  const noon = new Date(Math.floor((now.getTime() - 43_200_000) / 86_400_000) * 86_400_000 + 43_200_000);
  const agoNs = nowNs - nanosecondsOf(noon) + 5n * MINUTE_NS;
  const org = await app.org();
  for (const name of ["GET /", 'it\'s "odd"\\\n\0'])
    await answer(org, await call(org, "web", CLIENT, {}, agoNs), "shop", SERVER, { name, ...FAILED }, agoNs);
  // The time of the pass is the last noon: received_at is later than it, so the spans are new.
  await using made = summaries(noon);
  await made.pass();
  const own = made.written.filter(({ orgId }) => orgId === org.orgId);
  expect(own.map(({ atMs }) => atMs)).toEqual([noon.getTime()]);
  const text = own[0]?.text ?? "";
  const labels = 'service="shop",span_name="GET /",span_kind="SPAN_KIND_SERVER",status_code="STATUS_CODE_ERROR"';
  const lines = text.split("\n");
  expect(lines).toContain(`traces_spanmetrics_calls_total{${labels}} 1`);
  expect(lines).toContain(`traces_spanmetrics_latency_bucket{${labels},le="0.002"} 1`);
  expect(lines).toContain(`traces_spanmetrics_latency_sum{${labels}} 0.0015`);
  expect(lines.filter((line) => line.startsWith("traces_spanmetrics_latency_bucket"))).toHaveLength(3 * 15);
  expect(text).toContain(String.raw`span_name="it's \"odd\"\\\n "`);
  expect(lines).toContain('traces_service_graph_request_total{client="web",server="shop"} 2');
  expect(lines).toContain('traces_service_graph_request_failed_total{client="web",server="shop"} 2');
  expect(lines).toContain('traces_service_graph_request_server_seconds_bucket{client="web",server="shop",le="0.002"} 2');
  expect(lines).toContain('traces_service_graph_request_server_seconds_sum{client="web",server="shop"} 0.003');
});

it("starts a new counter with a zero at the pass before, so that `rate` counts its first calls", async () => {
  const noonMs = Math.floor((now.getTime() - 43_200_000) / 86_400_000) * 86_400_000 + 43_200_000;
  let atMs = noonMs;
  await using made = summaries(now, { nowMs: () => atMs });
  const org = await app.org();
  /** Failed calls, four minutes before the next pass, and what that pass writes of failed calls. */
  const pass = async (afterMs: number, ...names: string[]) => {
    atMs += afterMs;
    for (const name of names) await call(org, "shop", SERVER, { name, ...FAILED }, nowNs - nanosecondsOf(new Date(atMs)) + 4n * MINUTE_NS);
    made.written.length = 0;
    await made.pass();
    const own = made.written.filter(({ orgId }) => orgId === org.orgId);
    return own.flatMap((write) =>
      [...write.text.matchAll(/^traces_spanmetrics_calls_total\{.*span_name="(.+?)".*\} (\d+)$/gm)].map(
        ([, span, value]) => `${span} ${value} at ${(write.atMs - noonMs) / 60_000}`,
      ),
    );
  };
  // A process that has just started does not know what the one before it wrote.
  expect(await pass(0, "GET /")).toEqual(["GET / 1 at 0"]);
  expect(await pass(60_000, "POST", "PUT")).toEqual(["POST 0 at 0", "PUT 0 at 0", "GET / 1 at 1", "POST 1 at 1", "PUT 1 at 1"]);
  expect(await pass(60_000, "POST")).toEqual(["POST 2 at 2", "GET / 1 at 2", "PUT 1 at 2"]);
});

it("updates other organisations if queries of one take too long", async () => {
  const [one, other] = [await app.org(), await app.org()];
  const [slow, fast] = [one, other].toSorted((a, b) => (a.orgId < b.orgId ? -1 : 1)) as [TracesOrg, TracesOrg];
  for (const org of [slow, fast]) await answer(org, await call(org, "web", CLIENT), "shop", SERVER);
  const read: ClickHouse["read"] = async (orgId, options, work) => {
    if (orgId !== slow.orgId) return await app.clickhouse.read(orgId, options, work);
    const signal = options.signal as AbortSignal;
    return await new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason as Error), { once: true }));
  };
  await using made = summaries(now, { clickhouse: { ...app.clickhouse, read }, deadlineMs: 2000 });
  await made.pass().catch(() => undefined);
  expect(await graph(fast)).toEqual({ "web --> shop": { calls: 1, failed: 0 } });
  expect(await graph(slow)).toEqual({});
});

it("completes an organisation with many minutes in later passes", async () => {
  const org = await app.org();
  const agoMinutes = [5n, 20n, 40n];
  for (const minutes of agoMinutes)
    await answer(org, await call(org, "web", CLIENT, {}, minutes * MINUTE_NS), "shop", SERVER, {}, minutes * MINUTE_NS);
  let [turns, atMs] = [0, now.getTime()];
  const read: ClickHouse["read"] = async (orgId, options, work) => {
    if (orgId === org.orgId && (turns -= 1) < 0) throw new Error("the deadline has passed");
    return await app.clickhouse.read(orgId, options, work);
  };
  await using made = summaries(now, { clickhouse: { ...app.clickhouse, read }, nowMs: () => atMs });
  // The second pass finds all minutes again, because rows received shortly before the first may have been committed after it.
  for (const _ of [...agoMinutes, 0n]) {
    // Which minutes changed, and one range of them.
    turns = 2;
    await made.pass().catch(() => undefined);
    atMs += 120_000;
  }
  expect(await graph(org)).toEqual({ "web --> shop": { calls: 3, failed: 0 } });
});

it("updates the organisations first that have waited longest", async () => {
  const orgs = [await app.org(), await app.org(), await app.org()];
  for (const org of orgs) await answer(org, await call(org, "web", CLIENT), "shop", SERVER);
  const ids = new Set(orgs.map(({ orgId }) => orgId));
  let [turns, atMs, order] = [0, now.getTime(), [] as string[]];
  const read: ClickHouse["read"] = async (orgId, options, work) => {
    if (ids.has(orgId) && !order.includes(orgId)) order.push(orgId);
    // Far more than a read takes: rests grow with the real time of a pass.
    atMs += 600_000;
    return await app.clickhouse.read(orgId, options, work);
  };
  // The engine returns organisations in any order: here, backwards in every second pass.
  const query: ClickHouse["query"] = async <Row>(statement: Sql) => {
    if (!statement.text.includes("DISTINCT org_id")) return await app.clickhouse.query<Row>(statement);
    return ((turns += 1) % 2 === 0 ? orgs.toReversed() : orgs).map(({ orgId }) => ({ org_id: orgId })) as Row[];
  };
  await using made = summaries(now, { clickhouse: { ...app.clickhouse, read, query }, nowMs: () => atMs });
  await made.pass();
  const first = order;
  order = [];
  atMs += 3_600_000;
  await made.pass();
  expect(order).toEqual(first);
});

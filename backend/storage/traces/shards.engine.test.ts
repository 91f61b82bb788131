// Figures of services on several shards equal those of one server. Parents and children of a trace are sent by different hosts, so they are
// on different shards. Shards are embedded engines behind HTTP in separate processes, or Distributed tables within one engine.
import { createHash, randomUUID } from "node:crypto";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openStores, type Stores } from "../../../test/conformance/telemetry-stores.ts";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { type ShardServers, startShardServers } from "../../../test/fixtures/shard-servers.ts";
import { type ClickHouse, openClickHouse } from "../../engines/clickhouse/clickhouse-client.ts";
import { CLUSTER, openTwoShards } from "../../engines/clickhouse/cluster-front.fixture.ts";
import { prepare } from "../../engines/clickhouse/prepare.ts";
import { chooseShard } from "../../engines/clickhouse/clickhouse-shards.ts";
import { sql } from "../../engines/clickhouse/sql.ts";
import { tenantFilter } from "../../engines/clickhouse/tenant-filter.ts";
import { nanosecondsOf, signingKey, span, stringAttribute, tracesBody } from "../../ingest/otlp/otlp-body.fixture.ts";
import { keepMinutes } from "./keep-minutes.ts";
import { metricFamily } from "./metric-family.ts";
import { type RedFilter, SERVICE_FIGURES } from "./red.ts";
import { listOperations, listServices, readSeries } from "./services.ts";
import { edgeSeries, spanSeries } from "./span-series.ts";
import { SpanSummaries } from "./summaries.ts";

const [INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER] = [1, 2, 3, 4, 5];
const SERVICES = ["web", "shop", "stock", "pay", "mail", "audit"];
const HOUR_S = 3600;
const log = pino({ level: "silent" });
/** The middle of a minute, so that all passes see the same minutes. */
const nowS = Math.floor(Date.now() / 60_000) * 60;
const nowNs = nanosecondsOf(new Date(nowS * 1000));
const hostOf = (service: string): string => `host-of-${service}`;
const shardsUsed = (id: string, shardCount: number): number =>
  new Set(SERVICES.map((service) => chooseShard({ orgId: id, hostId: hostOf(service) }, shardCount, new Set()))).size;
/** One whose services use every shard, of two and of three: for every fourth, one shard of three has none. */
const orgId = Array.from({ length: 200 }, () => randomUUID()).find((id) => shardsUsed(id, 2) === 2 && shardsUsed(id, 3) === 3) ?? "";

/** Numbers that are the same in each run. */
const numberOf = (...key: unknown[]): number => createHash("sha1").update(key.join()).digest().readUInt32BE();
const idOf = (length: number, ...key: unknown[]): string => createHash("sha256").update(key.join()).digest("hex").slice(0, length);

/** Bodies of one set of traces, by the service that sends them. A service calls two others, a queue with two consumers, and a database. */
function bodiesOf(set: string, traces: number, newestAgoS: number, spreadS: number): Map<string, Buffer> {
  const spans = new Map<string, object[]>(SERVICES.map((service) => [service, []]));
  for (let index = 0; index < traces; index += 1) {
    const traceId = idOf(32, set, index);
    const startNs = nowNs - BigInt(newestAgoS + (numberOf(set, index) % spreadS)) * 1_000_000_000n;
    let made = 0;
    const add = (service: string, kind: number, parentSpanId?: string, rest: object = {}): string => {
      const spanId = idOf(16, set, index, (made += 1));
      const number = numberOf(spanId);
      const status = number % 5 === 0 ? { status: { code: 2 } } : {};
      const start = startNs + BigInt(made) * 1_000_000n;
      const endTimeUnixNano = String(start + BigInt(number % 3_000_000_000));
      const own = {
        kind,
        name: `op-${number % 3}`,
        endTimeUnixNano,
        ...(parentSpanId !== undefined && { parentSpanId }),
        ...status,
        ...rest,
      };
      spans.get(service)?.push(span(start, traceId, spanId, own));
      return spanId;
    };
    const call = (from: string, to: string, parent: string): string => add(to, SERVER, add(from, CLIENT, parent));
    const root = add("web", SERVER);
    const shop = call("web", "shop", root);
    add("shop", INTERNAL, shop);
    call("shop", "stock", shop);
    add("pay", SERVER, shop);
    add("shop", CLIENT, shop, { attributes: [stringAttribute("db.system", "postgresql"), stringAttribute("db.namespace", "orders")] });
    const message = add("shop", PRODUCER, shop);
    add("mail", CONSUMER, message);
    add("audit", CONSUMER, undefined, { links: [{ traceId, spanId: message }] });
  }
  return new Map([...spans].map(([service, own]) => [service, tracesBody(own, [stringAttribute("service.name", service)])]));
}

async function send(stores: Stores, bodies: Map<string, Buffer>): Promise<void> {
  const receivedAt = new Date(nowS * 1000);
  // A copy: the decoder takes the memory of a body.
  const sending = [...bodies].map(([service, body]) =>
    stores.ingestTraces(signingKey(orgId, hostOf(service)), Buffer.from(body), { receivedAt }),
  );
  await Promise.all(sending);
}

/** Edges as a backend computes them, and copies of minutes. */
async function summarise(clickhouse: ClickHouse, atS: number): Promise<void> {
  const metrics = { write: async () => undefined };
  await using summaries = new SpanSummaries({
    clickhouse,
    isUnused: () => false,
    metrics,
    retentionDays: 30,
    log,
    nowMs: () => atS * 1000,
    everyMs: 3_600_000,
    deadlineMs: 240_000,
  });
  await summaries.pass(new AbortController().signal);
}

/** Everything that is answered about services, from spans and from copies of their minutes. */
async function figuresOf(clickhouse: ClickHouse, spans: Stores["spans"], copiesUntilS: number): Promise<Record<string, unknown>> {
  const range = { startS: nowS - 40 * HOUR_S, endS: nowS + 60 };
  const filter: RedFilter = { ...range, kind: "entry", points: 60 };
  const all: RedFilter = { ...filter, kind: "all" };
  const family = { ...range, services: SERVICES, kinds: ["SERVER", "CLIENT"], isByOperation: true, points: 30 };
  const found = await clickhouse.read(orgId, { labelLimits: undefined }, async (ask) => ({
    services: await listServices(ask, orgId, filter, 0),
    "services, all kinds": await listServices(ask, orgId, all, 0),
    "services from copies": await listServices(ask, orgId, all, copiesUntilS),
    operations: await listOperations(ask, orgId, { ...all, service: "shop" }, 0),
    points: await readSeries(ask, orgId, { ...filter, service: "stock" }, 0),
    "points from copies": await readSeries(ask, orgId, { ...filter, service: "stock" }, copiesUntilS),
    calls: await metricFamily(ask, orgId, { ...family, question: "calls" }, 0),
    quantiles: await metricFamily(ask, orgId, { ...family, question: { quantile: 0.95 } }, 0),
    counters: [...(await spanSeries(ask, orgId, range)), ...(await edgeSeries(ask, orgId, range))],
  }));
  return Object.fromEntries(
    Object.entries({
      ...found,
      edges: await spans.graph("listEdges", orgId, range),
      dependencies: await spans.graph("jaegerDependencies", orgId, range),
    }).map(([name, value]) => [name, Buffer.isBuffer(value) ? JSON.parse(value.toString()) : value]),
  );
}

/** Spans of each shard. */
async function spansAt(clickhouse: ClickHouse): Promise<number[]> {
  return await Promise.all(
    clickhouse.shards.map(async (shard) =>
      Number((await shard.query<{ n: string }>(sql`SELECT count() AS n FROM spans WHERE org_id = ${orgId}`))[0]?.n),
    ),
  );
}

describe("shards behind HTTP, each in a process", () => {
  let stack: AsyncDisposableStack;
  let servers: ShardServers;
  let one: { clickhouse: ClickHouse; stores: Stores };
  let opened: AsyncDisposableStack;
  let many: { clickhouse: ClickHouse; stores: Stores };

  async function openBackend(shardCount: number): Promise<void> {
    await opened?.disposeAsync();
    opened = new AsyncDisposableStack();
    const clickhouse = opened.use(await openClickHouse({ url: servers.urlOf(shardCount), cluster: CLUSTER, dataDir: servers.folder, log }));
    await prepare(clickhouse, log);
    many = { clickhouse, stores: opened.use(await openStores(clickhouse)) };
  }

  beforeAll(async () => {
    stack = new AsyncDisposableStack();
    servers = stack.use(await startShardServers(3, 2));
    const clickhouse = stack.use(await openClickHouse({ dataDir: stack.use(temporaryFolder()).path, threads: 8, log }));
    await prepare(clickhouse, log);
    one = { clickhouse, stores: stack.use(await openStores(clickhouse)) };
    await openBackend(2);
  });
  afterAll(async () => {
    await opened?.disposeAsync();
    await stack?.disposeAsync();
  });

  const sendToBoth = async (bodies: Map<string, Buffer>): Promise<void> => {
    await send(one.stores, bodies);
    await send(many.stores, bodies);
  };
  const expectSameFigures = async (copiesUntilS: number, ...passesAtS: number[]): Promise<void> => {
    const figures = async ({ clickhouse, stores }: { clickhouse: ClickHouse; stores: Stores }) => {
      for (const atS of passesAtS) await summarise(clickhouse, atS);
      return await figuresOf(clickhouse, stores.spans, copiesUntilS);
    };
    const [expected, found] = [await figures(one), await figures(many)];
    for (const name of Object.keys(expected)) expect(found[name], name).toEqual(expected[name]);
    expect(expected["edges"]).toHaveLength(6);
  };

  it("two shards have the figures of one server, also for repeated bodies", { timeout: 240_000 }, async () => {
    const bodies = bodiesOf("first", 30, 300, 1200);
    await sendToBoth(bodies);
    await sendToBoth(bodies);
    await sendToBoth(bodiesOf("old", 30, 28 * HOUR_S, 2 * HOUR_S));
    expect(Math.min(...(await spansAt(many.clickhouse)))).toBeGreaterThan(0);
    await expectSameFigures(nowS - 26 * HOUR_S, nowS + 10);
  });

  it("late spans, and a third shard that takes over services, do not change the figures", { timeout: 240_000 }, async () => {
    await servers.start(2);
    const wider = await openClickHouse({ url: servers.urlOf(3), cluster: CLUSTER, dataDir: servers.folder, log });
    await prepare(wider, log);
    await wider[Symbol.asyncDispose]();
    servers.list(3);
    await openBackend(3);
    await sendToBoth(bodiesOf("later", 30, 120, 1200));
    expect(Math.min(...(await spansAt(many.clickhouse)))).toBeGreaterThan(0);
    // All minutes are copied a day later.
    await expectSameFigures(nowS + 60, nowS + 20, nowS + 27 * HOUR_S);
  });
});

it("Distributed tables over two shards have the figures of one server", { timeout: 240_000 }, async () => {
  await using shards = await openTwoShards();
  await using stores = await openStores(shards.cluster);
  await send(stores, bodiesOf("first", 30, 300, 1200));
  await send(stores, bodiesOf("old", 30, 28 * HOUR_S, 2 * HOUR_S));
  await summarise(shards.cluster, nowS + 10);
  await keepMinutes(shards.server, 30, new AbortController().signal, nowS * 1000);
  await using alone = await openStores(shards.server);
  const [expected, found] = [
    await figuresOf(shards.server, alone.spans, nowS - 26 * HOUR_S),
    await figuresOf(shards.cluster, stores.spans, nowS - 26 * HOUR_S),
  ];
  for (const name of Object.keys(expected)) expect(found[name], name).toEqual(expected[name]);
  expect(found["edges"]).toHaveLength(6);
  const figures = sql`SELECT service, ${SERVICE_FIGURES} FROM default_distributed.spans GROUP BY service`;
  const plan = await shards.server.query<{ explain: string }>(sql`EXPLAIN ${figures} SETTINGS ${tenantFilter(orgId, "default")}`);
  expect(plan.filter(({ explain }) => explain.includes("ReadFromMergeTree (services)"))).toHaveLength(2);
});

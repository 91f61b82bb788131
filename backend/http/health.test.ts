import { createServer } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { once } from "node:events";
import { expect, test } from "vitest";
import { startHealth, type HealthOptions } from "./health.ts";
import { createLog } from "../log.ts";
import { createOwnMetrics } from "../operations/own-metrics.ts";

const LOOPBACK = { host: "127.0.0.1", port: 0 };

type Options = Partial<Omit<HealthOptions, "checks">> & { checks?: ReturnType<HealthOptions["checks"]> };

async function healthWith(given: Options = {}) {
  const { checks, ...options } = { checks: {}, ...given };
  const ownMetrics = createOwnMetrics({ defaults: false });
  const health = await startHealth({
    listen: LOOPBACK,
    checks: () => checks,
    registry: ownMetrics.registry,
    onChecked: (engine, isUp) => ownMetrics.engineUp(engine, isUp),
    draining: () => false,
    log: createLog("silent"),
    ...options,
  });
  const get = async (path: string, method = "GET") => {
    const answer = await fetch(`http://127.0.0.1:${health.port}${path}`, { method });
    return { status: answer.status, type: answer.headers.get("content-type"), text: await answer.text() };
  };
  return { ownMetrics, get, port: health.port, [Symbol.asyncDispose]: () => health[Symbol.asyncDispose]() };
}

const failing = async () => {
  throw new Error("connect ECONNREFUSED");
};
const silent = () => new Promise<void>(() => undefined);

test("names an engine that fails or times out, and stays ready while the others work", async () => {
  await using health = await healthWith({
    checks: { metrics: async () => undefined, logs: failing, accounts: silent },
    checkTimeoutMs: 50,
  });
  const ready = await health.get("/readyz");
  expect([ready.status, JSON.parse(ready.text)]).toEqual([
    200,
    { status: "degraded", engines: { metrics: "ok", logs: "failing", accounts: "failing" } },
  ]);
  const { text } = await health.get("/metrics");
  for (const line of ['{engine="metrics"} 1', '{engine="logs"} 0', '{engine="accounts"} 0'])
    expect(text).toContain(`atherops_engine_up${line}\n`);
});

test("names failing parts of alerting, and stays ready", async () => {
  let failures: string[] = [];
  await using health = await healthWith({ checks: { metrics: async () => undefined }, alertingFailures: () => failures });
  const ready = async () => {
    const { status, text } = await health.get("/readyz");
    return [status, JSON.parse(text)];
  };
  expect(await ready()).toEqual([200, { status: "ready", engines: { metrics: "ok" } }]);
  failures = ["evaluator", "notification"];
  const alerting = { evaluator: "failing", notification: "failing" };
  expect(await ready()).toEqual([200, { status: "ready", engines: { metrics: "ok" }, alerting }]);
});

test("without any engine only /readyz is 503, and the process stays alive", async () => {
  await using health = await healthWith({ checks: { metrics: failing, accounts: silent }, checkTimeoutMs: 50 });
  expect((await health.get("/healthz")).status).toBe(200);
  const ready = await health.get("/readyz");
  expect([ready.status, JSON.parse(ready.text)]).toEqual([
    503,
    { status: "not ready", engines: { metrics: "failing", accounts: "failing" } },
  ]);
});

test("logs an unavailable engine once, however often it is probed, and once more when it has recovered", async () => {
  const lines: string[] = [];
  const log = createLog("info", "test", { write: (line) => void lines.push(line) });
  let isAway = true;
  await using health = await healthWith({ checks: { metrics: async () => (isAway ? failing() : undefined) }, log });
  for (let probe = 0; probe < 3; probe++) await health.get("/readyz");
  isAway = false;
  for (let probe = 0; probe < 2; probe++) await health.get("/readyz");
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    { level: "warn", engine: "metrics", msg: "engine does not answer" },
    { level: "info", engine: "metrics", msg: "recovered: engine answers", checks: 3 },
  ]);
});

test("is ready while every engine responds, but not while draining", async () => {
  let draining = false;
  await using health = await healthWith({ checks: { metrics: async () => undefined }, draining: () => draining });
  expect(await health.get("/readyz")).toMatchObject({ status: 200, text: expect.stringContaining('"ready"') });
  draining = true;
  expect(await health.get("/readyz")).toMatchObject({ status: 503, text: expect.stringContaining('"draining"') });
});

test("is alive and not ready while the engines start, and probes no engine", async () => {
  await using health = await healthWith({ checks: undefined });
  expect(await health.get("/healthz")).toMatchObject({ status: 200 });
  expect(await health.get("/readyz")).toMatchObject({ status: 503, text: expect.stringContaining('"starting"') });
});

test("/metrics is Prometheus text with what was counted", async () => {
  await using health = await healthWith();
  const { ownMetrics } = health;
  ownMetrics.accepted("logs", 7);
  ownMetrics.dropped("metrics", "before_retention", 2);
  ownMetrics.rejected("traces", "over_quota");
  ownMetrics.finished("/ingest", "POST", 204, 0.02);
  ownMetrics.restarted("victoria-metrics");
  ownMetrics.gauge("ingest_held_bytes", () => 42);
  const { status, type, text } = await health.get("/metrics");
  expect([status, type]).toEqual([200, expect.stringContaining("text/plain")]);
  for (const line of [
    'atherops_ingest_records_accepted_total{signal="logs"} 7',
    'atherops_ingest_records_dropped_total{signal="metrics",reason="before_retention"} 2',
    'atherops_ingest_requests_rejected_total{signal="traces",reason="over_quota"} 1',
    'atherops_http_request_duration_seconds_count{route="/ingest",method="POST",status="204"} 1',
    'atherops_engine_restarts_total{engine="victoria-metrics"} 1',
    "atherops_ingest_held_bytes 42",
  ])
    expect(text).toContain(`${line}\n`);
});

test("exports event-loop lag and memory of the process by default", async () => {
  const ownMetrics = createOwnMetrics();
  const text = await ownMetrics.registry.metrics();
  expect(text).toContain("nodejs_eventloop_lag_p99_seconds");
  expect(text).toContain("process_resident_memory_bytes");
});

test("rejects other paths and methods", async () => {
  await using health = await healthWith();
  expect((await health.get("/")).status).toBe(404);
  expect((await health.get("/healthz", "POST")).status).toBe(405);
});

test("reports a port in use in one sentence that names the setting", async () => {
  const other = createServer().listen(0, "127.0.0.1");
  await once(other, "listening");
  const { port } = other.address() as AddressInfo;
  await expect(healthWith({ listen: { host: "127.0.0.1", port } })).rejects.toThrow(
    `HEALTH_LISTEN: cannot listen on 127.0.0.1:${port}: the port is in use`,
  );
  other.close();
});

test("a client that keeps connections open does not block probes, and open connections are limited", async () => {
  await using health = await healthWith();
  const open = new Set<ReturnType<typeof connect>>();
  for (let index = 0; index < 300; index += 1) {
    const socket = connect(health.port, "127.0.0.1").on("error", () => undefined);
    open.add(socket);
    socket.once("close", () => open.delete(socket)).resume();
    await once(socket, "connect");
  }
  expect((await health.get("/healthz")).status).toBe(200);
  await expect.poll(() => open.size).toBeLessThanOrEqual(256);
  for (const socket of open) socket.destroy();
});

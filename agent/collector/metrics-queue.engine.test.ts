// An agent is upgraded, goes back, and is upgraded again, while metrics wait in the disk queue: what a real collector has queued under one
// exporter, a real collector of the other sends, each point once.
import { readdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, beforeEach, expect, test } from "vitest";
import { startCollector } from "../../test/fixtures/collector.ts";
import { eventually, freeAddresses, temporaryFolder } from "../../test/fixtures/processes.ts";
import { toolPath } from "../../hack/fetch-tools.ts";
import { readSettings } from "../settings.ts";
import { EXPORTER, METRICS_EXPORTER } from "./config.ts";
import { configFromSettings } from "./config-from-settings.ts";
import { Sink } from "./sink.fixture.ts";
import { Supervisor } from "./supervisor.ts";

const BEFORE = "exporter_otlp_http_atherops_metrics";
const NOW = "exporter_otlp_http_atherops-metrics_metrics";
let stack: AsyncDisposableStack;
let folder: string;
let sink: Sink;
let otlpHttp: string;
let config: string;
/** As agents rendered it before metrics had an exporter of their own. */
let configBefore: string;
let said: string[];
let posted: number;

beforeEach(async () => {
  stack = new AsyncDisposableStack();
  folder = stack.use(temporaryFolder()).path;
  sink = stack.use(await Sink.start());
  sink.away = true;
  const [grpc = "", http = ""] = await freeAddresses(2);
  otlpHttp = http;
  const listen = { PROXY_LISTEN: `127.0.0.1:${sink.port}`, OTLP_GRPC_LISTEN: grpc, OTLP_HTTP_LISTEN: http };
  // Nothing waits but what a test posts.
  const overlay = { COLLECTOR_CONFIG_FILE: join(folder, "overlay.yaml") };
  writeFileSync(overlay.COLLECTOR_CONFIG_FILE, "receivers: {hostmetrics: null}");
  const { settings } = readSettings("host", { BACKEND_URL: sink.url, STATE_DIR: folder, SIGNALS: "metrics", ...listen, ...overlay });
  config = configFromSettings(settings);
  configBefore = config.replaceAll(`- ${METRICS_EXPORTER}\n`, `- ${EXPORTER}\n`);
  [said, posted] = [[], 0];
});
afterEach(async () => stack.disposeAsync());

/** The collector of the agent of today. */
async function start(withConfig = config): Promise<Supervisor> {
  const log = pino({ level: "info" }, { write: (line) => void said.push((JSON.parse(line) as { msg: string }).msg) });
  const program = await toolPath("otelcol-contrib");
  const timing = { firstBackoffMs: 50, maxBackoffMs: 400 };
  const supervisor = new Supervisor({ program, stateDir: folder, memoryMib: 200, stopGraceMs: 5000, env: {}, log, timing });
  await supervisor.start(() => withConfig);
  await eventually("the collector runs", async () => Promise.resolve(supervisor.status().state === "running"));
  return supervisor;
}

async function post(count: number): Promise<void> {
  for (const end = posted + count; posted < end; posted++) {
    const gauge = { dataPoints: [{ timeUnixNano: `${1_763_714_400 + posted}000000000`, asInt: "1" }] };
    const body = JSON.stringify({ resourceMetrics: [{ scopeMetrics: [{ metrics: [{ name: `posted_${posted}`, gauge }] }] }] });
    const headers = { "content-type": "application/json" };
    expect((await fetch(`http://${otlpHttp}/v1/metrics`, { method: "POST", headers, body })).status).toBe(200);
  }
}

function arrived(): string[] {
  return [...sink.metrics.join("").matchAll(/"name":"(posted_\d+)"/g)].flatMap(([, name]) => name ?? []);
}

function queues(): string[] {
  return readdirSync(join(folder, "queue"))
    .filter((name) => name.startsWith("exporter_"))
    .sort();
}

async function everyPointOnce(): Promise<void> {
  const all = Array.from({ length: posted }, (_, i) => `posted_${i}`);
  await eventually("every point is there", async () => Promise.resolve(new Set(arrived()).size === posted), 60_000);
  expect(arrived().toSorted()).toEqual(all.toSorted());
}

test("what waits when the agent is upgraded is sent, once, from the queue's new name", async () => {
  {
    await using collector = await startCollector(join(folder, "before"), configBefore);
    await collector.ready(AbortSignal.timeout(60_000));
    await post(20);
  }
  expect(queues()).toEqual([BEFORE]);
  const supervisor = await start();
  expect(queues()).toEqual([NOW]);
  await post(5);
  sink.away = false;
  await everyPointOnce();
  await supervisor[Symbol.asyncDispose]();
  expect(said.filter((line) => line.includes("queue"))).toEqual([`the disk queue of metrics is called ${NOW} now`]);
});

test("what waits under both names, after going back and an upgrade again, is sent once: the one after the other", async () => {
  {
    await using supervisor = await start();
    await post(10);
    expect([supervisor.status().state, queues()]).toEqual(["running", [NOW]]);
  }
  {
    await using collector = await startCollector(join(folder, "before"), configBefore);
    await collector.ready(AbortSignal.timeout(60_000));
    await post(10);
  }
  expect(queues()).toEqual([NOW, BEFORE].toSorted());
  {
    await using supervisor = await start();
    expect(said.join("\n")).toContain(`metrics may wait in ${join(folder, "queue", BEFORE)} too`);
    expect([supervisor.status().state, queues()]).toEqual(["running", [NOW, BEFORE].toSorted()]);
    sink.away = false;
    await eventually("its own are sent", async () => Promise.resolve(arrived().length === 10));
  }
  stack.use(await start());
  expect(queues()).toEqual([NOW]);
  await everyPointOnce();
});

test("a configuration from before that runs again has the queue under its name", async () => {
  {
    await using supervisor = await start();
    await post(10);
    expect(supervisor.status().state).toBe("running");
  }
  stack.use(await start(configBefore));
  expect(queues()).toEqual([BEFORE]);
  sink.away = false;
  await everyPointOnce();
});

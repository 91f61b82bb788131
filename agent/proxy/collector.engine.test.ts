// A real collector exports to the proxy with the configuration that the agent renders: host metrics into a real VictoriaMetrics, logs
// through an outage.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { pino } from "pino";
import { afterEach, expect, it } from "vitest";
import { toolPath } from "../../hack/fetch-tools.ts";
import { eventually, freePorts, temporaryFolder } from "../../test/fixtures/processes.ts";
import { convertMetrics } from "../../backend/ingest/otlp/metrics/convert-metrics.ts";
import { SIGNATURE_HEADER, TIMESTAMP_HEADER, verify } from "../../common/protocol/signature.ts";
import { createUpstream } from "../upstream/pool.ts";
import { type Proxy, startProxy } from "./server.ts";

let cleanUp = new AsyncDisposableStack();
afterEach(async () => {
  await cleanUp.disposeAsync();
  cleanUp = new AsyncDisposableStack();
});

async function run(tool: string, args: string[]): Promise<void> {
  const child = spawn(await toolPath(tool), args, { stdio: "ignore" });
  cleanUp.defer(async () => {
    child.kill();
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  });
}

/** A backend that checks signatures and hands accepted bodies to `store`. */
async function startBackend(store: (path: string, body: Buffer, response: ServerResponse) => Promise<void> | void): Promise<string> {
  const server = createServer(async (request: IncomingMessage, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const [timestamp, signature] = [String(request.headers[TIMESTAMP_HEADER]), String(request.headers[SIGNATURE_HEADER])];
    if (!verify("ak_collector", timestamp, "POST", request.url ?? "", signature)) return response.writeHead(401).end();
    await store(request.url ?? "", Buffer.concat(chunks), response);
    return response.writeHead(response.statusCode === 200 ? 204 : response.statusCode).end();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  cleanUp.defer(async () => {
    server.closeAllConnections();
    await new Promise((done) => server.close(done));
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

async function startProxyTo(backendUrl: string): Promise<Proxy> {
  const upstream = cleanUp.use(createUpstream({ backendUrl }));
  const credential = { id: "cluster", apiKey: "ak_collector", keyCreatedAt: "2026-11-01T00:00:00Z" };
  const credentials = { current: () => credential, refresh: async () => credential };
  const clock = { nowUnixS: () => Date.now() / 1000 };
  const options = { upstream, credentials, clock, compression: "none", log: pino({ level: "silent" }) } as const;
  return cleanUp.use(await startProxy({ ...options, listen: { host: "127.0.0.1", port: 0 } }));
}

async function startCollector(proxy: Proxy, receivers: object, signal: "metrics" | "logs"): Promise<void> {
  const folder = cleanUp.use(temporaryFolder());
  const config = {
    receivers,
    exporters: {
      "otlp_http/proxy": {
        endpoint: `http://127.0.0.1:${proxy.port}`,
        encoding: signal === "metrics" ? "proto" : "json",
        compression: "none",
        retry_on_failure: { initial_interval: "100ms", max_interval: "500ms", max_elapsed_time: "0s" },
      },
    },
    service: {
      telemetry: { metrics: { level: "none" }, logs: { level: "error" } },
      pipelines: { [signal]: { receivers: Object.keys(receivers), exporters: ["otlp_http/proxy"] } },
    },
  };
  const file = join(folder.path, "config.yaml");
  writeFileSync(file, JSON.stringify(config));
  await run("otelcol-contrib", ["--config", file]);
}

it("delivers every line of the host's metrics to VictoriaMetrics", async () => {
  const folder = cleanUp.use(temporaryFolder());
  const [port] = await freePorts(1);
  const engine = `http://127.0.0.1:${port}`;
  await run("victoria-metrics", [
    `-storageDataPath=${folder.path}`,
    `-httpListenAddr=127.0.0.1:${port}`,
    "-loggerLevel=ERROR",
    "-inmemoryDataFlushInterval=1s",
  ]);
  await eventually("VictoriaMetrics answers", async () => (await fetch(`${engine}/health`)).ok);
  let lines = 0;
  const backendUrl = await startBackend(async (path, body, response) => {
    const text = Buffer.concat(convertMetrics({ body, encoding: "protobuf" }).texts);
    lines += text.toString().split("\n").length - 1;
    const answer = await fetch(`${engine}/api/v1/import/prometheus`, { method: "POST", body: text });
    if (path !== "/ingest" || answer.status !== 204) response.statusCode = 500;
  });
  const proxy = await startProxyTo(backendUrl);
  const scrapers = Object.fromEntries(
    ["cpu", "load", "memory", "disk", "filesystem", "network", "paging", "processes"].map((name) => [name, {}]),
  );
  await startCollector(proxy, { hostmetrics: { collection_interval: "1s", initial_delay: "0s", scrapers } }, "metrics");
  await eventually("two scrapes are through", async () => proxy.status().metrics.accepted >= 2);
  const names = async (): Promise<string[]> =>
    ((await (await fetch(`${engine}/api/v1/label/__name__/values`)).json()) as { data: string[] }).data;
  const expected = [
    "system_cpu_time_seconds_total",
    "system_cpu_load_average_1m",
    "system_memory_usage_bytes",
    "system_filesystem_usage_bytes",
    "system_network_io_bytes_total",
  ];
  await eventually("the names are found", async () => {
    const found = await names();
    return expected.every((name) => found.includes(name));
  });
  const left = (await (await fetch(`${engine}/metrics`)).text())
    .split("\n")
    .filter((line) => /^vm_rows_(?:invalid|ignored)_total.* [^0]/.test(line));
  expect(left).toEqual([]);
  expect(lines).toBeGreaterThan(100);
  expect(proxy.status().metrics).toMatchObject({ retried: 0, refused: 0, droppedPoints: {} });
});

it("stores each log once although the backend returns every status except 204", async () => {
  const outage = [401, 403, 404, 408, 500, 502, 503, 400, 413, 302];
  const seen: string[] = [];
  const backendUrl = await startBackend((_, body, response) => {
    const status = outage.shift();
    if (status !== undefined) response.statusCode = status;
    else
      seen.push(
        ...body
          .toString("utf8")
          .matchAll(/"stringValue":"(line-\d+)"/g)
          .map((match) => match[1] ?? ""),
      );
  });
  const proxy = await startProxyTo(backendUrl);
  const [port] = await freePorts(1);
  await startCollector(proxy, { otlp: { protocols: { http: { endpoint: `127.0.0.1:${port}` } } } }, "logs");
  const all = Array.from({ length: 20 }, (_, index) => `line-${index}`);
  for (const stringValue of all) {
    const record = { timeUnixNano: "1763714400000000000", body: { stringValue } };
    const body = JSON.stringify({ resourceLogs: [{ scopeLogs: [{ logRecords: [record] }] }] });
    const send = () => fetch(`http://127.0.0.1:${port}/v1/logs`, { method: "POST", body, headers: { "content-type": "application/json" } });
    await eventually("the collector takes a log", async () => (await send()).ok);
  }
  await eventually("all lines arrive", async () => seen.length >= all.length);
  expect(seen.toSorted()).toEqual(all.toSorted());
  expect(outage).toEqual([]);
  expect(proxy.status().logs).toMatchObject({ refused: 0, failingSince: null });
});

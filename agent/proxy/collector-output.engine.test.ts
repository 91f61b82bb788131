// Checks that the kernel supports what a real collector sends about a host, a kubelet and scraped programs. Metrics that it leaves to
// TypeScript would be converted too, but cost more.
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { spawn } from "node:child_process";
import { collectDefaultMetrics, Counter, Histogram, Registry } from "prom-client";
import { afterAll, beforeAll, expect, test } from "vitest";
import { toolPath } from "../../hack/fetch-tools.ts";
import { eventually, temporaryFolder } from "../../test/fixtures/processes.ts";
import { MetricsConverter } from "../../common/otlp-metrics/converter.ts";
import { FastConverter } from "./fast-exposition.ts";

const LARGE = 32 * 1024 * 1024;
const SCRAPES = 3;
const WITHIN_MS = 120_000;
const SOURCES = ["host", "kubelet", "scrape"] as const;

const stack = new AsyncDisposableStack();
afterAll(async () => await stack.disposeAsync());

/** Received bodies by source. */
const bodies = Object.fromEntries(SOURCES.map((source) => [source, [] as Buffer[]])) as Record<(typeof SOURCES)[number], Buffer[]>;

async function serve(answer: RequestListener): Promise<string> {
  const server = createServer(answer).listen(0, "127.0.0.1");
  await once(server, "listening");
  stack.defer(async () => {
    server.closeAllConnections();
    await new Promise((done) => server.close(done));
  });
  return `127.0.0.1:${(server.address() as AddressInfo).port}`;
}

beforeAll(async () => {
  const sink = await serve(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    const source = SOURCES.find((name) => request.url?.startsWith(`/${name}/`));
    if (source) bodies[source].push(Buffer.concat(chunks));
    response.writeHead(200, { "content-type": "application/json" }).end("{}");
  });
  const kubelet = await serve((_request, response) => response.end(JSON.stringify(statsSummary())));
  const registry = program();
  const scraped = await serve(async (_request, response) => response.end(await registry.metrics()));
  const scrapers = Object.fromEntries(
    ["cpu", "load", "memory", "disk", "filesystem", "network", "paging", "processes"].map((name) => [name, {}]),
  );
  const receivers = {
    host: { hostmetrics: { collection_interval: "1s", initial_delay: "0s", scrapers } },
    kubelet: {
      kubeletstats: {
        collection_interval: "1s",
        initial_delay: "0s",
        auth_type: "none",
        endpoint: `http://${kubelet}`,
        metric_groups: ["node", "pod", "container", "volume"],
      },
    },
    scrape: {
      prometheus: {
        config: {
          scrape_configs: [{ job_name: "program", scrape_interval: "1s", scrape_timeout: "1s", static_configs: [{ targets: [scraped] }] }],
        },
      },
    },
  };
  await startCollector(receivers, sink);
});

async function startCollector(receivers: Record<(typeof SOURCES)[number], object>, sink: string): Promise<void> {
  const exporter = (source: string) => ({ endpoint: `http://${sink}/${source}`, encoding: "json", compression: "none" });
  const config = {
    receivers: Object.assign({}, ...Object.values(receivers)) as object,
    processors: { resource: { attributes: [{ key: "host.name", value: "node-1", action: "insert" }] } },
    exporters: Object.fromEntries(SOURCES.map((source) => [`otlp_http/${source}`, exporter(source)])),
    service: {
      telemetry: { metrics: { level: "none" }, logs: { level: "error" } },
      pipelines: Object.fromEntries(
        SOURCES.map((source) => [
          `metrics/${source}`,
          { receivers: Object.keys(receivers[source]), processors: ["resource"], exporters: [`otlp_http/${source}`] },
        ]),
      ),
    },
  };
  const file = join(stack.use(temporaryFolder()).path, "config.yaml");
  writeFileSync(file, JSON.stringify(config));
  const child = spawn(await toolPath("otelcol-contrib"), ["--config", file], { stdio: ["ignore", "inherit", "inherit"] });
  stack.defer(async () => {
    child.kill();
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  });
}

/** The metrics of a Node.js program that is scraped. */
function program(): Registry {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  const requests = new Counter({
    name: "http_requests_total",
    help: "Requests.",
    labelNames: ["method", "route", "code"],
    registers: [registry],
  });
  const duration = new Histogram({
    name: "http_request_duration_seconds",
    help: "Duration.",
    labelNames: ["route"],
    registers: [registry],
  });
  for (let index = 0; index < 200; index += 1) {
    requests.inc({ method: "GET", route: `/api/items/"${index % 40}"`, code: String(200 + (index % 3)) });
    duration.observe({ route: `/api/items/${index % 20}` }, index / 17);
  }
  return registry;
}

/** A kubelet's response for a node with 30 pods. */
function statsSummary(): object {
  const time = new Date().toISOString();
  const startTime = new Date(Date.now() - 3_600_000).toISOString();
  const cpu = { time, usageNanoCores: 123_456_789, usageCoreNanoSeconds: Date.now() * 1000 };
  const memory = {
    time,
    availableBytes: 1e9,
    usageBytes: 5e8,
    workingSetBytes: 4e8,
    rssBytes: 3e8,
    pageFaults: 12_345,
    majorPageFaults: 3,
  };
  const fs = { time, availableBytes: 1e10, capacityBytes: 2e10, usedBytes: 1e10, inodesFree: 1000, inodes: 2000, inodesUsed: 1000 };
  const network = { time, name: "eth0", rxBytes: 123_456_789, rxErrors: 0, txBytes: 987_654_321, txErrors: 1 };
  const pods = Array.from({ length: 30 }, (_, index) => ({
    podRef: { name: `checkout-7d9c5b6f4d-${index}`, namespace: "shop", uid: `8f14e45f-ceea-467f-9a0b-${String(index).padStart(12, "0")}` },
    startTime,
    containers: [{ name: "server", startTime, cpu, memory, rootfs: fs, logs: fs }],
    cpu,
    memory,
    network: { ...network, interfaces: [network] },
    volume: [{ ...fs, name: "data" }],
    "ephemeral-storage": fs,
  }));
  return { node: { nodeName: "node-1", startTime, cpu, memory, network: { ...network, interfaces: [network] }, fs }, pods };
}

test.each(SOURCES)("the kernel converts all metrics of a %s", { timeout: 2 * WITHIN_MS }, async (source) => {
  await eventually(`${SCRAPES} bodies of a ${source} came`, async () => bodies[source].length >= SCRAPES, WITHIN_MS);
  const kernel = new FastConverter(readFileSync(new URL("./kernel.wasm", import.meta.url)));
  let lines = 0;
  for (const body of bodies[source]) {
    const words = Buffer.concat([...new MetricsConverter(() => {}).convert(body, LARGE)]);
    const fast = kernel.convert(body, LARGE);
    expect(fast?.text.toString()).toBe(words.toString());
    lines += words.toString().split("\n").length - 1;
  }
  const left = kernel.left.lines + kernel.left.points;
  console.log(`${source}: ${bodies[source].length} bodies, ${lines} lines, ${left} of them left by the kernel`);
  expect(lines).toBeGreaterThan(100);
  expect(left / lines).toBeLessThan(0.01);
});

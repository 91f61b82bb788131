// Checks that the kernel supports what a real collector sends: plain and structured log lines, and spans of OpenTelemetry's own libraries,
// exported as an agent's collector exports them. Bodies that the kernel does not support would be decoded too, but cost more.
import { decodeSlowPath } from "./otlp-body.fixture.ts";
import { once } from "node:events";
import { appendFileSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { spawn } from "node:child_process";
import { type Link, SpanKind, SpanStatusCode, TraceFlags } from "@opentelemetry/api";
import { OTLPTraceExporter as GrpcExporter } from "@opentelemetry/exporter-trace-otlp-grpc";
import { OTLPTraceExporter as HttpExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BasicTracerProvider, BatchSpanProcessor, type SpanExporter } from "@opentelemetry/sdk-trace-base";
import { afterAll, beforeAll, expect, test } from "vitest";
import { toolPath } from "../../../hack/fetch-tools.ts";
import { eventually, freePorts, temporaryFolder } from "../../../test/fixtures/processes.ts";
import { KERNEL_LIMITS } from "./decode-body.ts";
import { Kernel, KERNEL_FILE } from "./fast-decode.ts";

const CONTEXT = { orgId: "org", hostId: "host", node: "", receivedAtMs: Date.now(), firstId: "1", bodyHash: "42", retentionDays: 30 };
const LINES = 4000;
const TRACES = 300;
const WITHIN_MS = 120_000;

const stack = new AsyncDisposableStack();
afterAll(async () => await stack.disposeAsync());

/** What came, by signal. */
const bodies: Record<"logs" | "traces", Buffer[]> = { logs: [], traces: [] };
let folder: string;
let grpc: number;
let http: number;

beforeAll(async () => {
  folder = stack.use(temporaryFolder()).path;
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk as Buffer);
    bodies[request.url?.endsWith("/logs") ? "logs" : "traces"].push(Buffer.concat(chunks));
    response.writeHead(204).end();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  stack.defer(async () => {
    server.closeAllConnections();
    await new Promise((done) => server.close(done));
  });
  [grpc, http] = (await freePorts(2)) as [number, number];
  await startCollector(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
});

async function startCollector(endpoint: string): Promise<void> {
  for (const name of ["plain", "json"]) writeFileSync(join(folder, `${name}.log`), "");
  const files = (name: string) => ({
    include: [join(folder, `${name}.log`)],
    start_at: "beginning",
    poll_interval: "50ms",
    include_file_path: true,
  });
  const structured = { type: "json_parser", parse_to: "body", severity: { parse_from: "body.level" } };
  const config = {
    receivers: {
      otlp: { protocols: { grpc: { endpoint: `127.0.0.1:${grpc}` }, http: { endpoint: `127.0.0.1:${http}` } } },
      "file_log/plain": files("plain"),
      "file_log/json": { ...files("json"), operators: [structured] },
    },
    processors: { resource: { attributes: [{ key: "host.name", value: "node-1", action: "insert" }] } },
    exporters: { otlp_http: { endpoint, encoding: "json", compression: "none" } },
    service: {
      telemetry: { metrics: { level: "none" }, logs: { level: "error" } },
      pipelines: {
        logs: { receivers: ["file_log/plain", "file_log/json", "otlp"], processors: ["resource"], exporters: ["otlp_http"] },
        traces: { receivers: ["otlp"], processors: ["resource"], exporters: ["otlp_http"] },
      },
    },
  };
  const file = join(folder, "config.yaml");
  writeFileSync(file, JSON.stringify(config));
  const child = spawn(await toolPath("otelcol-contrib"), ["--config", file], { stdio: ["ignore", "inherit", "inherit"] });
  stack.defer(async () => {
    child.kill();
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  });
  await eventually("the collector takes OTLP", async () => {
    const empty = { method: "POST", headers: { "content-type": "application/json" }, body: '{"resourceLogs":[]}' };
    return (await fetch(`http://127.0.0.1:${http}/v1/logs`, empty).catch(() => undefined))?.ok;
  });
}

/** How many records came in all, and how many of them by bodies that the kernel took; it makes what the other decoder makes. */
function shares(signal: "logs" | "traces"): { records: number; taken: number } {
  const kernel = new Kernel(readFileSync(KERNEL_FILE));
  const counts = { records: 0, taken: 0 };
  for (const body of bodies[signal]) {
    const words = decodeSlowPath({ signal, body, context: CONTEXT });
    const fast = kernel.read(signal, { bytes: body }, CONTEXT, KERNEL_LIMITS)?.take("42");
    counts.records += words.accepted;
    if (!fast) continue;
    counts.taken += fast.accepted;
    expect(fast.sections).toEqual(words.sections);
  }
  return counts;
}

async function cameIn(signal: "logs" | "traces", records: number): Promise<void> {
  let came = 0;
  let counted = 0;
  await eventually(
    `${records} records came`,
    async () => {
      for (; counted < bodies[signal].length; counted += 1) {
        came += decodeSlowPath({ signal, body: bodies[signal][counted] as Buffer, context: CONTEXT }).accepted;
      }
      return came >= records;
    },
    WITHIN_MS,
  );
}

test("the kernel decodes lines of files, plain and structured", { timeout: 2 * WITHIN_MS }, async () => {
  const plain = (line: number) =>
    `2026-11-22 10:00:00 INFO GET /api/items/${line} "agent \\ ${line % 7 === 0 ? "é 日本 😀\t" : ""}" in ${line % 900} ms`;
  const json = (line: number) =>
    JSON.stringify({
      level: ["debug", "info", "warn", "error"][line % 4],
      message: `served "${line}"\nat a.b(C.java:1)`,
      took: line / 7,
      status: 200 + (line % 300),
      ok: line % 2 === 0,
      nothing: null,
      user: { id: line, roles: ["a", "b"], tags: {} },
    });
  for (const [name, make] of [
    ["plain", plain],
    ["json", json],
  ] as const) {
    appendFileSync(join(folder, `${name}.log`), `${Array.from({ length: LINES }, (_, line) => make(line)).join("\n")}\n`);
  }
  await cameIn("logs", 2 * LINES);
  const { records, taken } = shares("logs");
  console.log(`logs: ${bodies.logs.length} bodies, ${taken} of ${records} records taken`);
  expect(taken / records).toBeGreaterThanOrEqual(0.99);
});

test("the kernel decodes spans of applications, over gRPC and HTTP", { timeout: 2 * WITHIN_MS }, async () => {
  await Promise.all([
    sendSpans(new GrpcExporter({ url: `http://127.0.0.1:${grpc}` }), "over-grpc"),
    sendSpans(new HttpExporter({ url: `http://127.0.0.1:${http}/v1/traces` }), "over-http"),
  ]);
  await cameIn("traces", 2 * 2 * TRACES);
  const { records, taken } = shares("traces");
  console.log(`spans: ${bodies.traces.length} bodies, ${taken} of ${records} spans taken`);
  expect(taken / records).toBeGreaterThanOrEqual(0.99);
});

async function sendSpans(exporter: SpanExporter, service: string): Promise<void> {
  const resource = resourceFromAttributes({
    "service.name": service,
    "service.instance.id": "7",
    "process.command_args": ["node", "--a", "b c"],
    "process.pid": 7,
  });
  const provider = new BasicTracerProvider({ resource, spanProcessors: [new BatchSpanProcessor(exporter, { scheduledDelayMillis: 50 })] });
  const tracer = provider.getTracer("http", "0.223.1");
  const link: Link = {
    context: { traceId: "0af7651916cd43dd8448eb211c80319c", spanId: "b7ad6b7169203331", traceFlags: TraceFlags.SAMPLED },
    attributes: { why: "batch" },
  };
  for (let trace = 0; trace < TRACES; trace += 1) {
    const attributes = {
      "http.route": `/items/${trace}`,
      "http.response.status_code": 200,
      "took.ms": trace / 3,
      cached: trace % 2 === 0,
      hosts: ["a", "b"],
    };
    const root = tracer.startSpan(`GET /items/${trace % 9}`, {
      kind: SpanKind.SERVER,
      root: true,
      attributes,
      links: trace % 10 === 0 ? [link] : [],
    });
    const child = tracer.startSpan("SELECT", { kind: SpanKind.CLIENT, attributes: { "db.query.text": `SELECT "a" FROM b -- ${trace}` } });
    if (trace % 5 === 0) child.recordException(new Error("no rows"));
    child.addEvent("row", { number: trace, share: 0.1 });
    child.setStatus(trace % 5 === 0 ? { code: SpanStatusCode.ERROR, message: "no rows\n" } : { code: SpanStatusCode.OK });
    child.end();
    root.end();
  }
  await provider.forceFlush();
  await provider.shutdown();
}

// Unmodified programs send with an ingest token: a real collector with the configurations of docs/guides/send (OTLP in both encodings, gRPC
// and remote write), and the OpenTelemetry SDK of Node.js, configured by environment variables only. Everything is stored under the token's
// identity.
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { Client, credentials, Metadata } from "@grpc/grpc-js";
import { OTLPTraceExporter as OTLPGrpcExporter } from "@opentelemetry/exporter-trace-otlp-grpc";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BasicTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { afterAll, beforeAll, expect, test } from "vitest";
import { encodeProtobuf } from "../../backend/ingest/otlp/protobuf/encode.fixture.ts";
import { toolPath } from "../../hack/fetch-tools.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { call, eventually, freePorts, ROOT } from "../fixtures/processes.ts";

const [grpcPort] = await freePorts(1);
const grpcUrl = `http://127.0.0.1:${grpcPort}`;
const backend = backendOfFile({ JWT_TTL: "2h", INGEST_TOKENS: "true", OTLP_GRPC_LISTEN: `127.0.0.1:${grpcPort}` });
const configuration = configurationOf("collector.md");
const WITHIN_MS = 120_000;
const stack = new AsyncDisposableStack();
let bearer: string;

beforeAll(async () => {
  bearer = await backend.operator();
});
afterAll(async () => await stack.disposeAsync());

/** The collector's configuration on a page of the guide. */
function configurationOf(page: string): string {
  const text = readFileSync(join(ROOT, "docs/guides/send", page), "utf8");
  const blocks = [...text.matchAll(/(?<=```yaml\n)[^]*?(?=```)/g)].map(([block]) => block);
  return blocks.find((block) => block.startsWith("receivers:")) ?? "";
}

async function newToken(name: string): Promise<string> {
  const answer = await call("POST", `${backend.apiUrl}/api/ingest-tokens`, { bearer, body: { name } });
  expect(answer.status, answer.text).toBe(201);
  return answer.json.token;
}

/** Returns where the collector takes OTLP/JSON. */
async function startCollector(name: string, text: string, token: string, signal = "logs"): Promise<string> {
  const [port] = await freePorts(1);
  const endpoint = `127.0.0.1:${port}`;
  const file = join(backend.folder, `${name}.yaml`);
  const quiet = "service:\n  telemetry: { metrics: { level: none }, logs: { level: warn } }\n";
  writeFileSync(file, text.replace("127.0.0.1:4318", endpoint).replace("service:\n", quiet));
  const env = { BACKEND_URL: backend.apiUrl, GRPC_URL: grpcUrl, INGEST_TOKEN: token };
  const child = spawn(await toolPath("otelcol-contrib"), ["--config", file], { stdio: ["ignore", "inherit", "inherit"], env });
  stack.defer(async () => {
    child.kill();
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  });
  const empty = { method: "POST", headers: { "content-type": "application/json" }, body: "{}" };
  await eventually(
    "the collector takes OTLP",
    async () => (await fetch(`http://${endpoint}/v1/${signal}`, empty).catch(() => undefined))?.ok,
  );
  return `http://${endpoint}`;
}

function documents(
  service: string,
  { traceId, timeMs }: { traceId?: string; timeMs?: number } = {},
): Record<"logs" | "traces" | "metrics", object> {
  const resource = { attributes: [{ key: "service.name", value: { stringValue: service } }] };
  const now = `${timeMs ?? Date.now()}000000`;
  const record = { timeUnixNano: now, severityText: "WARN", body: { stringValue: `hello from ${service}` } };
  const span = {
    traceId: traceId ?? randomUUID().replaceAll("-", ""),
    spanId: "b".repeat(16),
    name: "work",
    startTimeUnixNano: now,
    endTimeUnixNano: now,
  };
  const exemplars = [{ timeUnixNano: now, asInt: "7", traceId: span.traceId, spanId: span.spanId }];
  const sum = { aggregationTemporality: 2, isMonotonic: true, dataPoints: [{ timeUnixNano: now, asInt: "42", exemplars }] };
  return {
    logs: { resourceLogs: [{ resource, scopeLogs: [{ logRecords: [record] }] }] },
    traces: { resourceSpans: [{ resource, scopeSpans: [{ spans: [span] }] }] },
    metrics: { resourceMetrics: [{ resource, scopeMetrics: [{ metrics: [{ name: "sent.things", sum }] }] }] },
  };
}

async function read(path: string) {
  const answer = await call("GET", `${backend.apiUrl}${path}`, { bearer });
  expect(answer.status, answer.text).toBe(200);
  return answer.json;
}

const spansOf = async (service: string): Promise<object[]> => await read(`/query/traces?service=${service}`);

/** The result of an instant query, once it has a series. */
async function storedSeries(query: string): Promise<object[]> {
  const path = `/query/prometheus/api/v1/query?query=${encodeURIComponent(query)}`;
  return await backend.shows(
    "the sample is stored",
    async () => {
      const { result } = (await read(path)).data;
      return result.length > 0 && result;
    },
    WITHIN_MS,
  );
}

/** The exemplars of a series, without its labels, once there are any. */
async function storedExemplars(query: string): Promise<object[]> {
  const path = `/query/prometheus/api/v1/query_exemplars?query=${encodeURIComponent(query)}`;
  return await eventually(
    "the exemplar is stored",
    async () => {
      const { data } = await read(path);
      return data.length > 0 && data.flatMap(({ exemplars }: { exemplars: object[] }) => exemplars);
    },
    WITHIN_MS,
  );
}

test.each([
  ["encoding: proto", configuration],
  ["encoding: json", configuration.replace("encoding: proto", "encoding: json")],
  // The test has no TLS.
  ["gRPC", configurationOf("grpc.md").replace("compression: gzip", "compression: gzip\n    tls: { insecure: true }")],
])("a collector sends all signals with %s", { timeout: 4 * WITHIN_MS }, async (way, text) => {
  const node = `collector-${way.replaceAll(/\W+/g, "-")}`;
  expect(configuration).toContain("encoding: proto");
  const address = await startCollector(node, text, await newToken(node));
  const service = `${node}-service`;
  for (const [signal, document] of Object.entries(documents(service))) {
    const answer = await call("POST", `${address}/v1/${signal}`, { body: document });
    expect(answer.status, answer.text).toBe(200);
  }
  const logs = await eventually(
    "the log record is stored",
    async () => {
      const rows = await read(`/query/logs?q=${encodeURIComponent(`hello from ${service}`)}`);
      return rows.length > 0 && rows;
    },
    WITHIN_MS,
  );
  expect(logs).toMatchObject([{ node, level: "warn", source: service }]);
  await eventually("the span is stored", async () => (await spansOf(service)).length === 1, WITHIN_MS);
  const series = await storedSeries(`sent_things_total{job="${service}"}`);
  expect(series).toMatchObject([{ metric: { node, job: service }, value: [expect.any(Number), "42"] }]);
  expect(await storedExemplars(`sent_things_total{job="${service}"}`)).toMatchObject([{ value: "7", labels: { span_id: "b".repeat(16) } }]);
});

test("a collector sends metrics by remote write", { timeout: 2 * WITHIN_MS }, async () => {
  const node = "collector-write";
  const address = await startCollector(node, configurationOf("prometheus.md"), await newToken(node), "metrics");
  const { metrics } = documents("write-service");
  const answer = await call("POST", `${address}/v1/metrics`, { body: metrics });
  expect(answer.status, answer.text).toBe(200);
  const series = await storedSeries('sent_things_total{job="write-service"}');
  expect(series).toMatchObject([{ metric: { node, job: "write-service" }, value: [expect.any(Number), "42"] }]);
});

test("the same telemetry as JSON, as protobuf and by gRPC becomes the same rows and series", { timeout: 2 * WITHIN_MS }, async () => {
  const stored: unknown[] = [];
  const client = new Client(grpcUrl.slice("http://".length), credentials.createInsecure());
  for (const way of ["json", "protobuf", "grpc"] as const) {
    const token = await newToken("same");
    const service = `same-${way}`;
    for (const [signal, document] of Object.entries(documents(service, SAME)) as ["logs" | "traces" | "metrics", object][]) {
      const body = way === "json" ? Buffer.from(JSON.stringify(document)) : encodeProtobuf(signal, document);
      if (way === "grpc") await callGrpc(client, signal, body, token);
      else await postOtlp(signal, body, { "x-api-key": token, "content-type": `application/${way === "json" ? "json" : "x-protobuf"}` });
    }
    // With the times of the samples.
    const metrics = await storedSeries(`{job="${service}"}[10m]`);
    const exemplars = await storedExemplars(`sent_things_total{job="${service}"}`);
    expect(exemplars).toEqual([{ labels: { trace_id: SAME.traceId, span_id: "b".repeat(16) }, value: "7", timestamp: SAME.timeMs / 1000 }]);
    const [logs, spans] = [await read(`/query/logs?source=${service}`), await spansOf(service)];
    expect([logs.length, spans.length], way).toEqual([1, 1]);
    stored.push(JSON.parse(JSON.stringify([logs, spans, metrics, exemplars]).replaceAll(service, "service"), withoutIds));
  }
  client.close();
  expect(stored[1]).toEqual(stored[0]);
  expect(stored[2]).toEqual(stored[0]);
});

async function postOtlp(signal: string, body: Buffer, headers: Record<string, string>): Promise<void> {
  const answer = await call("POST", `${backend.apiUrl}/v1/${signal}`, { body, headers });
  expect(answer.status, answer.text).toBe(200);
}

const SAME = { traceId: randomUUID().replaceAll("-", ""), timeMs: Date.now() - 5000 };

/** Removes ids of the record and of the token, and times of receipt. */
function withoutIds(key: string, value: unknown): unknown {
  return ["id", "host_id", "received_at", "ingested_at"].includes(key) ? undefined : value;
}

const SERVICES = { logs: "logs.v1.LogsService", traces: "trace.v1.TraceService", metrics: "metrics.v1.MetricsService" };

async function callGrpc(client: Client, signal: keyof typeof SERVICES, message: Buffer, token: string): Promise<void> {
  const metadata = new Metadata();
  metadata.set("authorization", `Bearer ${token}`);
  const same = (bytes: Buffer): Buffer => bytes;
  const path = `/opentelemetry.proto.collector.${SERVICES[signal]}/Export`;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  client.makeUnaryRequest(path, same, same, message, metadata, (error) => (error ? reject(error) : resolve()));
  await promise;
}

test.each(["http", "grpc"])("the SDK of Node.js sends by environment variables alone: %s", { timeout: WITHIN_MS }, async (protocol) => {
  const service = `sdk-${protocol}`;
  const variables = {
    OTEL_EXPORTER_OTLP_ENDPOINT: protocol === "grpc" ? grpcUrl : backend.apiUrl,
    OTEL_EXPORTER_OTLP_HEADERS: `x-api-key=${await newToken(service)}`,
  };
  Object.assign(process.env, variables);
  try {
    const provider = new BasicTracerProvider({
      resource: resourceFromAttributes({ "service.name": service }),
      spanProcessors: [new SimpleSpanProcessor(protocol === "grpc" ? new OTLPGrpcExporter() : new OTLPTraceExporter())],
    });
    provider.getTracer("test").startSpan("sdk-span").end();
    await provider.shutdown();
  } finally {
    for (const name of Object.keys(variables)) delete process.env[name];
  }
  await eventually("the span is stored", async () => (await spansOf(service)).length > 0, WITHIN_MS);
  expect(await spansOf(service)).toHaveLength(1);
});

// Programs send with an ingest token as they are: a real collector by the configuration of docs/guides/send/collector.md, with both encodings,
// and the OpenTelemetry SDK of Node.js by environment variables alone. Everything is stored under the identity of the token.
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BasicTracerProvider, SimpleSpanProcessor } from "@opentelemetry/sdk-trace-base";
import { afterAll, beforeAll, expect, test } from "vitest";
import { toolPath } from "../../hack/fetch-tools.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { call, eventually, freePorts, ROOT } from "../fixtures/processes.ts";

const backend = backendOfFile({ JWT_TTL: "2h", INGEST_TOKENS: "true" });
const [configuration = ""] = /(?<=```yaml\n)[^]*?(?=```)/.exec(readFileSync(join(ROOT, "docs/guides/send/collector.md"), "utf8")) ?? [];
const WITHIN_MS = 60_000;
const stack = new AsyncDisposableStack();
let bearer: string;

beforeAll(async () => {
  bearer = await backend.operator();
});
afterAll(async () => await stack.disposeAsync());

async function newToken(name: string): Promise<string> {
  const answer = await call("POST", `${backend.apiUrl}/api/ingest-tokens`, { bearer, body: { name } });
  expect(answer.status, answer.text).toBe(201);
  return answer.json.token;
}

/** Returns where the collector takes OTLP/JSON. */
async function startCollector(name: string, text: string, token: string): Promise<string> {
  const [port] = await freePorts(1);
  const endpoint = `127.0.0.1:${port}`;
  const file = join(backend.folder, `${name}.yaml`);
  const quiet = "service:\n  telemetry: { metrics: { level: none }, logs: { level: warn } }\n";
  writeFileSync(file, text.replace("127.0.0.1:4318", endpoint).replace("service:\n", quiet));
  const env = { BACKEND_URL: backend.apiUrl, INGEST_TOKEN: token };
  const child = spawn(await toolPath("otelcol-contrib"), ["--config", file], { stdio: ["ignore", "inherit", "inherit"], env });
  stack.defer(async () => {
    child.kill();
    if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
  });
  const empty = { method: "POST", headers: { "content-type": "application/json" }, body: '{"resourceLogs":[]}' };
  await eventually("the collector takes OTLP", async () => (await fetch(`http://${endpoint}/v1/logs`, empty).catch(() => undefined))?.ok);
  return `http://${endpoint}`;
}

function documents(service: string): Record<"logs" | "traces" | "metrics", object> {
  const resource = { attributes: [{ key: "service.name", value: { stringValue: service } }] };
  const now = `${Date.now()}000000`;
  const record = { timeUnixNano: now, severityText: "WARN", body: { stringValue: `hello from ${service}` } };
  const span = {
    traceId: randomUUID().replaceAll("-", ""),
    spanId: "b".repeat(16),
    name: "work",
    startTimeUnixNano: now,
    endTimeUnixNano: now,
  };
  const sum = { aggregationTemporality: 2, isMonotonic: true, dataPoints: [{ timeUnixNano: now, asInt: "42" }] };
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

test.each(["proto", "json"])("a collector sends all signals with encoding: %s", { timeout: 4 * WITHIN_MS }, async (encoding) => {
  const node = `collector-${encoding}`;
  expect(configuration).toContain("encoding: proto");
  const address = await startCollector(node, configuration.replace("encoding: proto", `encoding: ${encoding}`), await newToken(node));
  const service = `${node}-service`;
  for (const [signal, document] of Object.entries(documents(service))) {
    const answer = await call("POST", `${address}/v1/${signal}`, { body: document });
    expect(answer.status, answer.text).toBe(200);
  }
  const query = encodeURIComponent(`sent_things_total{job="${service}"}`);
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
  const series = await eventually(
    "the sample is stored",
    async () => {
      const { result } = (await read(`/query/prometheus/api/v1/query?query=${query}`)).data;
      return result.length > 0 && result;
    },
    WITHIN_MS,
  );
  expect(series).toMatchObject([{ metric: { node, job: service }, value: [expect.any(Number), "42"] }]);
});

test("the SDK of Node.js sends by environment variables alone", { timeout: WITHIN_MS }, async () => {
  const variables = {
    OTEL_EXPORTER_OTLP_ENDPOINT: backend.apiUrl,
    OTEL_EXPORTER_OTLP_HEADERS: `x-api-key=${await newToken("sdk")}`,
  };
  Object.assign(process.env, variables);
  try {
    const provider = new BasicTracerProvider({
      resource: resourceFromAttributes({ "service.name": "sdk-service" }),
      spanProcessors: [new SimpleSpanProcessor(new OTLPTraceExporter())],
    });
    provider.getTracer("test").startSpan("sdk-span").end();
    await provider.shutdown();
  } finally {
    for (const name of Object.keys(variables)) delete process.env[name];
  }
  await eventually("the span is stored", async () => (await spansOf("sdk-service")).length > 0, WITHIN_MS);
  expect(await spansOf("sdk-service")).toHaveLength(1);
});

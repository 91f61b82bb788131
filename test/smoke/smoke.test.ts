// The contract from end to end, with one real backend, its embedded engines and one real host agent: start, enrolment, every signal, every
// query API, a firing rule, a rotated key, stop. `npm test` runs it. What survives when a process is killed: test/faults.
import { randomUUID } from "node:crypto";
import { appendFileSync, readdirSync, readFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { SpanKind, SpanStatusCode } from "@opentelemetry/api";
import { OTLPTraceExporter as GrpcExporter } from "@opentelemetry/exporter-trace-otlp-grpc";
import { OTLPTraceExporter as HttpExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BasicTracerProvider, SimpleSpanProcessor, type SpanExporter } from "@opentelemetry/sdk-trace-base";
import { afterAll, beforeAll, expect, test } from "vitest";
import { adminPassword, engineAuthorization } from "../fixtures/backend-process.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { hostAgentPlace, startHostAgent, type AgentPlace } from "../fixtures/host-agent-process.ts";
import { sendOneOfEach } from "../fixtures/one-of-each.ts";
import { call, eventually, readIfThere, signedPost, type TestProcess } from "../fixtures/processes.ts";

const backend = backendOfFile({ EVALUATION_INTERVAL: "1s" });
let agentPlace: AgentPlace;
let agent: TestProcess;
let token: string;

beforeAll(async () => {
  token = await backend.operator();
  agentPlace = await hostAgentPlace(backend.folder, backend.apiUrl, {
    INSTALL_TOKEN: await backend.installToken(token),
    HEARTBEAT_INTERVAL: "1s",
  });
  agent = await startHostAgent(agentPlace);
});

afterAll(async () => {
  await agent?.end();
});

async function instant(query: string): Promise<{ metric: Record<string, string>; value: [number, string] }[]> {
  const answer = await call("GET", `${backend.apiUrl}/query/prometheus/api/v1/query?query=${encodeURIComponent(query)}`, { bearer: token });
  expect(answer.status, answer.text).toBe(200);
  return answer.json.data.result;
}

async function logs(
  parameters: string,
): Promise<
  { message: string; level: string; source: string; labels: Record<string, string>; timestamp: string; host_id: string; node: string }[]
> {
  const answer = await call("GET", `${backend.apiUrl}/query/logs?${parameters}`, { bearer: token });
  expect(answer.status, answer.text).toBe(200);
  return answer.json;
}

test("host metrics of this machine have the tenant's and the host's labels", async () => {
  const listed = await eventually("the agent's first heartbeat", async () => {
    const [found] = (await call("GET", `${backend.apiUrl}/api/v1/agents`, { bearer: token })).json;
    return found?.online && found;
  });
  const [series] = await backend.shows("memory usage", async () => {
    const found = await instant("system_memory_usage_bytes");
    return found.length > 0 && found;
  });
  expect(series?.metric).toMatchObject({ host_id: listed.agent_id, node: listed.hostname });
  expect(series?.metric["org_id"]).toMatch(/^[0-9a-f-]{36}$/);
  expect(series?.metric["node"]).toBe(hostname());
  expect(Number(series?.value[1])).toBeGreaterThan(0);
});

test("a line appended to a watched file is returned with the mapping of the contract", async () => {
  const written = performance.now();
  const at = Date.now();
  appendFileSync(join(agentPlace.logFolder, "app.log"), "first light é ✓\n");
  const [row] = await eventually("the line", async () => {
    const found = await logs(`q=${encodeURIComponent("FIRST LIGHT é")}`);
    return found.length > 0 && found;
  });
  console.log(`append to readable: ${Math.round(performance.now() - written)} ms`);
  expect(row).toMatchObject({ message: "first light é ✓", level: "info", node: hostname() });
  expect(row?.timestamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$/);
  expect(Math.abs(Date.parse(row?.timestamp ?? "") - at)).toBeLessThan(60_000);
  expect(row?.labels["log.file.name"] ?? row?.labels["log.file.path"]).toContain("app.log");
});

test.each([
  ["gRPC", () => new GrpcExporter({ url: agentPlace.otlpGrpc })],
  ["HTTP", () => new HttpExporter({ url: `${agentPlace.otlpHttp}/v1/traces` })],
] as [string, () => SpanExporter][])("a span of an OpenTelemetry SDK over %s is returned with all ten fields", async (name, exporter) => {
  const service = `checkout-${name}`;
  const provider = new BasicTracerProvider({
    resource: resourceFromAttributes({ "service.name": service, "deployment.environment": "test", org_id: "forged" }),
    spanProcessors: [new SimpleSpanProcessor(exporter())],
  });
  const tracer = provider.getTracer("first-light");
  const started = Date.now();
  const root = tracer.startSpan("POST /orders", {
    kind: SpanKind.SERVER,
    startTime: started,
    attributes: { "http.response.status_code": 500, "deployment.environment": "span wins" },
  });
  root.setStatus({ code: SpanStatusCode.ERROR, message: "no stock" });
  root.end(started + 250);
  const sent = performance.now();
  await provider.forceFlush();
  const [span] = await eventually("the span", async () => {
    const answer = await call("GET", `${backend.apiUrl}/query/traces?trace_id=${root.spanContext().traceId.toUpperCase()}`, {
      bearer: token,
    });
    return answer.json?.length > 0 && answer.json;
  });
  console.log(`span over ${name}, sent to readable: ${Math.round(performance.now() - sent)} ms`);
  const { Attributes, Timestamp, ...rest } = span;
  expect(rest).toEqual({
    TraceID: root.spanContext().traceId,
    SpanID: root.spanContext().spanId,
    ParentSpanID: "",
    Service: service,
    Operation: "POST /orders",
    DurationMs: 250,
    StatusCode: "ERROR",
    Error: true,
  });
  expect(Timestamp).toBe(new Date(started).toISOString().replace(/(\.\d{3})Z$/, "$1000000Z"));
  expect(Attributes).toMatchObject({ "http.response.status_code": "500", "deployment.environment": "span wins" });
  expect(Object.keys(Attributes)).not.toContain("org_id");
  expect(Object.keys(Attributes)).not.toContain("service.name");
  await provider.shutdown();
});

/** Of records that a sender with a key of its own sent: paths, and what is in their responses. */
const APIS: [path: string, contains: string][] = [
  ["/query/logs?q=smoke", '"message":"smoke"'],
  ["/query/logs/fields?q=smoke", "smoke"],
  ["/query/logs/histogram?q=smoke", '"counts":{"'],
  ["/query/logs/patterns?q=smoke", "smoke"],
  [`/query/loki/loki/api/v1/query_range?query=${encodeURIComponent('{service_name=~".+"} |= "smoke"')}`, '"smoke"'],
  ["/query/traces?service=shop", '"Operation":"smoke"'],
  ["/query/traces/search?service=shop", "smoke"],
  ["/query/services", '"shop"'],
  ["/query/jaeger/api/services", '"shop"'],
  ["/query/jaeger/api/traces/0af7651916cd43dd8448eb211c80319c", '"operationName":"smoke"'],
  ["/query/prometheus/api/v1/query?query=one_of_each", '"of":"smoke"'],
  ["/query/prometheus/api/v1/label/of/values", '"smoke"'],
  ["/api/v1/agents", '"online":true'],
  ["/api/keys", '"name":"smoke"'],
  ["/api/audit", "smoke"],
];

test("each query API returns what a sender with its own key sent", async () => {
  const key = await call("POST", `${backend.apiUrl}/api/keys`, { bearer: token, body: { name: "smoke" } });
  await sendOneOfEach(backend.apiUrl, key.json.api_key, "smoke");
  for (const [path, contains] of APIS) {
    await backend.shows(`${path} contains ${contains}`, async () => {
      const answer = await call("GET", `${backend.apiUrl}${path}`, { bearer: token });
      expect(answer.status, `${path}: ${answer.text}`).toBe(200);
      expect(answer.text).toContain(contains);
      return true;
    });
  }
});

test("a rule on a collected metric fires, and is listed for Grafana", async () => {
  const body = { name: "smoke", severity: "critical", expr: "system_memory_usage_bytes > 0", for: "0s", enabled: true };
  const rule = await call("POST", `${backend.apiUrl}/alerting/rules`, { bearer: token, body });
  expect(rule.status, rule.text).toBe(201);
  await backend.shows("it fires", async () => {
    const status = await call("GET", `${backend.apiUrl}/alerting/rules/${rule.json.id}/status`, { bearer: token });
    return status.json.state === "firing";
  });
  const listed = await call("GET", `${backend.apiUrl}/query/prometheus/api/v1/alerts`, { bearer: token });
  expect(listed.json.data.alerts[0]).toMatchObject({ state: "firing", labels: { alertname: "smoke" } });
});

test("a cluster enrols and rotates its key: both keys are accepted until the overlap ends", async () => {
  const body = { cluster_name: "smoke", cluster_uid: randomUUID(), agent_version: "1" };
  const once = (): Record<string, string> => ({ "idempotency-key": randomUUID() });
  const bearer = await backend.installToken(token);
  const enrolled = await call("POST", `${backend.apiUrl}/api/clusters/register`, { bearer, body, headers: once() });
  expect(enrolled.status, enrolled.text).toBe(201);
  const rotated = await signedPost(backend.apiUrl, "/api/clusters/rotate-key", enrolled.json.api_key, "", once());
  expect(rotated.status, rotated.text).toBe(200);
  expect(rotated.json.api_key).not.toBe(enrolled.json.api_key);
  for (const { api_key } of [enrolled.json, rotated.json]) {
    expect((await signedPost(backend.apiUrl, "/ingest", api_key, "rotated 1\n")).status).toBe(204);
  }
});

test("VictoriaMetrics accepts the real collector's metrics line by line", async () => {
  const { pid } = JSON.parse(readFileSync(join(backend.dataDir, "victoria-metrics.pid"), "utf8")) as { pid: number };
  const listen = /-httpListenAddr=([^\0]+)/.exec(readFileSync(`/proc/${pid}/cmdline`, "utf8"))?.[1];
  const counters = (await call("GET", `http://${listen}/metrics`, { headers: { authorization: engineAuthorization(backend.place) } })).text;
  const invalid = [...counters.matchAll(/^vm_rows_invalid_total\{type="prometheus"\} (\d+)$/gm)].map((match) => Number(match[1]));
  expect(invalid).toEqual([0]);
});

test("no log and no process argument contains a secret", async () => {
  const key = JSON.parse(readFileSync(join(agentPlace.stateDir, "credentials.json"), "utf8")).api_key ?? "";
  expect(key).toMatch(/^ak_/);
  const secrets = [key, agentPlace.env["INSTALL_TOKEN"], adminPassword(backend.place), token].filter(Boolean) as string[];
  expect(secrets.length).toBe(4);
  for (const secret of secrets) {
    expect(agent.log).not.toContain(secret);
    expect(backend.log).not.toContain(secret);
  }
  const commandLines = readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map((pid) => readIfThere(`/proc/${pid}/cmdline`));
  for (const secret of secrets) expect(commandLines.some((line) => line.includes(secret))).toBe(false);
});

test("agent and backend stop with exit code 0", async () => {
  expect(await agent.end("SIGTERM")).toBe(0);
  expect(await backend.end("SIGTERM")).toBe(0);
});

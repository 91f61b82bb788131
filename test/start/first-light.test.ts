// Follows this machine's telemetry from the collector to a query, with real processes and engines, and checks what survives when a process
// on the way is killed. (Kills of the collector and stops of the agent: test/faults/agent-killed.test.ts.)
import { appendFileSync, readdirSync, readFileSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { SpanKind, SpanStatusCode } from "@opentelemetry/api";
import { OTLPTraceExporter as GrpcExporter } from "@opentelemetry/exporter-trace-otlp-grpc";
import { OTLPTraceExporter as HttpExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BasicTracerProvider, SimpleSpanProcessor, type SpanExporter } from "@opentelemetry/sdk-trace-base";
import { afterAll, beforeAll, expect, test } from "vitest";
import { adminPassword, engineAuthorization } from "../fixtures/backend-process.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { hostAgentPlace, startHostAgent, type AgentPlace } from "../fixtures/host-agent-process.ts";
import { call, eventually, readIfThere, type TestProcess } from "../fixtures/processes.ts";

const SEQUENCE = 10_000;
const backend = backendOfFile({ JWT_TTL: "2h" });
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

/** How often each number of a sequence is stored: walks all pages of the log query. */
async function stored(sequence: string): Promise<Map<number, number>> {
  const seen = new Map<number, number>();
  let url: string | undefined = `${backend.apiUrl}/query/logs?limit=500&q=${sequence}`;
  while (url) {
    const answer = await call("GET", url, { bearer: token });
    expect(answer.status, answer.text).toBe(200);
    for (const row of answer.json as { message: string }[]) {
      const number = Number(row.message.split(" ")[1]);
      seen.set(number, (seen.get(number) ?? 0) + 1);
    }
    const next = /<([^>]+)>; rel="next"/.exec(answer.headers.get("link") ?? "")?.[1];
    url = next && new URL(next, backend.apiUrl).href;
  }
  return seen;
}

/** Appends the numbered sequence in small pieces while `meanwhile` runs, then waits until every number is stored. */
async function writeWhile(sequence: string, meanwhile: () => Promise<void>): Promise<{ missing: number; doubled: number }> {
  const file = join(agentPlace.logFolder, `${sequence}.log`);
  const disturbance = meanwhile();
  for (let first = 0; first < SEQUENCE; first += 100) {
    appendFileSync(
      file,
      Array.from({ length: 100 }, (_, index) => `${sequence} ${first + index} padding to look like a line of log\n`).join(""),
    );
    // Writes at a pace, so that the disturbance comes in between.
    await sleep(20);
  }
  await disturbance;
  const seen = await eventually(
    `all ${SEQUENCE} lines of ${sequence}`,
    async () => {
      const now = await stored(sequence);
      return now.size === SEQUENCE && now;
    },
    120_000,
  ).catch(() => stored(sequence));
  return { missing: SEQUENCE - seen.size, doubled: [...seen.values()].filter((count) => count > 1).length };
}

test("host metrics of this machine carry the tenant's and the host's labels", async () => {
  const listed = await eventually("the agent's first heartbeat", async () => {
    const [found] = (await call("GET", `${backend.apiUrl}/api/v1/agents`, { bearer: token })).json;
    return found?.online && found;
  });
  const [series] = await eventually("memory usage", async () => {
    const found = await instant("system_memory_usage_bytes");
    return found.length > 0 && found;
  });
  expect(series?.metric).toMatchObject({ host_id: listed.agent_id, node: listed.hostname });
  expect(series?.metric["org_id"]).toMatch(/^[0-9a-f-]{36}$/);
  expect(series?.metric["node"]).toBe(hostname());
  expect(Number(series?.value[1])).toBeGreaterThan(0);
});

test("a line appended to a watched file is read back with the mapping of the contract", async () => {
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
] as [string, () => SpanExporter][])(
  "a span sent by an OpenTelemetry SDK over %s is read back with all ten fields",
  async (name, exporter) => {
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
  },
);

test("the backend away while 10,000 lines are written: no line is missing or doubled", async () => {
  const awayMs = process.env["CI"] ? 60_000 : 15_000;
  const outcome = await writeWhile("backend-away", async () => {
    // In the middle of the writing.
    await sleep(500);
    await backend.end("SIGKILL");
    // The length of the outage.
    await sleep(awayMs);
    await backend.start();
  });
  console.log("backend away:", outcome);
  expect(outcome).toEqual({ missing: 0, doubled: 0 });
});

test("the agent killed with the backend away: its orphaned collector is replaced, no line is missing", async () => {
  const outcome = await writeWhile("kill-agent", async () => {
    await backend.end("SIGKILL");
    await agent.end("SIGKILL");
    const started = startHostAgent(agentPlace).catch((error: unknown) => error);
    // The backend is unavailable for longer than a retry of the agent.
    await sleep(3000);
    await backend.start();
    const result = await started;
    if (result instanceof Error) throw result;
    agent = result as TestProcess;
  });
  console.log("agent killed:", outcome);
  expect(outcome.missing).toBe(0);
});

test("the real collector's metrics are accepted line by line by VictoriaMetrics", async () => {
  const { pid } = JSON.parse(readFileSync(join(backend.dataDir, "victoria-metrics.pid"), "utf8")) as { pid: number };
  const listen = /-httpListenAddr=([^\0]+)/.exec(readFileSync(`/proc/${pid}/cmdline`, "utf8"))?.[1];
  const counters = (await call("GET", `http://${listen}/metrics`, { headers: { authorization: engineAuthorization(backend.place) } })).text;
  const invalid = [...counters.matchAll(/^vm_rows_invalid_total\{type="prometheus"\} (\d+)$/gm)].map((match) => Number(match[1]));
  expect(invalid).toEqual([0]);
});

test("no secret is in any log or process argument", async () => {
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

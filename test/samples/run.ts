// `npm run sample [-- --visits 300]`: four services in Node.js, Python, Go and Java, with the OpenTelemetry packages of npm, PyPI, the Go module
// proxy and Maven, call each other and PostgreSQL. They send to a backend of this repository by environment variables and an ingest token
// alone. What the backend answers about them is compared with the lines that they print and with the times that the caller measures.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { cpSync, mkdirSync, openSync, readFileSync } from "node:fs";
import { connect } from "node:net";
import { dirname, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { isDeepStrictEqual, parseArgs } from "node:util";
import { cacheFolder } from "../../hack/fetch-tools.ts";
import { adminPassword, backendPlace, login, makeTenant, startBackend } from "../fixtures/backend-process.ts";
import { quantile } from "../fixtures/measure.ts";
import { PostgresServer } from "../fixtures/postgres.ts";
import { call, eventually, freePorts, temporaryFolder } from "../fixtures/processes.ts";

const NODE_PACKAGE = "@opentelemetry/auto-instrumentations-node@0.82.0";
const JAVA_AGENT = { artifact: "io.opentelemetry.javaagent:opentelemetry-javaagent:2.33.1", file: "opentelemetry-javaagent-2.33.1.jar" };
/** The sample runs longer than the backend's pass over new spans, which comes once a minute. */
const PAUSE_MS = 200;
const WITHIN_MS = 300_000;
/** A quantile is estimated within a bucket of this width. */
const BUCKET = 1.19;

const { values } = parseArgs({ options: { visits: { type: "string", default: "300" } } });
const visits = Number(values.visits);
const failures = Math.floor(visits / 5);

const installed = install();
await using stack = new AsyncDisposableStack();
const folder = stack.use(temporaryFolder());
const postgres = await PostgresServer.start();
stack.defer(() => postgres.stop());
const place = await backendPlace(folder.path, { INGEST_TOKENS: "true" });
stack.use(await startBackend(place));
const tenant = await makeTenant(place.apiUrl, await login(place.apiUrl, "admin@localhost", adminPassword(place)), "sample");
const ingestToken = await call("POST", `${place.apiUrl}/api/ingest-tokens`, { bearer: tenant.token, body: { name: "sample" } });
const webUrl = await startServices(String(ingestToken.json.token));

const times: number[] = [];
for (let visit = 1; visit <= visits; visit += 1) {
  const began = performance.now();
  await (await fetch(`${webUrl}/orders/${visit}`)).text();
  times.push(performance.now() - began);
  // Paces the load.
  await sleep(PAUSE_MS);
}
times.sort((one, other) => one - other);
await compare();

/** Installs each language's packages next to a copy of the sample. Returns the folder. */
function install(): string {
  const cache = join(dirname(cacheFolder()), "sample");
  mkdirSync(cache, { recursive: true });
  cpSync(import.meta.dirname, cache, { recursive: true });
  const run = (program: string, ...args: string[]) => execFileSync(program, args, { cwd: cache, stdio: ["ignore", "ignore", "inherit"] });
  run("npm", "install", "--prefix", cache, "--no-audit", "--no-fund", "--loglevel", "error", NODE_PACKAGE);
  run("python3", "-m", "venv", "python");
  run("python/bin/pip", "install", "--quiet", "--disable-pip-version-check", "--requirement", "requirements.txt");
  run("go", "mod", "tidy");
  run("go", "build", "-o", "payments", "payments.go");
  // The agent does not start in a JVM that compiles.
  run("javac", "Receipts.java");
  run("mvn", "--quiet", "dependency:copy", `-Dartifact=${JAVA_AGENT.artifact}`, `-DoutputDirectory=${cache}`);
  return cache;
}

/** Returns the address of the first service. */
async function startServices(token: string): Promise<string> {
  const [web, orders, payments, receipts] = await freePorts(4);
  const environment = {
    ...process.env,
    PATH: `${join(installed, "python/bin")}:${process.env["PATH"]}`,
    OTEL_EXPORTER_OTLP_ENDPOINT: place.apiUrl,
    OTEL_EXPORTER_OTLP_HEADERS: `x-api-key=${token}`,
    OTEL_EXPORTER_OTLP_PROTOCOL: "http/protobuf",
    DATABASE_URL: await postgres.newDatabase(),
    ORDERS_URL: `http://127.0.0.1:${orders}`,
    PAYMENTS_URL: `http://127.0.0.1:${payments}`,
    RECEIPTS_URL: `http://127.0.0.1:${receipts}`,
  };
  const services = {
    receipts: { port: receipts, command: ["java", `-javaagent:${JAVA_AGENT.file}`, "Receipts"] },
    payments: { port: payments, command: ["./payments"] },
    orders: { port: orders, command: ["opentelemetry-instrument", "python", "orders.py"] },
    web: { port: web, command: [process.execPath, "--require", "@opentelemetry/auto-instrumentations-node/register", "web.cjs"] },
  };
  for (const [name, { port, command }] of Object.entries(services)) {
    const [program = "", ...args] = command;
    const errors = openSync(join(folder.path, `${name}.errors`), "a");
    const env = { ...environment, OTEL_SERVICE_NAME: name, PORT: String(port) };
    const child = spawn(program, args, { cwd: installed, env, stdio: ["ignore", openSync(logFile(name), "a"), errors] });
    // On SIGTERM, the instrumentation of Node.js only ends its own work.
    stack.defer(async () => {
      child.kill("SIGKILL");
      if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
    });
    await eventually(`${name} listens`, () => isListening(Number(port)), WITHIN_MS);
  }
  return `http://127.0.0.1:${web}`;
}

function logFile(service: string): string {
  return join(folder.path, `${service}.log`);
}

async function isListening(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  return await once(socket, "connect")
    .then(() => true)
    .finally(() => socket.destroy());
}

async function get(path: string) {
  const answer = await call("GET", `${place.apiUrl}${path}`, { bearer: tenant.token });
  if (answer.status !== 200) throw new Error(`${path}: ${answer.status} ${answer.text}`);
  return answer.json;
}

/** Requests and failures by the lines that a service printed. */
function counted(service: string): [string, number, number] {
  const lines = readFileSync(logFile(service), "utf8").split("\n");
  const failed = lines.filter((line) => line === "failed").length;
  return [service, failed + lines.filter((line) => line === "ok").length, failed];
}

async function compare(): Promise<void> {
  const check: Check = async (what, expected, read) => {
    let found: unknown;
    const isSame = async (): Promise<boolean> => isDeepStrictEqual((found = await read()), expected);
    const isRight = await eventually(what, isSame, WITHIN_MS).catch(() => false);
    if (!isRight) process.exitCode = 1;
    console.log(`${isRight ? "right" : "WRONG"}: ${what}\n  ${JSON.stringify(found)}`);
    if (!isRight) console.log(`  expected ${JSON.stringify(expected)}`);
  };
  const services = ["orders", "payments", "receipts", "web"].map(counted);
  await check("calls and errors by service, as the services counted them", services, async () =>
    (await get("/query/services?points=1")).map(({ service, calls, errors }: Record<string, unknown>) => [service, calls, errors]),
  );
  const edges = [
    ["orders", "payments", "", visits, failures],
    ["orders", "postgresql", "database", visits, 0],
    ["payments", "receipts", "", visits - failures, 0],
    ["web", "orders", "", visits, failures],
  ];
  const edge = ({ client, server, connection, calls, failed }: Record<string, string | number>) => {
    const system = connection === "database" ? String(server).split(":")[0] : server;
    return [client, system, connection, calls, failed];
  };
  await check("edges of the service map: client, server, connection, calls, failed", edges, async () =>
    (await get("/query/services/graph")).edges.map(edge).sort(),
  );
  await checkLatencies(check);
  await checkExemplar(check, 'traces_spanmetrics_latency_bucket{service="receipts"}');
  // Exemplars that the SDKs themselves send, for a histogram of OTLP.
  await checkExemplar(check, 'http_server_request_duration_seconds_bucket{job="payments"}');
  await checkExemplar(check, 'http_server_request_duration_seconds_bucket{job="receipts"}');
}

type Check = (what: string, expected: unknown, read: () => Promise<unknown>) => Promise<void>;

async function checkLatencies(check: Check): Promise<void> {
  const [p50, p95] = [quantile(times, 0.5), quantile(times, 0.95)];
  console.log(`the caller waited ${p50.toFixed(1)} ms (median), ${p95.toFixed(1)} ms (95th percentile)`);
  const figures = async (): Promise<Record<string, { p50_ms: number; p95_ms: number }>> =>
    Object.fromEntries((await get("/query/services?points=1")).map((row: { service: string }) => [row.service, row]));
  const { web, receipts } = await figures();
  console.log(`web ${web?.p50_ms} and ${web?.p95_ms} ms, receipts ${receipts?.p50_ms} and ${receipts?.p95_ms} ms`);
  await check("web takes at most what its caller waited, and receipts at least 20 ms", [true, true, true], async () => [
    (web?.p50_ms ?? Infinity) <= p50 * BUCKET,
    (web?.p95_ms ?? Infinity) <= p95 * BUCKET,
    (receipts?.p50_ms ?? 0) >= 20 / BUCKET,
  ]);
}

async function checkExemplar(check: Check, selector: string): Promise<void> {
  const range = `start=${Math.floor(Date.now() / 1000) - 3600}&end=${Math.floor(Date.now() / 1000) + 60}`;
  await check(`an exemplar of ${selector} leads to a trace of all four services`, true, async () => {
    const { data } = await get(`/query/prometheus/api/v1/query_exemplars?query=${encodeURIComponent(selector)}&${range}`);
    for (const { exemplars } of data) {
      const [trace] = (await get(`/query/jaeger/api/traces/${exemplars[0].labels.trace_id}`)).data;
      if (Object.keys(trace.processes).length === 4) return true;
    }
    return false;
  });
}

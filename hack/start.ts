// `npm start`: the whole product on this machine, with this machine's own telemetry. Starts the backend with embedded engines, makes
// an install token when the agent is not enrolled yet, starts the host agent, and prints how to look at what arrives. Ctrl-C stops
// the agent first (its collector flushes into a living backend), then the backend. A second start continues with the same data.
//
//   npm start                     everything under ./data
//   npm start -- --data DIR       everything under DIR
//   npm start -- --help
//
// Settings of agent and backend (agent/settings.ts, backend/settings.ts) can be set in the environment, ports included.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { appendFileSync, existsSync, openSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { makeFolder } from "../agent/common/make-folder.ts";
import { toolPath } from "./fetch-tools.ts";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));
const READY_WITHIN_MS = 90_000;
const STOP_WITHIN_MS = 60_000;

/** What can go wrong and is the user's to mend: printed without a stack. */
class StartError extends Error {}

const stop = new AbortController();

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { data: { type: "string", default: "data" }, help: { type: "boolean", short: "h" } } });
  if (values.help) return usage();
  const place = places(resolve(values.data));
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => stop.abort(signal));
  await checkPorts();
  const tools = {
    VICTORIA_METRICS_PATH: await toolPath("victoria-metrics"),
    VMALERT_PATH: await toolPath("vmalert"),
    OTELCOL_PATH: await toolPath("otelcol-contrib"),
  };
  await using running = new AsyncDisposableStack();
  const backend = running.use(new Program("backend", ["backend/main.ts", "serve"], backendEnvironment(place, tools), place.backendLog));
  await backend.ready(`http://${listenOf("HEALTH_LISTEN", "127.0.0.1:9090")}/readyz`);
  const password = readFileSync(place.passwordFile, "utf8").trim();
  const installToken = existsSync(place.credentialsFile) ? undefined : await makeInstallToken(password);
  const agentEnv = agentEnvironment(place, tools, installToken);
  const agent = running.use(new Program("agent", ["agent/bin/atherops-otel-agent.ts", "run"], agentEnv, place.agentLog));
  await agent.ready(`http://${AGENT_HEALTH}/readyz`);
  if (!existsSync(place.tryLog)) appendFileSync(place.tryLog, "");
  console.log(howToLook(place));
  await Promise.race([backend.exited(), agent.exited(), stopped()]);
  console.log("\nstopping: agent first, then backend …");
}

const AGENT_HEALTH = listenOf("AGENT_HEALTH_LISTEN", "127.0.0.1:9598");

interface Places {
  data: string;
  passwordFile: string;
  credentialsFile: string;
  tryLog: string;
  backendLog: string;
  agentLog: string;
}

function places(data: string): Places {
  try {
    for (const folder of ["backend", "agent", "logs"]) makeFolder(join(data, folder), 0o700);
  } catch (error) {
    throw new StartError(`${(error as Error).message}: name a folder that you may write, npm start -- --data DIR`);
  }
  return {
    data,
    passwordFile: join(data, "backend", "secrets", "admin-password"),
    credentialsFile: join(data, "agent", "credentials.json"),
    tryLog: join(data, "logs", "try-me.log"),
    backendLog: join(data, "backend.out"),
    agentLog: join(data, "agent.out"),
  };
}

function listenOf(variable: string, fallback: string): string {
  return process.env[variable] ?? fallback;
}

function apiUrl(): string {
  return `http://${listenOf("API_LISTEN", "127.0.0.1:8080")}`;
}

/** Every port is tried before anything starts, so that a busy one is one sentence and not a half-started product. */
async function checkPorts(): Promise<void> {
  const wanted: [string, string, string][] = [
    ["API_LISTEN", "127.0.0.1:8080", "the API"],
    ["ALERTING_LISTEN", "127.0.0.1:8082", "the alerting service"],
    ["HEALTH_LISTEN", "127.0.0.1:9090", "the backend's health"],
    ["EVALUATOR_LISTEN", "127.0.0.1:8880", "the rule evaluator"],
    ["PROXY_LISTEN", "127.0.0.1:9599", "the signing proxy"],
    ["AGENT_HEALTH_LISTEN", "127.0.0.1:9598", "the agent's health"],
    ["OTLP_GRPC_LISTEN", "127.0.0.1:4317", "OTLP over gRPC"],
    ["OTLP_HTTP_LISTEN", "127.0.0.1:4318", "OTLP over HTTP"],
  ];
  for (const [variable, fallback, what] of wanted) {
    const listen = listenOf(variable, fallback);
    const [host, port] = [listen.slice(0, listen.lastIndexOf(":")), Number(listen.slice(listen.lastIndexOf(":") + 1))];
    if (!(await isFree(host, port))) {
      throw new StartError(`port ${listen} (${what}) is in use: stop what listens there, or set ${variable}=127.0.0.1:<another port>`);
    }
  }
}

async function isFree(host: string, port: number): Promise<boolean> {
  const server = createServer();
  const free = await new Promise<boolean>((done) => {
    server.once("error", () => done(false));
    server.listen(port, host, () => done(true));
  });
  if (free) await new Promise((done) => server.close(done));
  return free;
}

function backendEnvironment(place: Places, tools: Record<string, string>): NodeJS.ProcessEnv {
  return { UV_THREADPOOL_SIZE: "16", ...process.env, ...tools, DATA_DIR: join(place.data, "backend") };
}

function agentEnvironment(place: Places, tools: Record<string, string>, installToken: string | undefined): NodeJS.ProcessEnv {
  const logs = join(place.data, "logs");
  return {
    ...process.env,
    ...tools,
    BACKEND_URL: apiUrl(),
    CREDENTIALS_FILE: place.credentialsFile,
    STATE_DIR: join(place.data, "agent"),
    HEALTH_LISTEN: AGENT_HEALTH,
    OTLP_GRPC_LISTEN: listenOf("OTLP_GRPC_LISTEN", "127.0.0.1:4317"),
    OTLP_HTTP_LISTEN: listenOf("OTLP_HTTP_LISTEN", "127.0.0.1:4318"),
    LOG_PATHS: process.env["LOG_PATHS"] ?? `/var/log/**/*.log,${logs}/*.log`,
    LOG_PATHS_ALLOWED: process.env["LOG_PATHS_ALLOWED"] ?? `/var/log/**,${logs}/**`,
    ...(installToken && { INSTALL_TOKEN: installToken }),
  };
}

/** The first login of a fresh installation, as an administrator would do it. */
async function makeInstallToken(password: string): Promise<string> {
  const login = await post("/api/auth/login", { email: process.env["ADMIN_EMAIL"] ?? "admin@localhost", password });
  const made = await post("/api/install-tokens", { ttl: "1h" }, String(login["token"]));
  return String(made["token"]);
}

async function post(path: string, body: object, bearer?: string): Promise<Record<string, unknown>> {
  const headers = { "content-type": "application/json", ...(bearer && { authorization: `Bearer ${bearer}` }) };
  const answer = await fetch(`${apiUrl()}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  const document = (await answer.json()) as Record<string, unknown>;
  if (!answer.ok) throw new StartError(`${path} answered ${answer.status}: ${String(document["message"])}`);
  return document;
}

/** One of the two processes: its output goes to a file, its end is told with the last lines. */
class Program implements AsyncDisposable {
  readonly #name: string;
  readonly #log: string;
  readonly #child: ChildProcess;
  readonly #exit: Promise<unknown>;

  constructor(name: string, args: string[], env: NodeJS.ProcessEnv, log: string) {
    this.#name = name;
    this.#log = log;
    const out = openSync(log, "a", 0o600);
    // Its own process group: Ctrl-C reaches this process alone, which then stops the two in order.
    this.#child = spawn(process.execPath, args, { cwd: ROOT, env, stdio: ["ignore", out, out], detached: true });
    this.#exit = once(this.#child, "exit");
    console.log(`starting the ${name} (pid ${this.#child.pid}), its log is ${log}`);
  }

  async ready(url: string): Promise<void> {
    const deadline = Date.now() + READY_WITHIN_MS;
    while (Date.now() < deadline) {
      if (stop.signal.aborted) throw new StartError("stopped before it was ready");
      if (this.#child.exitCode !== null)
        throw new StartError(`the ${this.#name} ended with ${this.#child.exitCode}:\n${this.#lastLines()}`);
      const answer = await fetch(url, { signal: AbortSignal.timeout(2000) }).catch(() => undefined);
      if (answer?.ok) return;
      await sleep(100);
    }
    throw new StartError(`the ${this.#name} is not ready after ${READY_WITHIN_MS / 1000} s:\n${this.#lastLines()}`);
  }

  async exited(): Promise<void> {
    await this.#exit;
    if (!stop.signal.aborted) throw new StartError(`the ${this.#name} ended with ${this.#child.exitCode}:\n${this.#lastLines()}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    this.#child.kill("SIGTERM");
    const cut = setTimeout(() => this.#child.kill("SIGKILL"), STOP_WITHIN_MS);
    await this.#exit;
    clearTimeout(cut);
    console.log(`the ${this.#name} has stopped`);
  }

  #lastLines(): string {
    return readFileSync(this.#log, "utf8")
      .trimEnd()
      .split("\n")
      .slice(-8)
      .map((line) => `    ${line}`)
      .join("\n");
  }
}

function stopped(): Promise<void> {
  return new Promise((done) => stop.signal.addEventListener("abort", () => done(), { once: true }));
}

function howToLook(place: Places): string {
  const url = apiUrl();
  const email = process.env["ADMIN_EMAIL"] ?? "admin@localhost";
  const get = "curl -sG -w '\\n' -H \"Authorization: Bearer $TOKEN\"";
  return `
Running. This machine's metrics, logs and spans are on their way into ${place.data}.

  console       ${url}/
  e-mail        ${email}
  password      in ${place.passwordFile}
  OTLP          gRPC ${listenOf("OTLP_GRPC_LISTEN", "127.0.0.1:4317")}, HTTP http://${listenOf("OTLP_HTTP_LISTEN", "127.0.0.1:4318")}

Copy and paste, in another terminal:

  # a session token (15 minutes)
  TOKEN=$(printf '{"email":"${email}","password":"%s"}' "$(cat '${place.passwordFile}')" | curl -s ${url}/api/auth/login -H 'Content-Type: application/json' -d @- | sed 's/.*"token":"\\([^"]*\\)".*/\\1/')

  # memory of this machine, by state
  ${get} ${url}/query/prometheus/api/v1/query --data-urlencode 'query=system_memory_usage_bytes'

  # a line of log, and back
  echo "hello from $(hostname)" >> '${place.tryLog}'
  ${get} ${url}/query/logs --data-urlencode 'q=hello from' -d limit=5

  # a span, and back
  curl -s http://${listenOf("OTLP_HTTP_LISTEN", "127.0.0.1:4318")}/v1/traces -H 'Content-Type: application/json' -d '{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"try-me"}}]},"scopeSpans":[{"spans":[{"traceId":"'$(openssl rand -hex 16)'","spanId":"'$(openssl rand -hex 8)'","name":"first light","kind":1,"startTimeUnixNano":"'$(date +%s)000000000'","endTimeUnixNano":"'$(date +%s)500000000'"}]}]}]}'
  ${get} ${url}/query/traces -d service=try-me

Ctrl-C stops everything; \`npm start\` continues with the same data and key.`;
}

function usage(): void {
  const source = readFileSync(fileURLToPath(import.meta.url), "utf8");
  const lines = source.split("\n");
  console.log(
    lines
      .slice(
        0,
        lines.findIndex((line) => !line.startsWith("//")),
      )
      .map((line) => line.replace(/^\/\/ ?/, ""))
      .join("\n"),
  );
}

try {
  await main();
} catch (error) {
  if (!(error instanceof StartError) && (error as { name?: string }).name !== "ToolError") throw error;
  console.error(`npm start: ${(error as Error).message}`);
  process.exitCode = 1;
}

// `npm start`: runs the whole product on this machine, with this machine's own telemetry. It starts the backend with embedded engines, creates
// an install token if the agent is not enrolled yet, starts the host agent, and prints commands to query the data. Ctrl-C stops the agent
// first, whose collector flushes into the running backend, then the backend. A second start continues with the same data. While the agent's
// collector is downloaded or built, backend and console already run.
//
//   npm start                     stores all data in ./data
//   npm start -- --data DIR       stores all data in DIR
//   npm start -- --help
//
// Settings of agent and backend (agent/settings.ts, backend/settings.ts) can be set in the environment, ports included.
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { makeFolder } from "../common/files.ts";
import { pause } from "../common/loop.ts";
import { findTool, toolPath } from "./fetch-tools.ts";
import { checkPorts, listenAddress } from "./start/listeners.ts";
import { Program, StartError } from "./start/program.ts";
import { adminEmail, apiUrl, nextSteps, isPrivate, type StartInfo, backendReady } from "./start/start-messages.ts";
import { type Progress, progressOn, readManual } from "./tools/progress.ts";

const COLLECTOR = "otelcol-host";
const stop = new AbortController();

async function main(): Promise<void> {
  const values = options();
  if (values.help) return console.log(readManual(import.meta.url));
  const paths = createPaths(resolve(values.data));
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.on(signal, () => stop.abort(signal));
  await checkPorts();
  const engines = { VICTORIA_METRICS_PATH: await toolPath("victoria-metrics"), VMALERT_PATH: await toolPath("vmalert") };
  await using running = new AsyncDisposableStack();
  const backend = running.use(startBackend(paths, engines));
  await backend.ready(`http://${listenAddress("HEALTH_LISTEN")}/readyz`);
  const collector = await collectorPath(backend, paths);
  if (collector !== undefined) {
    const agent = running.use(startAgent(paths, collector, await installToken(paths)));
    await agent.ready(`http://${listenAddress("AGENT_HEALTH_LISTEN")}/readyz`);
    backend.send({ waitsFor: null });
    if (!existsSync(paths.tryLog)) appendFileSync(paths.tryLog, "");
    console.log(nextSteps(await startInfo(backend, paths)));
    await Promise.race([backend.exited(), agent.exited(), stopped()]);
  }
  console.log("\nstopping: agent first, then backend …");
}

function options(): { data: string; help?: boolean | undefined } {
  try {
    return parseArgs({ options: { data: { type: "string", default: "data" }, help: { type: "boolean", short: "h" } } }).values;
  } catch (error) {
    const [reason] = (error as Error).message.split(". ");
    throw new StartError(`${reason}: see \`npm start -- --help\``, { exitCode: 2 });
  }
}

interface Paths extends Omit<StartInfo, "loginCode"> {
  readonly credentialsFile: string;
  readonly backendLog: string;
  readonly agentLog: string;
}

function createPaths(data: string): Paths {
  try {
    for (const folder of ["backend", "agent", "logs"]) makeFolder(join(data, folder), 0o700);
  } catch (error) {
    throw new StartError(`${(error as Error).message}: choose a writable folder with npm start -- --data DIR`);
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

function startBackend(paths: Paths, engines: Record<string, string>): Program {
  // Ingest tokens are accepted from this machine only, unless TLS is set up.
  // OTLP_GRPC_LISTEN is the agent's address here. The backend has a setting of the same name, which stays unset.
  const overrides = { ...engines, DATA_DIR: join(paths.data, "backend"), OTLP_GRPC_LISTEN: undefined };
  const env = { INGEST_TOKENS: "true", ...process.env, ...overrides };
  const args = ["backend/main.ts", "serve"];
  return new Program({ name: "backend", args, env, log: paths.backendLog, stopping: stop.signal, hasChannel: true });
}

/**
 * The path of the collector; undefined if the user stops `npm start` before it is found. If the collector must be downloaded or built first,
 * which may take minutes, the console shows the progress. Throws ToolError.
 */
async function collectorPath(backend: Program, paths: Paths): Promise<string | undefined> {
  const installedPath = await findTool(COLLECTOR);
  if (installedPath !== undefined) return installedPath;
  console.log(backendReady(await startInfo(backend, paths)));
  const print = progressOn(process.stderr);
  const progress: Progress = (line, live) => {
    print(line, live);
    backend.send({ waitsFor: line });
  };
  return (await Promise.race([toolPath(COLLECTOR, progress), backend.exited(), stopped()])) ?? undefined;
}

/** Includes a login link unless other users can read this output. */
async function startInfo(backend: Program, paths: Paths): Promise<StartInfo> {
  return { ...paths, loginCode: isPrivate(process.stdout.fd) ? await backend.loginCode() : undefined };
}

function startAgent(paths: Paths, collector: string, token: string | undefined): Program {
  const logs = join(paths.data, "logs");
  const env = {
    ...process.env,
    OTELCOL_PATH: collector,
    BACKEND_URL: apiUrl(),
    CREDENTIALS_FILE: paths.credentialsFile,
    STATE_DIR: join(paths.data, "agent"),
    HEALTH_LISTEN: listenAddress("AGENT_HEALTH_LISTEN"),
    OTLP_GRPC_LISTEN: listenAddress("OTLP_GRPC_LISTEN"),
    OTLP_HTTP_LISTEN: listenAddress("OTLP_HTTP_LISTEN"),
    LOG_PATHS: process.env["LOG_PATHS"] ?? `/var/log/**/*.log,${logs}/*.log`,
    LOG_PATHS_ALLOWED: process.env["LOG_PATHS_ALLOWED"] ?? `/var/log/**,${logs}/**`,
    ...(token && { INSTALL_TOKEN: token }),
  };
  return new Program({ name: "agent", args: ["agent/bin/atherops-otel-agent.ts", "run"], env, log: paths.agentLog, stopping: stop.signal });
}

/** Creates an install token with the administrator's initial password; undefined if the agent is enrolled. */
async function installToken({ credentialsFile, passwordFile }: Paths): Promise<string | undefined> {
  if (existsSync(credentialsFile)) return undefined;
  const login = await post("/api/auth/login", { email: adminEmail(), password: readFileSync(passwordFile, "utf8").trim() });
  const created = await post("/api/install-tokens", { ttl: "1h" }, String(login["token"]));
  return String(created["token"]);
}

async function post(path: string, body: object, bearer?: string): Promise<Record<string, unknown>> {
  const headers = { "content-type": "application/json", ...(bearer && { authorization: `Bearer ${bearer}` }) };
  const answer = await fetch(`${apiUrl()}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  const document = (await answer.json()) as Record<string, unknown>;
  if (!answer.ok) throw new StartError(`${path} answered ${answer.status}: ${String(document["message"])}`);
  return document;
}

function stopped(): Promise<void> {
  return pause(undefined, stop.signal);
}

try {
  await main();
} catch (error) {
  if (!(error instanceof StartError) && (error as { name?: string }).name !== "ToolError") throw error;
  console.error(`npm start: ${(error as Error).message}`);
  process.exitCode = error instanceof StartError ? error.exitCode : 1;
}
// A collector that is still being built must not keep this process running.
process.exit();

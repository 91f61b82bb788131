// `npm run bench -- start [--rounds 7] [--only PART] [--first FOLDER]`: measures the time from spawn to ready of the host agent and of the
// backend with embedded engines, compared with `node -e 0` and with the engines' own start, in turns within one run; and the backend's
// resident memory 8 s later, without load: as its image runs it (bundled) and from the sources, before anything was stored and with an
// engine of logs and spans. All are enrolled and were started before, so a restart is measured; the very first start of the backend (it
// creates schema, secrets and the first user) is printed once. `--only` selects those whose names contain PART. FOLDER is a checkout of an
// earlier commit, whose agent and backend take part in the same turns. Target: half of the first measurement, of:
//   git worktree add --detach FOLDER d86e2c9 && ln -s "$PWD/node_modules" FOLDER/
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { CollectorProcess } from "../../agent/collector/supervision/process.ts";
import { configFromSettings } from "../../agent/collector/config/config-from-settings.ts";
import { createLog as createAgentLog } from "../../agent/log.ts";
import { readSettings } from "../../agent/settings.ts";
import { toolPath } from "../../hack/fetch-tools.ts";
import { imageStart } from "../fixtures/image-start.ts";
import { cpuMs, proportionalMb, report, residentMb, shown } from "../fixtures/measure.ts";
import { Sink } from "../../agent/collector/supervision/sink.fixture.ts";
import { backendPlace, bundledBackend } from "../fixtures/backend-process.ts";
import { hostAgentPlace } from "../fixtures/host-agent-process.ts";
import { freePorts, ROOT, temporaryFolder } from "../fixtures/processes.ts";

const { values } = parseArgs({
  options: { rounds: { type: "string", default: "7" }, only: { type: "string", default: "" }, first: { type: "string" } },
});
const POLL_MS = 3;
const DEADLINE_MS = 60_000;
/** Time after which memory that only the start needs is free again. */
const REST_MS = 8000;

/** Milliseconds from spawn to each moment; CPU time until the last of them, and memory then. */
type Start = Record<string, number>;

async function until(probe: () => Promise<boolean>): Promise<void> {
  const deadline = performance.now() + DEADLINE_MS;
  while (!(await probe().catch(() => false))) {
    if (performance.now() > deadline) throw new Error("not ready in time");
    await sleep(POLL_MS);
  }
}

const answers = (url: string) => async () => (await fetch(url)).ok;

async function listens(url: string): Promise<boolean> {
  const { hostname, port } = new URL(url);
  const socket = connect(Number(port), hostname);
  try {
    await once(socket, "connect");
    return true;
  } finally {
    socket.destroy();
  }
}

/** Starts a program, waits for each moment in its order, and for `restMs`; ends it. */
async function started(program: () => ChildProcess, moments: Record<string, () => Promise<boolean>>, restMs = 0): Promise<Start> {
  const startedAt = performance.now();
  const child = program();
  const start: Start = {};
  for (const [name, probe] of Object.entries(moments)) {
    await until(probe);
    start[name] = performance.now() - startedAt;
  }
  start["CPU"] = cpuMs(child.pid ?? 0);
  start["MB"] = residentMb(child.pid ?? 0);
  if (restMs > 0) {
    await sleep(restMs);
    start["MB at rest"] = residentMb(child.pid ?? 0);
    start["PSS at rest"] = proportionalMb(child.pid ?? 0);
  }
  child.kill("SIGTERM");
  await once(child, "exit");
  return start;
}

async function ran(args: string[]): Promise<Start> {
  const startedAt = performance.now();
  await once(spawn(process.execPath, args, { stdio: "ignore" }), "exit");
  return { ready: performance.now() - startedAt };
}

/** Programs that a new Node.js process runs to open only an embedded engine. */
const OPENING = {
  clickhouse: `const { openClickHouse } = await import("./backend/engines/clickhouse/clickhouse-client.ts");
    await (await openClickHouse({ dataDir: process.argv[1], log: { debug() {} } })).ping();`,
  sqlite: `const { openDatabase } = await import("./backend/engines/relational/database.ts");
    await openDatabase({ dataDir: process.argv[1], log: { debug() {}, info() {}, warn() {} } });`,
};

async function opened(engine: keyof typeof OPENING, dataDir: string): Promise<Start> {
  const startedAt = performance.now();
  const code = `${OPENING[engine]} process.stdout.write("ready"); process.stdin.resume().on("end", () => process.exit(0));`;
  const child = spawn(process.execPath, ["--input-type=module", "-e", code, dataDir], { cwd: ROOT, stdio: ["pipe", "pipe", "inherit"] });
  await Promise.race([once(child.stdout, "data"), once(child, "exit").then(() => Promise.reject(new Error(`${engine} did not open`)))]);
  const start = { ready: performance.now() - startedAt, CPU: cpuMs(child.pid ?? 0) };
  child.stdin.end();
  await once(child, "exit");
  return start;
}

async function collector(folder: string, env: NodeJS.ProcessEnv): Promise<Start> {
  const { settings } = readSettings("host", env);
  const configFile = join(folder, "collector.yaml");
  writeFileSync(configFile, configFromSettings(settings));
  const { log } = createAgentLog("error", "bench");
  const startedAt = performance.now();
  const program = await toolPath("otelcol-contrib");
  const running = await CollectorProcess.start({ program, configFile, memoryMib: 400, stopGraceMs: 5000, env: {}, log });
  await until(() => running.healthy());
  const start = { ready: performance.now() - startedAt, CPU: cpuMs(running.pid) };
  await running.stop();
  return start;
}

const { PATH, HOME } = process.env;

function run(root: string, args: string[], env: NodeJS.ProcessEnv): () => ChildProcess {
  return () => spawn(process.execPath, args, { cwd: root, stdio: "ignore", env: { PATH, HOME, ...env } });
}

/** Prepares the agent of a checkout with separate folders and ports. */
async function agentOf(root: string, folder: string, sinkUrl: string): Promise<() => Promise<Start>> {
  const agent = await hostAgentPlace(folder, sinkUrl, { INSTALL_TOKEN: "it_of_the_sink" });
  return () =>
    started(run(root, ["--max-semi-space-size=1", "agent/bin/atherops-otel-agent.ts", "run"], agent.env), {
      "its first port": answers(`${agent.healthUrl}/healthz`),
      "its last port": () => listens(agent.proxyUrl),
      ready: answers(`${agent.healthUrl}/readyz`),
    });
}

/** Prepares a backend with a separate folder and ports. `hasLogs`: the engine of logs and spans has been used before. */
async function backendOf(root: string, program: string, folder: string, hasLogs = true): Promise<() => Promise<Start>> {
  const { flags, libraries } = imageStart("Dockerfile.backend");
  const isBundled = program !== "backend/main.ts";
  const backend = await backendPlace(folder, isBundled ? libraries : {});
  if (hasLogs) mkdirSync(join(backend.dataDir, "clickhouse"), { mode: 0o700 });
  const moments = {
    "its first port": answers(`${backend.healthUrl}/healthz`),
    "its last port": () => listens(backend.apiUrl),
    ready: answers(`${backend.healthUrl}/readyz`),
  };
  return () => started(run(root, [...(isBundled ? flags : []), program, "serve"], backend.env), moments, REST_MS);
}

async function main(): Promise<void> {
  using folder = temporaryFolder();
  await using sink = await Sink.start();
  const lone = await hostAgentPlace(join(folder.path, "lone"), sink.url);
  const [metrics = 0, evaluator = 0] = await freePorts(2);
  const at = (name: string): string => {
    mkdirSync(join(folder.path, name), { recursive: true });
    return join(folder.path, name);
  };
  writeFileSync(join(folder.path, "rules.yml"), "groups: []\n");
  const [victoriaMetrics, vmalert] = [await toolPath("victoria-metrics"), await toolPath("vmalert")];
  const program = (path: string, args: string[]) => () => spawn(path, args, { stdio: "ignore", env: {} });
  const evaluatorFlags = [`-rule=${join(folder.path, "rules.yml")}`, "-datasource.url=http://127.0.0.1:9", "-notifier.blackhole"];
  const first = values.first === undefined ? undefined : resolve(values.first);
  const bundle = await bundledBackend(at("image"));
  const all: Record<string, () => Promise<Start>> = {
    "node -e 0": () => ran(["-e", "0"]),
    "agent (whole)": await agentOf(ROOT, at("agent"), sink.url),
    ...(first !== undefined && { "agent of --first": await agentOf(first, at("first-agent"), sink.url) }),
    "collector alone": () => collector(at("lone"), lone.env),
    "backend, bundled": await backendOf(ROOT, bundle, at("bundled")),
    "backend, bundled, nothing stored": await backendOf(ROOT, bundle, at("bundled-new"), false),
    "backend, sources": await backendOf(ROOT, "backend/main.ts", at("sources")),
    "backend, sources, nothing stored": await backendOf(ROOT, "backend/main.ts", at("sources-new"), false),
    ...(first !== undefined && { "backend of --first": await backendOf(first, "backend/main.ts", at("first-backend")) }),
    "ClickHouse's engine alone, in Node": () => opened("clickhouse", at("clickhouse")),
    "SQLite's engine alone, in Node": () => opened("sqlite", at("sqlite")),
    "victoria-metrics alone": () =>
      started(program(victoriaMetrics, [`-storageDataPath=${at("metrics")}`, `-httpListenAddr=127.0.0.1:${metrics}`]), {
        ready: answers(`http://127.0.0.1:${metrics}/health`),
      }),
    "vmalert alone": () =>
      started(program(vmalert, [...evaluatorFlags, `-httpListenAddr=127.0.0.1:${evaluator}`]), {
        ready: answers(`http://127.0.0.1:${evaluator}/health`),
      }),
  };
  const starts = Object.fromEntries(Object.entries(all).filter(([name]) => name.includes(values.only)));
  const measured: Record<string, Start[]> = {};
  const veryFirst: Record<string, number> = {};
  for (const [name, start] of Object.entries(starts)) veryFirst[name] = (await start())["ready"] ?? Number.NaN;
  for (let round = 0; round < Number(values.rounds); round += 1) {
    for (const [name, start] of Object.entries(starts)) (measured[name] ??= []).push(await start());
  }
  report("start", values, tableOf(measured, veryFirst));
}

function tableOf(measured: Record<string, Start[]>, first: Record<string, number>): Record<string, Record<string, string>> {
  const rows = Object.entries(measured).map(([name, all]): [string, Record<string, string>] => {
    const of = (moment: string): string => (all[0]?.[moment] === undefined ? "" : shown(all.map((one) => one[moment] ?? Number.NaN)));
    return [
      name,
      {
        "ready ms": of("ready"),
        "first port ms": of("its first port"),
        "last port ms": of("its last port"),
        "CPU ms": of("CPU"),
        "MB resident": of("MB"),
        "8 s later": of("MB at rest"),
        "PSS 8 s later": of("PSS at rest"),
        "very first ms": (first[name] ?? Number.NaN).toFixed(0),
      },
    ];
  });
  return Object.fromEntries(rows);
}

await main();

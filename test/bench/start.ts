// `npm run bench -- start [--rounds 7] [--first FOLDER]`: from spawn to ready, of the host agent and of the backend with embedded engines,
// beside `node -e 0` and beside the engines' own start, in turns within one run. Both are enrolled and have data: what is measured is a
// restart; the very first start of the backend (it makes schema, secrets and the first user) is told once. FOLDER is a checkout of an
// earlier commit, whose agent and backend take part in the same turns. To be stated, and halved from the first measurement:
//   git worktree add --detach FOLDER d86e2c9 && ln -s "$PWD/node_modules" FOLDER/
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { connect } from "node:net";
import { join, resolve } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { CollectorProcess } from "../../agent/collector/process.ts";
import { configFromSettings } from "../../agent/collector/config-from-settings.ts";
import { createLog as createAgentLog } from "../../agent/log.ts";
import { readSettings } from "../../agent/settings.ts";
import { toolPath } from "../../hack/fetch-tools.ts";
import { cpuMs, report, residentMb, shown } from "../fixtures/measure.ts";
import { Sink } from "../../agent/collector/sink.fixture.ts";
import { backendPlace } from "../fixtures/backend-process.ts";
import { hostAgentPlace } from "../fixtures/host-agent-process.ts";
import { freePorts, ROOT, temporaryFolder } from "../fixtures/processes.ts";

const { values } = parseArgs({ options: { rounds: { type: "string", default: "7" }, first: { type: "string" } } });
const POLL_MS = 3;
const DEADLINE_MS = 60_000;

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

/** Starts a program, waits for each moment in its order, ends it. */
async function started(program: () => ChildProcess, moments: Record<string, () => Promise<boolean>>): Promise<Start> {
  const startedAt = performance.now();
  const child = program();
  const start: Start = {};
  for (const [name, probe] of Object.entries(moments)) {
    await until(probe);
    start[name] = performance.now() - startedAt;
  }
  start["CPU"] = cpuMs(child.pid ?? 0);
  start["MB"] = residentMb(child.pid ?? 0);
  child.kill("SIGTERM");
  await once(child, "exit");
  return start;
}

async function ran(args: string[]): Promise<Start> {
  const startedAt = performance.now();
  await once(spawn(process.execPath, args, { stdio: "ignore" }), "exit");
  return { ready: performance.now() - startedAt };
}

/** What a fresh Node runs to open an embedded engine and nothing else. */
const OPENING = {
  clickhouse: `const { openClickHouse } = await import("./backend/engines/clickhouse/client.ts");
    await (await openClickHouse({ dataDir: process.argv[1], log: { debug() {} } })).ping();`,
  postgres: `const { openDatabase } = await import("./backend/engines/relational/database.ts");
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

/** The agent and the backend of a checkout, each in a place of its own. */
async function products(root: string, folder: string, sinkUrl: string): Promise<Record<"agent" | "backend", () => Promise<Start>>> {
  const agent = await hostAgentPlace(folder, sinkUrl, { INSTALL_TOKEN: "it_of_the_sink" });
  const backend = await backendPlace(folder, { UV_THREADPOOL_SIZE: "16" });
  const { PATH, HOME } = process.env;
  const run = (args: string[], env: NodeJS.ProcessEnv) => () =>
    spawn(process.execPath, args, { cwd: root, stdio: "ignore", env: { PATH, HOME, ...env } });
  return {
    agent: () =>
      started(run(["--max-semi-space-size=1", "agent/bin/atherops-otel-agent.ts", "run"], agent.env), {
        "its first port": answers(`${agent.healthUrl}/healthz`),
        "its last port": () => listens(agent.proxyUrl),
        ready: answers(`${agent.healthUrl}/readyz`),
      }),
    backend: () =>
      started(run(["backend/main.ts", "serve"], backend.env), {
        "its first port": answers(`${backend.healthUrl}/healthz`),
        "its last port": () => listens(backend.apiUrl),
        ready: answers(`${backend.healthUrl}/readyz`),
      }),
  };
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
  const now = await products(ROOT, at("now"), sink.url);
  const then = values.first === undefined ? undefined : await products(resolve(values.first), at("then"), sink.url);
  const starts: Record<string, () => Promise<Start>> = {
    "node -e 0": () => ran(["-e", "0"]),
    "agent (whole)": now.agent,
    ...(then && { "agent of --first": then.agent }),
    "collector alone": () => collector(at("lone"), lone.env),
    "backend (whole, embedded)": now.backend,
    ...(then && { "backend of --first": then.backend }),
    "ClickHouse's engine alone, in Node": () => opened("clickhouse", at("clickhouse")),
    "PostgreSQL's engine alone, in Node": () => opened("postgres", at("postgres")),
    "victoria-metrics alone": () =>
      started(program(victoriaMetrics, [`-storageDataPath=${at("metrics")}`, `-httpListenAddr=127.0.0.1:${metrics}`]), {
        ready: answers(`http://127.0.0.1:${metrics}/health`),
      }),
    "vmalert alone": () =>
      started(program(vmalert, [...evaluatorFlags, `-httpListenAddr=127.0.0.1:${evaluator}`]), {
        ready: answers(`http://127.0.0.1:${evaluator}/health`),
      }),
  };
  const measured: Record<string, Start[]> = {};
  const first: Record<string, number> = {};
  for (const [name, start] of Object.entries(starts)) first[name] = (await start())["ready"] ?? Number.NaN;
  for (let round = 0; round < Number(values.rounds); round += 1) {
    for (const [name, start] of Object.entries(starts)) (measured[name] ??= []).push(await start());
  }
  report("start", values, tableOf(measured, first));
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
        "very first ms": (first[name] ?? Number.NaN).toFixed(0),
      },
    ];
  });
  return Object.fromEntries(rows);
}

await main();

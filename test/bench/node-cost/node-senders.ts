// The programs that the benchmark `node-cost` compares: the agent with its collector, the collector alone with the agent's configuration,
// Promtail, Alloy and Fluent Bit, each configured as its documentation says. Each reads a separate folder of log files and stores its
// offsets on disk.
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { collectorEnvironment, FEATURE_GATES } from "../../../agent/collector/supervision/process.ts";
import { configFromSettings } from "../../../agent/collector/config/config-from-settings.ts";
import { readSettings } from "../../../agent/settings.ts";
import { toolPath } from "../../../hack/fetch-tools.ts";
import { type AgentPlace, collectorPid, hostAgentPlace, startBundledAgent } from "../../fixtures/host-agent-process.ts";
import { eventually, freePorts } from "../../fixtures/processes.ts";
import { Sink } from "./sink.ts";

export interface Sender extends AsyncDisposable {
  readonly logFolder: string;
  readonly sink: Sink;
  /** The pids of its processes by name. */
  readonly processes: () => Readonly<Record<string, number>>;
}

export const LONE_COLLECTOR = "collector alone";

/** The agent's configuration, its exporters pointed at the sink. */
export async function startLoneCollector(
  place: AgentPlace,
  sinkListen: string,
  goEnv: Record<string, string> = {},
): Promise<{ child: ChildProcess } & AsyncDisposable> {
  const { settings } = readSettings("host", { ...place.env, PROXY_LISTEN: sinkListen });
  const configFile = join(place.stateDir, "lone.yaml");
  // Without an agent that opens files, it reads them by their own paths.
  const links = `${place.stateDir}/log-files/*`;
  writeFileSync(configFile, configFromSettings(settings).replace(links, `${place.logFolder}/*.log`));
  const [health = 0, metrics = 0] = await freePorts(2);
  const env = collectorEnvironment({ env: goEnv, memoryMib: settings.collectorMemoryMib }, health, metrics);
  const started = startProgram(await toolPath("otelcol-host"), ["--config", configFile, FEATURE_GATES], env);
  await eventually("the lone collector is healthy", async () => (await fetch(`http://127.0.0.1:${health}/`)).ok);
  return started;
}

export async function startAgent(folder: string, env: NodeJS.ProcessEnv): Promise<Sender> {
  const sink = await Sink.start();
  const place = await hostAgentPlace(folder, sink.url, { ...env, INSTALL_TOKEN: "it_of_the_bench" });
  const agent = await startBundledAgent(place, folder);
  const processes = () => ({ "agent: Node": agent.child.pid ?? 0, "agent: its collector": collectorPid(place) ?? 0 });
  return { logFolder: place.logFolder, sink, processes, [Symbol.asyncDispose]: ends(agent, sink) };
}

/** With `gogc`, the collector runs with this value of GOGC. */
export async function startCollector(folder: string, env: NodeJS.ProcessEnv, gogc?: string): Promise<Sender> {
  const sink = await Sink.start();
  const place = await hostAgentPlace(folder, sink.url, env);
  const lone = await startLoneCollector(place, sink.listen, gogc === undefined ? {} : { GOGC: gogc });
  const name = gogc === undefined ? LONE_COLLECTOR : `${LONE_COLLECTOR}, GOGC=${gogc}`;
  return { logFolder: place.logFolder, sink, processes: pidOf(name, lone.child), [Symbol.asyncDispose]: ends(lone, sink) };
}

/** Configurations of programs that send lines of files to Loki's API. */
const LOKI_CLIENTS = {
  promtail: {
    file: "promtail.yaml",
    config: (url: string, logs: string, state: string) => `server: {disable: true}
positions: {filename: ${state}/positions.yaml}
clients: [{url: ${url}/loki/api/v1/push}]
scrape_configs:
  - job_name: files
    static_configs: [{targets: [localhost], labels: {job: files, __path__: "${logs}/*.log"}}]
`,
    args: (file: string) => [`-config.file=${file}`],
  },
  alloy: {
    file: "config.alloy",
    config: (url: string, logs: string) => `local.file_match "files" { path_targets = [{__path__ = "${logs}/*.log"}] }
loki.source.file "files" {
  targets    = local.file_match.files.targets
  forward_to = [loki.write.sink.receiver]
}
loki.write "sink" {
  endpoint { url = "${url}/loki/api/v1/push" }
}
`,
    args: (file: string, state: string, port: number) => [
      "run",
      `--storage.path=${state}`,
      `--server.http.listen-addr=127.0.0.1:${port}`,
      "--disable-reporting",
      file,
    ],
  },
  "fluent-bit": {
    file: "fluent-bit.conf",
    config: (url: string, logs: string, state: string) => `[SERVICE]
    Log_Level error
[INPUT]
    Name tail
    Path ${logs}/*.log
    DB ${state}/positions.db
    Refresh_Interval 5
[OUTPUT]
    Name loki
    Match *
    Host ${new URL(url).hostname}
    Port ${new URL(url).port}
    Labels job=files
    Drop_Single_Key raw
    Compress gzip
`,
    args: (file: string) => ["-c", file],
  },
} as const;

export type LokiClient = keyof typeof LOKI_CLIENTS;

export async function startLokiClient(name: LokiClient, program: string, folder: string): Promise<Sender> {
  const sink = await Sink.start();
  const [logFolder, state] = [join(folder, "logs"), join(folder, "state")];
  for (const path of [logFolder, state]) mkdirSync(path, { recursive: true });
  const { file, config, args } = LOKI_CLIENTS[name];
  const configFile = join(folder, file);
  writeFileSync(configFile, config(sink.url, logFolder, state));
  const [port = 0] = await freePorts(1);
  const started = startProgram(program, args(configFile, state, port), { PATH: process.env["PATH"] });
  return { logFolder, sink, processes: pidOf(name, started.child), [Symbol.asyncDispose]: ends(started, sink) };
}

function startProgram(program: string, args: readonly string[], env: NodeJS.ProcessEnv): { child: ChildProcess } & AsyncDisposable {
  const child = spawn(program, args, { env, stdio: "ignore" });
  const end = async (): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    child.kill("SIGTERM");
    await once(child, "exit");
  };
  return { child, [Symbol.asyncDispose]: end };
}

function pidOf(name: string, child: ChildProcess): Sender["processes"] {
  return () => ({ [name]: child.pid ?? 0 });
}

function ends(...parts: readonly AsyncDisposable[]): () => Promise<void> {
  return async () => {
    for (const part of parts) await part[Symbol.asyncDispose]();
  };
}

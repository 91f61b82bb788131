// Runs the collector as a child process: finds the program, spawns it, waits until it is ready, stops it. Invariants: its environment is an
// allow-list without credentials; a stop is TERM, a grace period, then KILL, and never counts as a crash; a collector that reads log files
// does not outlive its agent; a collector with a full file queue is killed, because on TERM it would drop lines but save their offsets.
import { createServer, type AddressInfo } from "node:net";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import { ask } from "../../../common/http.ts";
import type { Log } from "../../log.ts";
import { FILES_TOKEN_VARIABLE, HEALTH_PORT_VARIABLE, METRICS_PORT_VARIABLE } from "../config/collector-config.ts";
import { eachLine, endsEvents, LastLines, Outages, reemit } from "./child-log.ts";
import { isFileQueueFull, Rejections } from "./queue-state.ts";
import { blamesStore } from "./damaged-stores.ts";
import { isExecutable } from "../../../common/files.ts";
import { bareHost } from "../../../common/ip-networks.ts";
import { COLLECTOR_VERSION, type Settings, SettingsError } from "../../settings.ts";
import { spawn } from "node:child_process";

/**
 * Lines and their offsets go to the disk queue in one step, instead of through a buffer that a crash would empty. Offsets are written as
 * protobuf, which costs less CPU than JSON in each pass over the files; both formats can be read (pkg/stanza v0.149,
 * fileconsumer/internal/checkpoint).
 */
export const FEATURE_GATES = "--feature-gates=+stanza.synchronousLogEmitter,+filelog.protobufCheckpointEncoding";

export interface CollectorProcessOptions {
  readonly program: string;
  readonly configFile: string;
  readonly memoryMib: number;
  readonly stopGraceMs: number;
  /** Additional environment variables, such as the API server's address; read again for each run. */
  readonly env: Readonly<Record<string, string>>;
  /** True if it reads files that the agent holds open, so it must not outlive the agent. */
  readonly endsWithAgent?: boolean;
  readonly log: Log;
}

export interface Exit {
  /** How the collector ended, with its last log lines; secrets are masked. */
  readonly reason: string;
  /** True if `stop` was called before the collector ended. */
  readonly wasStopped: boolean;
  /** True if the collector's log blamed a file of its stores. */
  readonly blamesStore: boolean;
}

const READY_POLL_MS = 50;

export class CollectorProcess {
  readonly pid: number;
  readonly metricsUrl: string;
  readonly exited: Promise<Exit>;
  readonly rejections = new Rejections();
  readonly #healthUrl: string;
  readonly #child: Child;
  #stopping = false;
  #hasExited = false;
  #eventsEnded = false;

  private constructor(options: CollectorProcessOptions, ports: readonly [number, number]) {
    this.#healthUrl = `http://127.0.0.1:${ports[0]}/`;
    this.metricsUrl = `http://127.0.0.1:${ports[1]}/metrics`;
    const child = spawnCollector(options, ports);
    this.#child = child;
    this.pid = child.pid ?? 0;
    const guard = options.endsWithAgent && child.pid !== undefined ? guardCollector(child.pid, options.configFile, options.log) : undefined;
    const lastLines = new LastLines();
    const outages = new Outages(options.log);
    let hasBlamedStore = false;
    for (const stream of child.pid === undefined ? [] : [child.stdout, child.stderr]) {
      eachLine(stream, (line) => {
        hasBlamedStore ||= blamesStore(line);
        this.#eventsEnded ||= endsEvents(line);
        this.rejections.note(line);
        reemit(line, options.log, lastLines, this.#stopping, outages);
      });
    }
    this.exited = child.then(({ exitCode, signal, originalMessage = "" }) => {
      this.#hasExited = true;
      guard?.[Symbol.dispose]();
      outages[Symbol.dispose]();
      const isStarted = exitCode !== undefined || signal !== undefined;
      const cause = signal === undefined ? `exit code ${exitCode ?? "unknown"}` : `signal ${signal}`;
      const output = withAddressAdvice(lastLines.text() || (isStarted ? "" : originalMessage));
      return { wasStopped: this.#stopping, reason: output === "" ? cause : `${cause}: ${output}`, blamesStore: hasBlamedStore };
    });
  }

  /**
   * Resolves once the process is spawned; a program that cannot be started is reported by `exited`. Throws without spawning if `signal` has
   * aborted.
   */
  static async start(options: CollectorProcessOptions, signal?: AbortSignal): Promise<CollectorProcess> {
    const ports = await twoFreePorts();
    signal?.throwIfAborted();
    return new CollectorProcess(options, ports);
  }

  /** True if the collector logged that it no longer watches events; everything else in it continues. */
  get eventsEnded(): boolean {
    return this.#eventsEnded;
  }

  /** True once every component has started; false if the collector ended first or `signal` aborted. */
  async ready(signal: AbortSignal): Promise<boolean> {
    while (!signal.aborted && !this.#hasExited) {
      if (await this.healthy()) return true;
      await Promise.race([this.exited, sleep(READY_POLL_MS)]);
    }
    return false;
  }

  async healthy(): Promise<boolean> {
    return (await this.#probe(1000)) === 200;
  }

  /** True if its health endpoint responds, with any status. */
  async responds(withinMs: number): Promise<boolean> {
    return (await this.#probe(withinMs)) !== undefined;
  }

  async #probe(withinMs: number): Promise<number | undefined> {
    try {
      return (await ask(this.#healthUrl, { signal: AbortSignal.timeout(withinMs) })).status;
    } catch {
      return undefined;
    }
  }

  /** Kills the collector, which counts as a crash. */
  kill(): void {
    this.#child.kill("SIGKILL");
  }

  /** Idempotent; resolves once the process has ended. */
  async stop(): Promise<void> {
    if (!this.#stopping && !this.#hasExited) {
      this.#stopping = true;
      this.#child.kill((await isFileQueueFull(this.metricsUrl)) ? "SIGKILL" : "SIGTERM");
    }
    await this.exited;
  }
}

/** Adds advice about an address, because the collector's own message names no setting. */
function withAddressAdvice(reason: string): string {
  const problem = /"otlp" receiver: listen tcp:? (.*)/.exec(reason)?.[1];
  if (problem === undefined) return reason;
  const [, inUse] = /^(\S+): bind: address already in use/.exec(problem) ?? [];
  const setting = "set OTLP_GRPC_LISTEN and OTLP_HTTP_LISTEN to";
  const advice =
    inUse === undefined
      ? `${setting} addresses of this machine, with ports that the collector may open`
      : `${inUse} is in use by another program: stop it, or ${setting} free ports`;
  return `${advice}\n${reason}`;
}

type Child = ReturnType<typeof spawnCollector>;

/**
 * The promise never rejects: a program that cannot be started counts as ended. The process is killed if it has not ended a grace period
 * after TERM.
 */
function spawnCollector(options: CollectorProcessOptions, [health, metrics]: readonly [number, number]) {
  return execa(options.program, ["--config", options.configFile, FEATURE_GATES], {
    env: collectorEnvironment(options, health, metrics),
    extendEnv: false,
    stdin: "ignore",
    buffer: false,
    reject: false,
    // The agent ends the collector in order; if the agent is killed, the next one does it (orphan.ts).
    cleanup: false,
    forceKillAfterDelay: options.stopGraceMs,
  });
}

/** GOMEMLIMIT keeps the garbage collector below the limiter's hard limit (README of the memory limiter). */
export function collectorEnvironment(
  { env, memoryMib }: Pick<CollectorProcessOptions, "env" | "memoryMib">,
  healthPort: number,
  metricsPort: number,
): Record<string, string> {
  return {
    [FILES_TOKEN_VARIABLE]: "",
    ...env,
    GOMEMLIMIT: `${Math.floor(memoryMib * 0.8)}MiB`,
    [HEALTH_PORT_VARIABLE]: String(healthPort),
    [METRICS_PORT_VARIABLE]: String(metricsPort),
  };
}

/** If another program takes one of the ports before the collector does, the collector ends, and its next start gets other ports. */
async function twoFreePorts(): Promise<[number, number]> {
  const servers = [createServer(), createServer()] as const;
  await Promise.all(servers.map((server) => once(server.listen(0, "127.0.0.1"), "listening")));
  const [health, metrics] = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => new Promise((done) => server.close(done))));
  return [health ?? 0, metrics ?? 0];
}

/** Returns the collector's environment variables that depend on settings. */
export function collectorVariables({ cluster }: Settings): Record<string, string> {
  if (!cluster) return {};
  const { hostname, port } = new URL(cluster.kubernetesServer);
  return { KUBERNETES_SERVICE_HOST: bareHost(hostname), KUBERNETES_SERVICE_PORT: port || "443" };
}

/** Finds the collector's program. Throws SettingsError if there is none, or if a program that the collector itself runs is missing. */
export function collectorProgram({ otelcolPath, host }: Settings): string {
  const journalctl = host?.journal?.program;
  if (journalctl !== undefined && !isExecutable(journalctl)) {
    throw new SettingsError(`JOURNALD: ${journalctl} cannot be executed; set JOURNALCTL_PATH, or unset JOURNALD`);
  }
  const program = otelcolPath.find(isExecutable);
  if (program !== undefined) return program;
  const problem = otelcolPath.length === 1 ? `${otelcolPath[0]} cannot be executed` : "there is no collector on PATH or in the tool cache";
  throw new SettingsError(`OTELCOL_PATH: ${problem}; install otelcol-contrib ${COLLECTOR_VERSION} and set its path here`);
}

/** Kills the collector when its standard input closes, which happens when the agent ends. */
const GUARD_SCRIPT = `trap '' INT TERM HUP; read -r _; grep -qaF -- "$2" "/proc/$1/cmdline" && kill -KILL "$1"`;

/** Starts a process that kills the collector if this agent is killed. Dispose it once the collector has ended. */
export function guardCollector(pid: number, configFile: string, log: Log): Disposable {
  const shell = spawn("/bin/sh", ["-c", GUARD_SCRIPT, "collector-guard", String(pid), configFile], {
    stdio: ["pipe", "ignore", "ignore"],
    env: { PATH: "/usr/local/bin:/usr/bin:/bin" },
  });
  // The next agent ends the collector (orphan.ts); some lines may be stored twice.
  shell.on("error", (error) =>
    log.warn({ event: "collector.guard_failed", err: error.message }, "cannot start the guard process of the collector"),
  );
  shell.stdin.on("error", () => {});
  return { [Symbol.dispose]: () => void shell.kill("SIGKILL") };
}

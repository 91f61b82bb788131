// One run of the collector as a child process: find the program, spawn it, wait until it is ready, stop it. Invariants: its environment is
// an allow-list without credentials; a stop is TERM, a grace period, then KILL, and never counts as a crash; a collector that reads log
// files does not outlive its agent; a collector whose files wait for a full queue is killed, because on TERM it would drop the lines in its
// hands and remember them as read.
import { createServer, type AddressInfo } from "node:net";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import { ask } from "../../../common/http.ts";
import type { Log } from "../../log.ts";
import { FILES_TOKEN_VARIABLE, HEALTH_PORT_VARIABLE, METRICS_PORT_VARIABLE } from "../config/collector-config.ts";
import { eachLine, endsEvents, LastLines, Outages, reemit } from "./child-log.ts";
import { filesWait, Rejections } from "./queue-state.ts";
import { blamesStore } from "./damaged-stores.ts";
import { isExecutable } from "../../../common/files.ts";
import { bareHost } from "../../../common/ip-networks.ts";
import { COLLECTOR_VERSION, type Settings, SettingsError } from "../../settings.ts";
import { spawn } from "node:child_process";

/**
 * Lines and their offsets go to the disk queue in one step, instead of through a buffer that a crash would empty. Offsets are written as
 * protobuf, which costs less CPU than JSON in each pass over the files; either is read (pkg/stanza v0.149, fileconsumer/internal/checkpoint).
 */
export const FEATURE_GATES = "--feature-gates=+stanza.synchronousLogEmitter,+filelog.protobufCheckpointEncoding";

export interface CollectorProcessOptions {
  readonly program: string;
  readonly configFile: string;
  readonly memoryMib: number;
  readonly stopGraceMs: number;
  /** Variables of the collector beyond the ones that each run sets itself, e.g. where the API server is; read again for each run. */
  readonly env: Readonly<Record<string, string>>;
  /** It reads files that the agent holds open, so it must not outlive the agent. */
  readonly endsWithAgent?: boolean;
  readonly log: Log;
}

export interface Exit {
  /** What it said last, secrets masked; the best guess at why it ended. */
  readonly reason: string;
  /** True when `stop` was called before it ended. */
  readonly wasAsked: boolean;
  /** True when it spoke of a file of its stores. */
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
    const last = new LastLines();
    const outages = new Outages(options.log);
    let blames = false;
    for (const stream of child.pid === undefined ? [] : [child.stdout, child.stderr]) {
      eachLine(stream, (line) => {
        blames ||= blamesStore(line);
        this.#eventsEnded ||= endsEvents(line);
        this.rejections.note(line);
        reemit(line, options.log, last, this.#stopping, outages);
      });
    }
    this.exited = child.then(({ exitCode, signal, originalMessage = "" }) => {
      this.#hasExited = true;
      guard?.[Symbol.dispose]();
      outages[Symbol.dispose]();
      const isStarted = exitCode !== undefined || signal !== undefined;
      const how = signal === undefined ? `exit code ${exitCode ?? "unknown"}` : `signal ${signal}`;
      const said = withPortAdvice(last.text() || (isStarted ? "" : originalMessage));
      return { wasAsked: this.#stopping, reason: said === "" ? how : `${how}: ${said}`, blamesStore: blames };
    });
  }

  /** Resolves once spawned; a program that cannot be started shows as `exited`. Throws, and spawns nothing, when `signal` has aborted. */
  static async start(options: CollectorProcessOptions, signal?: AbortSignal): Promise<CollectorProcess> {
    const ports = await twoFreePorts();
    signal?.throwIfAborted();
    return new CollectorProcess(options, ports);
  }

  /** True when it said that it watches no events any more; all else of it goes on. */
  get eventsEnded(): boolean {
    return this.#eventsEnded;
  }

  /** True once every component has started; false when it ended first or `signal` aborted. */
  async ready(signal: AbortSignal): Promise<boolean> {
    while (!signal.aborted && !this.#hasExited) {
      if (await this.healthy()) return true;
      await Promise.race([this.exited, sleep(READY_POLL_MS)]);
    }
    return false;
  }

  async healthy(): Promise<boolean> {
    return (await this.#ask(1000)) === 200;
  }

  /** True when it says anything at all of its health. */
  async answers(withinMs: number): Promise<boolean> {
    return (await this.#ask(withinMs)) !== undefined;
  }

  async #ask(withinMs: number): Promise<number | undefined> {
    try {
      return (await ask(this.#healthUrl, { signal: AbortSignal.timeout(withinMs) })).status;
    } catch {
      return undefined;
    }
  }

  /** Ends it as a crash would. */
  kill(): void {
    this.#child.kill("SIGKILL");
  }

  /** Idempotent; resolves when the process is gone. */
  async stop(): Promise<void> {
    if (!this.#stopping && !this.#hasExited) {
      this.#stopping = true;
      this.#child.kill((await filesWait(this.metricsUrl)) ? "SIGKILL" : "SIGTERM");
    }
    await this.exited;
  }
}

/** The collector's own message names neither the setting nor what to do. */
function withPortAdvice(reason: string): string {
  const address = /"otlp" receiver: listen tcp (\S+): bind: address already in use/.exec(reason)?.[1];
  if (address === undefined) return reason;
  return `${address} is in use by another program: end that, or set OTLP_GRPC_LISTEN and OTLP_HTTP_LISTEN to free ports\n${reason}`;
}

type Child = ReturnType<typeof spawnCollector>;

/** Its result never rejects: a program that cannot be started has ended. Killed, when it has not ended so long after a TERM. */
function spawnCollector(options: CollectorProcessOptions, [health, metrics]: readonly [number, number]) {
  return execa(options.program, ["--config", options.configFile, FEATURE_GATES], {
    env: collectorEnvironment(options, health, metrics),
    extendEnv: false,
    stdin: "ignore",
    buffer: false,
    reject: false,
    // The agent ends it in order, and one that was killed leaves it to the next (orphan.ts).
    cleanup: false,
    forceKillAfterDelay: options.stopGraceMs,
  });
}

/** GOMEMLIMIT keeps the garbage collector below the limiter's hard limit (facts of the memory limiter's README). */
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

/** Free a moment ago; if another takes one before the collector does, the collector ends and the next start gets others. */
async function twoFreePorts(): Promise<[number, number]> {
  const servers = [createServer(), createServer()] as const;
  await Promise.all(servers.map((server) => once(server.listen(0, "127.0.0.1"), "listening")));
  const [health, metrics] = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => new Promise((done) => server.close(done))));
  return [health ?? 0, metrics ?? 0];
}

/** Variables of the collector's allow-list environment that settings decide. */
export function collectorVariables({ cluster }: Settings): Record<string, string> {
  if (!cluster) return {};
  const { hostname, port } = new URL(cluster.kubernetesServer);
  return { KUBERNETES_SERVICE_HOST: bareHost(hostname), KUBERNETES_SERVICE_PORT: port || "443" };
}

/** The collector's program. Throws SettingsError when there is none, or none of what the collector is to run itself. */
export function collectorProgram({ otelcolPath, host }: Settings): string {
  const journalctl = host?.journal?.program;
  if (journalctl !== undefined && !isExecutable(journalctl)) {
    throw new SettingsError(`JOURNALD: ${journalctl} cannot be executed; name another with JOURNALCTL_PATH, or leave JOURNALD out`);
  }
  const found = otelcolPath.find(isExecutable);
  if (found !== undefined) return found;
  const [named, ...others] = otelcolPath;
  const where = others.length === 0 ? `${named} cannot be executed` : "there is no collector on PATH or in the tool cache";
  throw new SettingsError(`OTELCOL_PATH: ${where}; install otelcol-contrib ${COLLECTOR_VERSION} and name it here`);
}

const SCRIPT = `trap '' INT TERM HUP; read -r _; grep -qaF -- "$2" "/proc/$1/cmdline" && kill -KILL "$1"`;

/** To be disposed when the collector has ended. */
export function guardCollector(pid: number, configFile: string, log: Log): Disposable {
  const shell = spawn("/bin/sh", ["-c", SCRIPT, "collector-guard", String(pid), configFile], {
    stdio: ["pipe", "ignore", "ignore"],
    env: { PATH: "/usr/local/bin:/usr/bin:/bin" },
  });
  // Safe: the next agent ends the collector (orphan.ts); some lines may be stored twice.
  shell.on("error", (error) => log.warn({ event: "collector.guard_failed", err: error.message }, "cannot start the collector's guard"));
  shell.stdin.on("error", () => {});
  return { [Symbol.dispose]: () => void shell.kill("SIGKILL") };
}

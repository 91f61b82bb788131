// Keeps one engine program (victoria-metrics, vmalert) running as a child process: finds, starts, probes and stops it, and restarts it with
// backoff. Invariant: at most one child runs per pid file, and none outlives a clean stop.
import { spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { dirname, isAbsolute } from "node:path";
import { execa } from "execa";
import { isExecutable } from "../../common/files.ts";
import { ask } from "../../common/http.ts";
import { Loop, pause, pollUntil } from "../../common/loop.ts";
import { maskSecrets } from "../../common/mask.ts";
import { Outage } from "../../common/outage.ts";
import type { Log } from "../log.ts";
import { loginOf } from "./engine-http.ts";
import { StartError } from "../errors.ts";
import { announceChild, endOrphan, forgetChild, recordChild } from "./orphan.ts";

export interface ChildOptions {
  /** The engine's name in logs and errors, e.g. `victoria-metrics`. */
  readonly name: string;
  /** Paths of programs, or names to look up on PATH; the first one that can be executed is used. */
  readonly candidates: readonly string[];
  readonly args: readonly string[];
  /** The child's whole environment; nothing is inherited. */
  readonly env?: Readonly<Record<string, string>>;
  readonly pidFile: string;
  /** Returns 2xx once the child is ready for requests. */
  readonly readyUrl: string;
  /**
   * A URL that requires the login. This URL also has to return 2xx before the child counts as ready. VictoriaMetrics reads its password
   * file during the first request that needs it, and rejects requests until it has read it (lib/flagutil/password.go).
   */
  readonly loginUrl?: string;
  readonly log: Log;
  /** Ends the first start, which can take minutes. */
  readonly stopping?: AbortSignal;
  /** Called immediately after the child has exited without being stopped, before it is restarted. */
  readonly onExit?: () => void;
  readonly onRestart?: () => void;
  readonly timing?: Partial<ChildTiming>;
}

export interface ChildTiming {
  /** Time limit for the first start, which may recover from a crash; later starts have none. */
  readonly readyTimeoutMs: number;
  /** Time between SIGTERM and SIGKILL. */
  readonly graceMs: number;
  readonly firstBackoffMs: number;
  readonly maxBackoffMs: number;
  /** After running this long, the child starts with the shortest backoff again. */
  readonly healthyMs: number;
}

export interface EngineChild extends AsyncDisposable {
  /** True while the child is up and has answered its ready URL since its last start. */
  readonly running: boolean;
  readonly pid: number | undefined;
  readonly restarts: number;
  /** True after disposal if the child exited with code 0 after SIGTERM, so that it was not killed. */
  readonly stoppedCleanly: boolean;
}

const DEFAULT_TIMING: ChildTiming = {
  readyTimeoutMs: 600_000,
  graceMs: 15_000,
  firstBackoffMs: 250,
  maxBackoffMs: 30_000,
  healthyMs: 60_000,
};
const KEPT_LINES = 15;
const READY_POLL_MS = 50;
const REMIND_MS = 300_000;

/**
 * Ends an orphan of an earlier backend, starts the child and resolves once it is ready. Rejects, with nothing left running, if no candidate
 * can be executed, if the child exits or is not ready in time, or if `stopping` aborts. The message then contains its last lines of output,
 * with secrets masked.
 */
export async function superviseChild(options: ChildOptions): Promise<EngineChild> {
  const program = findProgram(options.name, options.candidates);
  const timing = { ...DEFAULT_TIMING, ...options.timing };
  mkdirSync(dirname(options.pidFile), { recursive: true });
  const orphan = await endOrphan(options.pidFile, timing.graceMs);
  if (orphan !== undefined)
    options.log.warn({ event: "engine.orphan_ended", engine: options.name, pid: orphan }, "ended the engine of a killed backend");
  const child = new SupervisedChild(program, options, timing);
  try {
    const timeLimit = AbortSignal.timeout(timing.readyTimeoutMs);
    await child.start(options.stopping ? AbortSignal.any([options.stopping, timeLimit]) : timeLimit);
  } catch (error) {
    await child[Symbol.asyncDispose]();
    throw error;
  }
  child.keepRunning();
  return child;
}

/** One run of the child, from spawn to exit. */
interface ChildRun {
  readonly pid: number | undefined;
  readonly exited: Promise<string>;
  end(): void;
}

class SupervisedChild implements EngineChild {
  readonly #program: string;
  readonly #options: ChildOptions;
  readonly #timing: ChildTiming;
  readonly #outage: Outage<Error>;
  readonly #lastLines: string[] = [];
  readonly #killAtExit = (): void => this.#run?.end();
  #run: ChildRun | undefined;
  #isReady = false;
  #restarts = 0;
  #stoppedCleanly = false;
  #loop: Loop | undefined;

  constructor(program: string, options: ChildOptions, timing: ChildTiming) {
    this.#program = program;
    this.#options = options;
    this.#timing = timing;
    const { log, name: engine } = options;
    this.#outage = new Outage({
      began: (err) => log.error({ event: "engine.down", engine, err }, "engine is down; retrying"),
      reminded: (err, { failures, seconds }) =>
        log.error({ event: "engine.still_down", engine, err, failures, seconds }, "engine is still down; retrying"),
      ended: ({ failures, seconds }) =>
        log.info({ event: "engine.recovered", engine, pid: this.pid, failures, seconds }, "engine recovered"),
      remindEveryMs: REMIND_MS,
    });
    process.once("exit", this.#killAtExit);
  }

  get running(): boolean {
    return this.#isReady;
  }

  get pid(): number | undefined {
    return this.#run?.pid;
  }

  get restarts(): number {
    return this.#restarts;
  }

  get stoppedCleanly(): boolean {
    return this.#stoppedCleanly;
  }

  /** Spawns and waits until ready. Throws with the child's last lines if it exits before it is ready, or when `signal` fires. */
  async start(signal: AbortSignal): Promise<void> {
    const run = this.#spawn();
    this.#run = run;
    const pollingStop = new AbortController();
    const pollingSignal = AbortSignal.any([signal, pollingStop.signal]);
    try {
      const becomesReady = pollUntil(() => this.#answers(pollingSignal), READY_POLL_MS, pollingSignal);
      const result = await Promise.race([run.exited, becomesReady]);
      if (typeof result === "string") throw this.#failure(`exited before it was ready (${result})`);
      if (this.#options.stopping?.aborted) throw this.#failure("was stopped before it was ready");
      if (!result) throw this.#failure(`is not ready after ${this.#timing.readyTimeoutMs / 1000} s`);
      this.#isReady = true;
    } finally {
      pollingStop.abort();
    }
  }

  /** Restarts the child after each unrequested exit, until disposed. */
  keepRunning(): void {
    this.#loop = new Loop({
      step: (signal) => this.#runOnce(signal),
      failed: (error) => this.#outage.failed(error as Error, (error as Error).message.split("\n", 1)[0]),
      backoffMs: [this.#timing.firstBackoffMs, this.#timing.maxBackoffMs],
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    process.off("exit", this.#killAtExit);
    await this.#loop?.[Symbol.asyncDispose]();
    this.#isReady = false;
    const run = this.#run;
    if (!run) return;
    run.end();
    this.#stoppedCleanly = (await run.exited) === "exit code 0";
    forgetChild(this.#options.pidFile);
  }

  /** Restarts the child unless it runs. Resolves when it has run for another `healthyMs`; throws if it exits before that. */
  async #runOnce(signal: AbortSignal): Promise<number> {
    if (!this.#isReady) await this.#restart(signal);
    const pauseStop = new AbortController();
    const healthy = pause(this.#timing.healthyMs, AbortSignal.any([signal, pauseStop.signal]));
    const reason = await Promise.race([this.#run?.exited, healthy]).finally(() => pauseStop.abort());
    if (reason === undefined) return 0;
    this.#isReady = false;
    this.#options.onExit?.();
    throw this.#failure(`exited (${reason})`);
  }

  async #restart(signal: AbortSignal): Promise<void> {
    this.#restarts += 1;
    await this.start(signal);
    signal.throwIfAborted();
    this.#options.onRestart?.();
    this.#outage.recovered();
  }

  #spawn(): ChildRun {
    const { args, env, log, name, pidFile } = this.#options;
    announceChild(pidFile, this.#program, args);
    // In its own process group, so that Ctrl-C in a terminal reaches only the backend, which then stops the engine cleanly.
    const child = execa(this.#program, args, {
      env: env ?? {},
      extendEnv: false,
      stdin: "ignore",
      all: true,
      buffer: false,
      reject: false,
      detached: true,
      cleanup: false,
      forceKillAfterDelay: this.#timing.graceMs,
    });
    if (child.pid !== undefined) recordChild(pidFile, child.pid, this.#program, args);
    child.all.setEncoding("utf8");
    let incompleteLine = "";
    child.all.on("data", (text: string) => {
      const lines = (incompleteLine + text).split("\n");
      incompleteLine = (lines.pop() ?? "").slice(0, 4096);
      for (const line of lines) this.#keepLine(line, log, name);
    });
    const exited = child.then(({ signal, exitCode, originalMessage }) => {
      if (signal) return `signal ${signal}`;
      return exitCode === undefined ? `it cannot be executed: ${originalMessage}` : `exit code ${exitCode}`;
    });
    return { pid: child.pid, exited, end: () => void child.kill("SIGTERM") };
  }

  #keepLine(line: string, log: Log, engine: string): void {
    if (line === "") return;
    const masked = maskSecrets(line).slice(0, 1000);
    this.#lastLines.push(masked);
    if (this.#lastLines.length > KEPT_LINES) this.#lastLines.shift();
    log.debug({ event: "engine.output", engine }, masked);
  }

  async #answers(signal: AbortSignal): Promise<boolean> {
    const requestSignal = AbortSignal.any([signal, AbortSignal.timeout(2000)]);
    const { readyUrl, loginUrl } = this.#options;
    for (const probed of loginUrl === undefined ? [readyUrl] : [readyUrl, loginUrl]) {
      const { url, headers } = loginOf(probed);
      const answer = await ask(url, { signal: requestSignal, headers }).catch(() => undefined);
      if (!answer?.ok) return false;
    }
    return true;
  }

  #failure(what: string): Error {
    const lines = this.#lastLines.length > 0 ? `; its last lines:\n${this.#lastLines.map((line) => `  ${line}`).join("\n")}` : "";
    return new Error(`${this.#options.name} ${what}${lines}`);
  }
}

/** The first candidate that can be executed: a path, or a name on PATH. Throws a StartError that describes what to install or set. */
export function findProgram(name: string, candidates: readonly string[]): string {
  for (const candidate of candidates) {
    const path = isAbsolute(candidate) || candidate.includes("/") ? candidate : onPath(candidate);
    if (path && isExecutable(path)) return path;
  }
  const variable = `${name.toUpperCase().replaceAll("-", "_")}_PATH`;
  throw new StartError(
    `${name} is not installed: none of ${candidates.join(", ")} can be executed; set ${variable} to the program, or run hack/fetch-tools.ts to download it`,
  );
}

// Asks a shell, which reads PATH from the environment: in this program, only settings.ts reads it.
function onPath(name: string): string | undefined {
  const shell = spawnSync("/bin/sh", ["-c", 'command -v -- "$1"', "sh", name], { encoding: "utf8" });
  return shell.status === 0 ? shell.stdout.trim() : undefined;
}

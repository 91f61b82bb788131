// Keeps one engine program (victoria-metrics, vmalert) running as a child: found, started, watched, restarted with backoff, stopped.
// Invariant: at most one such child lives per pid file, and none outlives a clean stop.
import { accessSync, constants, mkdirSync } from "node:fs";
import { spawnSync } from "node:child_process";
import { dirname, isAbsolute } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { execa } from "execa";
import type { Log } from "../observability/log.ts";
import { StartError } from "../startup-error.ts";
import { announceChild, endOrphan, forgetChild, recordChild } from "./orphan.ts";

export interface ChildOptions {
  /** The engine's name in logs and errors, e.g. `victoria-metrics`. */
  readonly name: string;
  /** Program paths, or bare names looked up on PATH; the first that can be executed is taken. */
  readonly candidates: readonly string[];
  readonly args: readonly string[];
  /** The child's whole environment; nothing is inherited. */
  readonly env?: Readonly<Record<string, string>>;
  readonly pidFile: string;
  /** Answers 2xx once the child can work. */
  readonly readyUrl: string;
  readonly log: Log;
  /** The child has ended without being asked to; at once, before it is started again. */
  readonly onExit?: () => void;
  readonly onRestart?: () => void;
  readonly timing?: Partial<ChildTiming>;
}

export interface ChildTiming {
  /** For the first start; later starts are waited for without end. */
  readonly readyTimeoutMs: number;
  /** Between SIGTERM and SIGKILL. */
  readonly graceMs: number;
  readonly firstBackoffMs: number;
  readonly maxBackoffMs: number;
  /** A child that lived this long starts the backoff anew. */
  readonly healthyMs: number;
}

export interface EngineChild extends AsyncDisposable {
  /** True while the child is up and has answered its ready URL since its last start. */
  readonly running: boolean;
  readonly pid: number | undefined;
  readonly restarts: number;
  /** True after disposal if the child ended by itself within its grace, with exit code 0. */
  readonly stoppedInOrder: boolean;
}

const DEFAULT_TIMING: ChildTiming = {
  readyTimeoutMs: 60_000,
  graceMs: 15_000,
  firstBackoffMs: 250,
  maxBackoffMs: 30_000,
  healthyMs: 60_000,
};
const KEPT_LINES = 15;
const READY_POLL_MS = 50;

/**
 * Ends an orphan of an earlier backend, starts the child and resolves once it is ready. Rejects, with nothing left running, if no
 * candidate can be executed, or if the child exits or is not ready in time; the message then holds its last lines, secrets masked.
 */
export async function superviseChild(options: ChildOptions): Promise<EngineChild> {
  const program = findProgram(options.name, options.candidates);
  const timing = { ...DEFAULT_TIMING, ...options.timing };
  mkdirSync(dirname(options.pidFile), { recursive: true });
  const orphan = await endOrphan(options.pidFile, timing.graceMs);
  if (orphan !== undefined) options.log.warn({ engine: options.name, pid: orphan }, "ended the engine of a backend that was killed");
  const child = new SupervisedChild(program, options, timing);
  try {
    await child.start(AbortSignal.timeout(timing.readyTimeoutMs));
  } catch (error) {
    await child[Symbol.asyncDispose]();
    throw error;
  }
  child.keepRunning();
  return child;
}

/** One life of the child, from spawn to exit. */
interface Life {
  readonly pid: number | undefined;
  readonly startedAt: number;
  readonly exited: Promise<string>;
  end(): void;
}

class SupervisedChild implements EngineChild {
  readonly #program: string;
  readonly #options: ChildOptions;
  readonly #timing: ChildTiming;
  readonly #stopping = new AbortController();
  readonly #lastLines: string[] = [];
  readonly #killAtExit = (): void => this.#life?.end();
  #life: Life | undefined;
  #ready = false;
  #restarts = 0;
  #stoppedInOrder = false;
  #loop: Promise<void> = Promise.resolve();

  constructor(program: string, options: ChildOptions, timing: ChildTiming) {
    this.#program = program;
    this.#options = options;
    this.#timing = timing;
    process.once("exit", this.#killAtExit);
  }

  get running(): boolean {
    return this.#ready;
  }

  get pid(): number | undefined {
    return this.#life?.pid;
  }

  get restarts(): number {
    return this.#restarts;
  }

  get stoppedInOrder(): boolean {
    return this.#stoppedInOrder;
  }

  /** Spawns and waits until ready. Throws with the child's last lines if it exits first, or when `signal` fires. */
  async start(signal: AbortSignal): Promise<void> {
    const life = this.#spawn();
    this.#life = life;
    const over = new AbortController();
    try {
      const ready = this.#becomeReady(AbortSignal.any([signal, over.signal, this.#stopping.signal]));
      const first = await Promise.race([life.exited, ready]);
      if (typeof first === "string") throw this.#failure(`exited before it was ready (${first})`);
      if (!first && signal.aborted) throw this.#failure(`is not ready after ${this.#timing.readyTimeoutMs / 1000} s`);
      this.#ready = first;
    } finally {
      over.abort();
    }
  }

  /** Restarts the child after every exit that nobody asked for, until disposed. */
  keepRunning(): void {
    this.#loop = this.#keepRunning();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopping.abort();
    this.#ready = false;
    process.off("exit", this.#killAtExit);
    await this.#loop;
    const life = this.#life;
    if (!life) return;
    life.end();
    this.#stoppedInOrder = (await life.exited) === "exit code 0";
    forgetChild(this.#options.pidFile);
  }

  async #keepRunning(): Promise<void> {
    const { log, name } = this.#options;
    let failures = 0;
    let former: Life | undefined;
    while (this.#life) {
      const life = this.#life;
      const reason = await Promise.race([life.exited, aborted(this.#stopping.signal)]);
      if (reason === undefined) return;
      this.#ready = false;
      this.#options.onExit?.();
      // One that could not even be spawned again is still the former.
      failures = life !== former && Date.now() - life.startedAt >= this.#timing.healthyMs ? 1 : failures + 1;
      former = life;
      const delayMs = backoff(failures, this.#timing);
      log.error({ engine: name, reason, restart_in_ms: delayMs, last_lines: this.#lastLines.slice() }, "engine exited; restarting it");
      await sleep(delayMs, undefined, { signal: this.#stopping.signal }).catch(() => undefined);
      if (this.#stopping.signal.aborted) return;
      await this.#restart();
    }
  }

  async #restart(): Promise<void> {
    const { log, name, onRestart } = this.#options;
    this.#restarts += 1;
    try {
      await this.start(new AbortController().signal);
      if (!this.#ready) return;
      onRestart?.();
      log.info({ engine: name, pid: this.pid }, "engine is up again");
    } catch (error) {
      // The life that failed has exited: the loop sees it and tries again later.
      log.error({ err: error, engine: name }, "engine did not come up");
    }
  }

  #spawn(): Life {
    const { args, env, log, name, pidFile } = this.#options;
    const startedAt = Date.now();
    announceChild(pidFile, this.#program, args);
    // In a process group of its own, so that Ctrl-C in a terminal reaches the backend first and the engine is stopped in order.
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
    let rest = "";
    child.all.on("data", (text: string) => {
      const lines = (rest + text).split("\n");
      rest = (lines.pop() ?? "").slice(0, 4096);
      for (const line of lines) this.#keepLine(line, log, name);
    });
    const exited = child.then(({ signal, exitCode, originalMessage }) => {
      if (signal) return `signal ${signal}`;
      return exitCode === undefined ? `it cannot be executed: ${originalMessage}` : `exit code ${exitCode}`;
    });
    return { pid: child.pid, startedAt, exited, end: () => void child.kill("SIGTERM") };
  }

  #keepLine(line: string, log: Log, engine: string): void {
    if (line === "") return;
    const masked = maskSecrets(line.slice(0, 1000));
    this.#lastLines.push(masked);
    if (this.#lastLines.length > KEPT_LINES) this.#lastLines.shift();
    log.debug({ engine }, masked);
  }

  async #becomeReady(signal: AbortSignal): Promise<boolean> {
    while (!signal.aborted) {
      const answer = await fetch(this.#options.readyUrl, { signal: AbortSignal.any([signal, AbortSignal.timeout(2000)]) }).catch(
        () => undefined,
      );
      await answer?.body?.cancel();
      if (answer?.ok) return true;
      await sleep(READY_POLL_MS, undefined, { signal }).catch(() => undefined);
    }
    return false;
  }

  #failure(what: string): Error {
    const lines = this.#lastLines.length > 0 ? `; its last lines:\n${this.#lastLines.map((line) => `  ${line}`).join("\n")}` : "";
    return new Error(`${this.#options.name} ${what}${lines}`);
  }
}

/** The first candidate that can be executed. Throws one sentence that names the variable and the tool fetcher. */
export function findProgram(name: string, candidates: readonly string[]): string {
  for (const candidate of candidates) {
    const path = isAbsolute(candidate) || candidate.includes("/") ? candidate : onPath(candidate);
    if (path && isExecutable(path)) return path;
  }
  const variable = `${name.toUpperCase().replaceAll("-", "_")}_PATH`;
  throw new StartError(
    `${name} is not installed: none of ${candidates.join(", ")} can be executed; set ${variable} to the program, or run hack/fetch-tools.ts to bring it`,
  );
}

// The shell looks it up, because PATH belongs to the process and only settings.ts reads the environment.
function onPath(name: string): string | undefined {
  const found = spawnSync("/bin/sh", ["-c", 'command -v -- "$1"', "sh", name], { encoding: "utf8" });
  return found.status === 0 ? found.stdout.trim() : undefined;
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

/** Doubles with every failure in a row, with jitter of ± 25 %. */
function backoff(failures: number, timing: ChildTiming): number {
  const exact = Math.min(timing.maxBackoffMs, timing.firstBackoffMs * 2 ** (failures - 1));
  return Math.round(exact * (0.75 + Math.random() / 2));
}

function aborted(signal: AbortSignal): Promise<undefined> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve(undefined);
    signal.addEventListener("abort", () => resolve(undefined), { once: true });
  });
}

/** Replaces passwords in URLs and values of secret-looking names, because an engine prints its flags. */
export function maskSecrets(line: string): string {
  return line
    .replace(/\/\/[^/\s:@]*:[^/\s@]+@/g, "//***@")
    .replace(/((?:password|passwd|secret|token|api_?key|authkey|authorization)["']?\s*[:=]\s*["']?)[^\s"',&]+/gi, "$1***");
}

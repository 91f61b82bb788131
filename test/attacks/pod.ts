// Runs a backend as in a pod: with a memory limit, and restarted when it exits or does not answer its liveness probe, with the chart's
// probe intervals and the kubelet's delays between restarts. Invariant: restarts and failed probes are counted as in a real cluster.
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { openSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { type BackendPlace } from "../fixtures/backend-process.ts";
import { readIfThere } from "../fixtures/processes.ts";
import { MemoryLimit, residentOf, treeOf } from "./memory-limit.ts";

export interface PodOptions {
  readonly place: BackendPlace;
  /** The checkout whose backend/main.ts is started. */
  readonly checkout: string;
  readonly limitBytes: number;
  /** Where profiles of its threads are left when it stops; none are made without. */
  readonly cpuProfDir?: string | undefined;
}

export interface PodCounts {
  /** Unexpected ends of the process, by signal or exit code. */
  ends: string[];
  /** Processes of the pod that the kernel killed for want of memory. */
  oomKills: number;
  livenessKills: number;
  engineRestarts: number;
  readinessProbes: number;
  readinessFailures: number;
  livenessProbes: number;
  livenessFailures: number;
  /** From an end until the first readiness after it. */
  awayMs: number;
  peakAnonymousMiB: number;
  /** By name of the program. */
  peakResidentMiB: Record<string, number>;
}

const READY_WITHIN_MS = 120_000;
const READINESS = { everyMs: 3000, timeoutMs: 5000 };
const LIVENESS = { everyMs: 10_000, timeoutMs: 5000, failures: 3 };
/** The kubelet's; the first is at once. */
const BACK_OFF_MS = [0, 10_000, 20_000, 40_000, 80_000];
const SAMPLED_EVERY_MS = 200;
const GRACE_MS = 60_000;
const MIB = 1024 * 1024;
const ENGINES = ["victoria-metrics", "vmalert"];

export class Pod implements AsyncDisposable {
  readonly counts: PodCounts = nothing();
  /** Why there is no memory limit; undefined if there is one. */
  readonly unlimited: string | undefined;
  readonly #options: PodOptions;
  readonly #limit: MemoryLimit | undefined;
  readonly #over = new AbortController();
  readonly #loops: Promise<void>[] = [];
  readonly #engines = new Map<string, string>();
  #child: ChildProcess | undefined;
  #ended: Promise<unknown> = Promise.resolve();
  #kept = false;
  #awaySince: number | undefined;
  #oomKillsBefore = 0;

  private constructor(options: PodOptions) {
    this.#options = options;
    const made = MemoryLimit.make(options.limitBytes);
    this.#limit = made.limit;
    this.unlimited = made.why;
  }

  /** Resolves when it is ready. */
  static async start(options: PodOptions): Promise<Pod> {
    const pod = new Pod(options);
    pod.#spawn();
    if (await pod.#untilReady(READY_WITHIN_MS)) return pod;
    await pod[Symbol.asyncDispose]();
    throw new Error(`not ready:\n${readIfThere(options.place.logFile).slice(-4000)}`);
  }

  /** From here on it is probed, measured, counted, and started again. */
  keep(): void {
    Object.assign(this.counts, nothing());
    this.#oomKillsBefore = this.#limit?.kills() ?? 0;
    this.#kept = true;
    this.#loops.push(this.#keepRunning(), this.#probeLiveness(), this.#probeReadiness(), this.#sample());
  }

  /** Stops the counting; the process continues. */
  async settle(): Promise<PodCounts> {
    this.#kept = false;
    this.#over.abort();
    await Promise.all(this.#loops);
    if (this.#awaySince !== undefined) this.counts.awayMs += performance.now() - this.#awaySince;
    return this.counts;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.settle();
    if (this.#child?.exitCode === null && this.#child.signalCode === null) this.#child.kill("SIGTERM");
    const late = AbortSignal.timeout(GRACE_MS);
    late.addEventListener("abort", () => this.#child?.kill("SIGKILL"));
    await this.#ended;
    await this.#limit?.[Symbol.asyncDispose]();
  }

  #spawn(): void {
    const { place, checkout, cpuProfDir } = this.#options;
    const profile = cpuProfDir === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${cpuProfDir}`];
    const command = [process.execPath, ...profile, join(checkout, "backend", "main.ts"), "serve"];
    const [program = "", ...args] = this.#limit ? this.#limit.around(command) : command;
    const out = openSync(place.logFile, "a");
    const env = { PATH: process.env["PATH"], HOME: process.env["HOME"], NODE_ENV: "production", ...place.env };
    this.#child = spawn(program, args, { cwd: checkout, env, stdio: ["ignore", out, out] });
    this.#ended = once(this.#child, "exit");
  }

  async #untilReady(withinMs: number): Promise<boolean> {
    const until = Date.now() + withinMs;
    while (Date.now() < until && !this.#over.signal.aborted) {
      if (this.#child?.exitCode !== null || this.#child.signalCode !== null) return false;
      if (await this.#asks("/readyz", READINESS.timeoutMs)) return true;
      await sleep(100);
    }
    return false;
  }

  async #keepRunning(): Promise<void> {
    const aborted = once(this.#over.signal, "abort");
    for (let restarts = 0; ; restarts += 1) {
      await Promise.race([this.#ended, aborted]);
      if (!this.#kept) return;
      this.#awaySince ??= performance.now();
      this.counts.ends.push(String(this.#child?.signalCode ?? this.#child?.exitCode));
      await this.#limit?.killAll();
      await this.#pause(BACK_OFF_MS[Math.min(restarts, BACK_OFF_MS.length - 1)] ?? 0);
      if (!this.#kept) return;
      this.#spawn();
      await this.#untilReady(READY_WITHIN_MS);
    }
  }

  async #probeReadiness(): Promise<void> {
    while (this.#kept) {
      const probedAt = performance.now();
      const ready = await this.#asks("/readyz", READINESS.timeoutMs);
      if (!this.#kept) return;
      this.counts.readinessProbes += 1;
      if (ready && this.#awaySince !== undefined) {
        this.counts.awayMs += performance.now() - this.#awaySince;
        this.#awaySince = undefined;
      }
      if (!ready) this.counts.readinessFailures += 1;
      await this.#pause(READINESS.everyMs - (performance.now() - probedAt));
    }
  }

  async #probeLiveness(): Promise<void> {
    let failures = 0;
    while (this.#kept) {
      const probedAt = performance.now();
      const alive = await this.#asks("/healthz", LIVENESS.timeoutMs);
      if (!this.#kept) return;
      this.counts.livenessProbes += 1;
      if (!alive) this.counts.livenessFailures += 1;
      // A start has its own probe; it is not killed by this one.
      failures = alive || this.#awaySince !== undefined ? 0 : failures + 1;
      if (failures >= LIVENESS.failures) {
        this.counts.livenessKills += 1;
        failures = 0;
        this.#child?.kill("SIGKILL");
      }
      await this.#pause(LIVENESS.everyMs - (performance.now() - probedAt));
    }
  }

  async #sample(): Promise<void> {
    while (this.#kept) {
      this.counts.oomKills = (this.#limit?.kills() ?? 0) - this.#oomKillsBefore;
      const pids = this.#limit?.pids() ?? treeOf(this.#child?.pid ?? 0);
      const residents = pids.map(residentOf).filter((one) => one !== undefined);
      const bytes = this.#limit?.anonymousBytes() ?? residents.reduce((sum, one) => sum + one.bytes, 0);
      this.counts.peakAnonymousMiB = Math.max(this.counts.peakAnonymousMiB, Math.round(bytes / MIB));
      for (const { name, bytes: resident } of residents) {
        this.counts.peakResidentMiB[name] = Math.max(this.counts.peakResidentMiB[name] ?? 0, Math.round(resident / MIB));
      }
      this.#watchEngines();
      await this.#pause(SAMPLED_EVERY_MS);
    }
  }

  #watchEngines(): void {
    for (const name of ENGINES) {
      const pid = /"pid":\s*(\d+)/.exec(readIfThere(join(this.#options.place.dataDir, `${name}.pid`)))?.[1];
      if (pid === undefined) continue;
      const before = this.#engines.get(name);
      if (before !== undefined && before !== pid) this.counts.engineRestarts += 1;
      this.#engines.set(name, pid);
    }
  }

  async #asks(path: string, timeoutMs: number): Promise<boolean> {
    try {
      const answer = await fetch(this.#options.place.healthUrl + path, { signal: AbortSignal.timeout(timeoutMs) });
      await answer.body?.cancel();
      return answer.ok;
    } catch {
      return false;
    }
  }

  async #pause(ms: number): Promise<void> {
    if (ms > 0) await sleep(ms, undefined, { signal: this.#over.signal }).catch(() => undefined);
  }
}

function nothing(): PodCounts {
  return {
    ends: [],
    oomKills: 0,
    livenessKills: 0,
    engineRestarts: 0,
    readinessProbes: 0,
    readinessFailures: 0,
    livenessProbes: 0,
    livenessFailures: 0,
    awayMs: 0,
    peakAnonymousMiB: 0,
    peakResidentMiB: {},
  };
}

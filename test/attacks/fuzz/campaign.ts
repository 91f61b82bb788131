// Runs random queries against the backend's own sandbox and the checks of its main process, and reports each that exceeds a limit. Query
// number n of a campaign with seed s has the seed s + n, so `--seed S+N --programs 1` repeats it.
import { readFileSync } from "node:fs";
import { setImmediate as nextIteration } from "node:timers/promises";
import { pino } from "pino";
import { ApiError } from "../../../backend/errors.ts";
import type { LokiJob } from "../../../backend/query/loki/jobs.ts";
import { readProcessUsage } from "../../../backend/query/sandbox/sandbox-process.ts";
import { SANDBOX_LIMITS, type SandboxLimits } from "../../../backend/query/sandbox/sandbox-limits.ts";
import { Sandbox } from "../../../backend/query/sandbox/sandbox.ts";
import { peakResidentMb } from "../../fixtures/measure.ts";
import { Choices, Programs } from "../programs.ts";
import { mainProgram } from "./main-process.ts";
import { memoryEngine, NOW_NS, SPAN, SPAN_NS, type Stored, storeCells, storeRecord } from "./memory-engine.ts";
import { StallMeter, threadCpuMs } from "./stall-meter.ts";

export const STALL_MS = 50;
/** V8's heap, and what native code allocates between two looks at the process. */
const SANDBOX_BYTES = SANDBOX_LIMITS.anonymousBytes * 1.5;
/** Each organisation runs one program at a time. */
const ORGANISATIONS = ["red", "blue"];
const LABEL_ENDPOINTS = ["index/volume", "index/volume_range", "index/stats", "labels", "label/:name/values", "series", "detected_labels"];
const STUCK_MS = 150_000;
const POOL = 200;
const RECORDS_BYTES = 1_900_000;

export interface CampaignOptions {
  readonly programs: number;
  readonly seed: number;
  readonly limits?: Partial<SandboxLimits>;
  /** Share of the queries that are for the main process. */
  readonly mainShare?: number;
  readonly onProgress?: (done: number) => void;
}

export interface Broken {
  readonly seed: number;
  readonly kind: string;
  readonly what: string;
  readonly program: string;
}

export interface CampaignReport {
  /** Number of each answer, by kind of query. */
  readonly answers: Readonly<Record<string, Record<string, number>>>;
  readonly killed: Readonly<Record<string, number>>;
  readonly startedProcesses: number;
  readonly stall: { readonly longestMs: number; readonly longestCpuMs: number };
  readonly mainPeakMb: number;
  readonly sandboxPeakMb: number;
  readonly sandboxAnonymousPeakMb: number;
  readonly slowest: readonly { readonly seed: number; readonly ms: number; readonly program: string }[];
  readonly broken: readonly Broken[];
}

interface SandboxProgram {
  readonly seed: number;
  readonly kind: string;
  readonly text: string;
  readonly job: LokiJob;
  readonly stored: Stored;
}

export async function runCampaign(options: CampaignOptions): Promise<CampaignReport> {
  const campaign = new Campaign(options);
  return await campaign.run();
}

class Campaign {
  readonly #options: CampaignOptions;
  readonly #pool: readonly ReturnType<typeof storeRecord>[];
  readonly #running = new Map<string, SandboxProgram>();
  readonly #answers: Record<string, Record<string, number>> = {};
  readonly #killed: Record<string, number> = {};
  readonly #broken: Broken[] = [];
  readonly #pids = new Set<number>();
  readonly #peaks = { resident: 0, anonymous: 0 };
  readonly #sandbox: Sandbox;
  #slowest: CampaignReport["slowest"] = [];
  #next = 0;

  constructor(options: CampaignOptions) {
    this.#options = options;
    const programs = new Programs(options.seed - (options.seed % 1_000_000));
    this.#pool = Array.from({ length: POOL }, (_, index) => storeRecord(programs.record(), index));
    this.#sandbox = new Sandbox({
      script: new URL("../../../backend/sandbox-worker.ts", import.meta.url),
      clickhouse: memoryEngine((orgId) => this.#running.get(orgId)?.stored ?? { records: [], cells: Buffer.alloc(0) }),
      log: pino({ level: "silent" }),
      onKilled: (reason) => void (this.#killed[reason] = (this.#killed[reason] ?? 0) + 1),
      ...(options.limits && { limits: options.limits }),
    });
  }

  async run(): Promise<CampaignReport> {
    const watch = setInterval(() => this.#sample(), 100);
    const meter = new StallMeter(STALL_MS, (cpuMs) => {
      for (const program of this.#running.values()) this.#report(program, `the event loop was busy for ${cpuMs.toFixed(0)} ms meanwhile`);
    });
    try {
      await Promise.all(ORGANISATIONS.map((orgId) => this.#runPrograms(orgId)));
    } finally {
      clearInterval(watch);
      meter[Symbol.dispose]();
      await this.#stop();
    }
    return {
      answers: this.#answers,
      killed: this.#killed,
      startedProcesses: this.#pids.size,
      stall: { longestMs: meter.longestMs, longestCpuMs: meter.longestCpuMs },
      mainPeakMb: peakResidentMb(process.pid),
      sandboxPeakMb: this.#peaks.resident,
      sandboxAnonymousPeakMb: this.#peaks.anonymous / 1e6,
      slowest: this.#slowest,
      broken: this.#broken,
    };
  }

  async #runPrograms(orgId: string): Promise<void> {
    const { programs, seed, mainShare = 0.3, onProgress } = this.#options;
    while (this.#next < programs) {
      const own = seed + this.#next;
      this.#next += 1;
      if (new Choices(own).chance(mainShare)) await this.#checkInMain(own);
      else await this.#evaluate(orgId, this.#sandboxProgram(own));
      onProgress?.(this.#next);
    }
  }

  async #checkInMain(seed: number): Promise<void> {
    const { kind, text, run } = mainProgram(seed);
    await nextIteration();
    const beforeMs = threadCpuMs();
    try {
      run();
      this.#count(kind, "accepted");
    } catch (error) {
      this.#count(kind, error instanceof ApiError ? error.code : "failed");
      if (!(error instanceof ApiError)) this.#report({ seed, kind, text }, String(error));
    }
    const spentMs = threadCpuMs() - beforeMs;
    if (spentMs > STALL_MS) this.#report({ seed, kind, text }, `took ${spentMs.toFixed(0)} ms`);
    await nextIteration();
  }

  async #evaluate(orgId: string, program: SandboxProgram): Promise<void> {
    this.#running.set(orgId, program);
    const beganMs = performance.now();
    let answer = "ok";
    try {
      await this.#sandbox.run(orgId, program.job, { signal: AbortSignal.timeout(STUCK_MS), labelLimits: undefined });
    } catch (error) {
      answer = error instanceof ApiError ? (error.message.includes("was stopped") ? "killed" : error.code) : "failed";
      if (answer === "failed" || answer === "killed" || answer === "unavailable")
        this.#report(program, String((error as Error).stack).slice(0, 500));
    }
    this.#count(program.kind, answer);
    this.#running.delete(orgId);
    const slow = { seed: program.seed, ms: Math.round(performance.now() - beganMs), program: program.text.slice(0, 500) };
    this.#slowest = [...this.#slowest, slow].toSorted((left, right) => right.ms - left.ms).slice(0, 5);
  }

  #sandboxProgram(seed: number): SandboxProgram {
    // Not the numbers that chose between the sandbox and the main process.
    const programs = new Programs(seed ^ 0x9e3779b9);
    const query = programs.query();
    const logs = programs.logQuery();
    const metrics = programs.metricQuery();
    const [step, moments] = programs.pick([["60", 61] as const, ["60", 61] as const, ["1", 3601] as const]);
    const stored = { records: this.#records(programs), cells: storeCells(programs, programs.pick([0, 1, 10, 300]), moments) };
    const endpoint = (path: string, parameters: Record<string, string>, name?: string): LokiJob => {
      return { kind: "endpoint", path, parameters, name, categorize: programs.chance(0.5), nowNs: NOW_NS };
    };
    const labels = programs.pick(LABEL_ENDPOINTS);
    const selector = logs.slice(0, logs.indexOf("}") + 1);
    const limit = programs.pick(["1", "100", "5000"]);
    const rows = stored.records.map(({ tailRow }) => tailRow);
    const [kind, text, job] = programs.pick<readonly [kind: string, text: string, job: LokiJob]>([
      ["query_range of logs", logs, endpoint("query_range", { query: logs, ...SPAN, step, limit, direction: "forward" })],
      ["query_range of logs", logs, endpoint("query_range", { query: logs, ...SPAN, step, limit })],
      ["query_range of metrics", metrics, endpoint("query_range", { query: metrics, ...SPAN, step, limit })],
      ["query_range of metrics", metrics, endpoint("query_range", { query: metrics, ...SPAN, step })],
      ["query", query, endpoint("query", { query, time: SPAN.end })],
      ["query", metrics, endpoint("query", { query: metrics, time: SPAN.end })],
      ["detected_fields", logs, endpoint("detected_fields", { query: logs, ...SPAN })],
      ["tail", logs, { kind: "tail_message", parameters: { query: logs }, rows }],
      ["filter", logs, { kind: "filter", parameters: { query: logs } }],
      [
        "records",
        logs,
        { kind: "records", parameters: { query: logs }, conditions: [], page: { range: SPAN_NS, limit: 100, after: undefined } },
      ],
      ["detected_fields", logs, endpoint("detected_field/:name/values", { query: logs, ...SPAN }, "a")],
      ["patterns", logs, endpoint("patterns", { query: logs, ...SPAN })],
      [`labels: ${labels}`, selector, endpoint(labels, { query: selector, "match[]": selector, ...SPAN }, "a")],
    ]);
    // A query of one moment has cells of that moment only.
    const ofOneMoment = kind === "query" ? { ...stored, cells: storeCells(programs, 10, 1) } : stored;
    return { seed, kind, text, job, stored: ofOneMoment };
  }

  /** In the order of time. */
  #records(programs: Programs): Stored["records"] {
    const wanted = programs.chance(0.9) ? Math.floor(programs.next() * 4) : Math.floor(programs.next() * POOL);
    const from = Math.floor(programs.next() * (POOL - wanted));
    let bytes = 0;
    return this.#pool.slice(from, from + wanted).filter(({ row }) => (bytes += row.length) < RECORDS_BYTES);
  }

  #count(kind: string, answer: string): void {
    const answers = (this.#answers[kind] ??= {});
    answers[answer] = (answers[answer] ?? 0) + 1;
  }

  #report({ seed, kind, text }: Pick<SandboxProgram, "seed" | "kind" | "text">, what: string): void {
    this.#broken.push({ seed, kind, what, program: text.slice(0, 2000) });
  }

  #sample(): void {
    for (const pid of children()) {
      this.#pids.add(pid);
      const anonymous = readProcessUsage(pid)?.anonymousBytes ?? 0;
      if (anonymous > SANDBOX_BYTES)
        for (const program of this.#running.values()) this.#report(program, `a sandbox process had ${anonymous} bytes meanwhile`);
      this.#peaks.anonymous = Math.max(this.#peaks.anonymous, anonymous);
      this.#peaks.resident = Math.max(this.#peaks.resident, residentPeak(pid));
    }
  }

  async #stop(): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<string>();
    const timer = setTimeout(resolve, 10_000, "late");
    const ended = await Promise.race([this.#sandbox[Symbol.asyncDispose](), promise]);
    clearTimeout(timer);
    if (ended === "late") this.#report({ seed: this.#options.seed, kind: "sandbox", text: "" }, "a process does not end");
  }
}

function children(): number[] {
  const pids = readFileSync(`/proc/${process.pid}/task/${process.pid}/children`, "latin1");
  return pids.split(" ").filter(Boolean).map(Number);
}

function residentPeak(pid: number): number {
  try {
    return peakResidentMb(pid) || 0;
  } catch {
    // The process has ended.
    return 0;
  }
}

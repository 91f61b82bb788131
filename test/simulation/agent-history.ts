// Runs one history of an agent's log lines: the real FileLines, StoredBatches, UnansweredRequests, PartSender and the signed request, between
// a simulated collector (agent-collector.ts) and a simulated backend, which stores a request once within ten minutes. The auditor knows
// every line. Invariants that it checks: a line that the collector has read is stored; it is stored once, except for what
// README.md excepts (the end of a file, power cuts, a disk that refuses the agent's account, steps of the clock); a file that is written
// again with the same lines is stored again.
import { createHash } from "node:crypto";
import type { IncomingMessage } from "node:http";
import { FILES_HEADER, parseFileRequest } from "../../agent/collector/files/file-batch.ts";
import { StoredBatches } from "../../agent/collector/files/stored-batches.ts";
import { FileLines } from "../../agent/proxy/file-lines.ts";
import { forward, type ForwardResult, isFinal } from "../../agent/proxy/forward.ts";
import { mayAcceptParts, PartSender } from "../../agent/proxy/part-sender.ts";
import type { UpstreamAnswer } from "../../agent/http-pool.ts";
import { UpstreamError } from "../../agent/upstream/pool.ts";
import { type Answered, CHECKPOINTS, Collector, type LogFile, SEEN_AFTER_MS } from "./agent-collector.ts";
import { type AgentStep, FILES, type NetworkFault } from "./agent-plan.ts";
import { findLines } from "./agent-rows.ts";
import { Disk } from "./disk.ts";
import { install, Machine } from "./machine.ts";
import type { Outcome } from "./row-history.ts";

interface Agent {
  readonly process: number;
  readonly stored: StoredBatches;
  readonly lines: FileLines;
  readonly parts: PartSender;
  /** Requests of the collector that are not answered. */
  readonly requests: Set<{ readonly abort: AbortController; readonly answered: Answered }>;
}

const RECOVERY_MS = 240_000;
const KNOWN_MS = 600_000;
const ANSWER_WITHIN_MS = 27_000;
const OUTCOME_WITHIN_MS = 5000;
const RESPONSE_TIMEOUT_MS = 25_000;
const LONGEST_DELAY_MS = 60_000;
/** StoredBatches may take a file that is written again this soon for the same lines. */
const REWRITTEN_AFTER_MS = 2000;
/** How long after a failure a request is written again, when it is repeated, and everything else. */
const RECORDED_AFTER_MS = { request: 30_000, other: 3000 } as const;
/** How often StoredBatches looks at the clock. */
const LOOKS_EVERY_MS = 500;
const CREDENTIAL = { id: "agent", apiKey: "key", keyCreatedAt: "" };
const LOG = { debug() {}, info() {}, warn() {}, error() {} } as never;

export class AgentHistory {
  readonly #machine: Machine;
  readonly #disk: Disk;
  readonly #collector: Collector;
  readonly #files = Array.from({ length: FILES }, (): LogFile => ({ lines: [], storedOffset: 0, offset: 0, readAtMs: 0 }));
  readonly #written = new Map<string, number>();
  readonly #stored = new Map<string, number>();
  /** When the backend got a request, by its hash. */
  readonly #known = new Map<string, number>();
  readonly #trace: string[] = [];
  readonly #hits: Record<string, number> = {};
  #agent: Agent | undefined;
  #fault: NetworkFault | undefined;
  /** When the last agent ended. */
  #endedMs = 0;
  /** The last time at which an agent started without the whole account. */
  #accountLostMs = Number.NEGATIVE_INFINITY;
  /** When the clock was last set back, and when that last gave two moments of a collector the same time. */
  #setBackMs = Number.NEGATIVE_INFINITY;
  #mixedTimesMs = Number.NEGATIVE_INFINITY;
  #lastStep = { atMs: Number.NEGATIVE_INFINITY, byMs: 0 };
  /** From a step of the clock to one in the other direction, when the agent may not have looked at it in between. */
  readonly #unseenSteps: { readonly fromMs: number; readonly toMs: number }[] = [];
  #problem: string | undefined;

  constructor(seed: number) {
    this.#machine = new Machine(seed);
    this.#disk = new Disk(this.#machine, CHECKPOINTS);
    this.#machine.disk = this.#disk;
    const deliver = (body: Buffer, answered: Answered): void => this.#deliver(body, answered);
    this.#collector = new Collector({ machine: this.#machine, files: this.#files, deliver });
  }

  async run(plan: readonly AgentStep[]): Promise<Outcome> {
    install(this.#machine);
    for (const [number, step] of plan.entries()) this.#machine.outside(step.atMs, () => this.#take(step, number));
    this.#machine.outside(0, () => this.#start());
    await this.#machine.runUntil(() => this.#problem !== undefined, (plan.at(-1)?.atMs ?? 0) + 1);
    if (this.#problem === undefined) await this.#recover();
    const hits: Record<string, number> = {};
    for (const [name, count] of [...Object.entries(this.#hits), ...Object.entries(this.#disk.hits)]) hits[`agent: ${name}`] = count;
    return { problem: this.#problem, trace: this.#trace, hits, events: this.#machine.events };
  }

  #take(step: AgentStep, number: number): void {
    const { faults } = this.#disk;
    this.#say(JSON.stringify(step));
    if (step.kind !== "lines") this.#hit(step.kind);
    switch (step.kind) {
      case "lines":
        return this.#write(step.file, step.count);
      case "rewrite":
        return this.#rewrite(this.#files[step.file] as LogFile);
      case "kill collector":
        return this.#endCollector(step.downMs);
      case "kill":
        // Its collector runs on until the next agent ends it, or ends with it.
        return this.#end(step, number % 2 === 0);
      case "power cut":
        this.#accountLostMs = this.#machine.nowMs;
        this.#end(step, true);
        return this.#disk.powerCut();
      case "stop":
        return this.#end(step, true);
      case "network":
        this.#fault = step.fault;
        return this.#later(step.forMs, () => (this.#fault = undefined));
      case "read-only":
        faults.isReadOnly = true;
        return this.#later(step.forMs, () => (faults.isReadOnly = false));
      case "disk full":
        faults.freeBytes = step.freeBytes;
        return this.#later(step.forMs, () => (faults.freeBytes = undefined));
      case "failed write":
      case "failed fsync":
      case "failed read":
        faults.failing[step.kind === "failed write" ? "write" : step.kind === "failed fsync" ? "sync" : "read"] += step.times;
        return;
      case "clock":
        return this.#setClock(step.byMs);
    }
  }

  #later(ms: number, run: () => void): void {
    this.#machine.outside(ms, () => {
      run();
      this.#say("over");
    });
  }

  #setClock(byMs: number): void {
    const { nowMs } = this.#machine;
    const last = this.#lastStep;
    if (byMs < 0) this.#setBackMs = nowMs;
    if (byMs < 0 && !this.#agent) this.#mixedTimesMs = nowMs;
    if (this.#agent && last.byMs * byMs < 0 && nowMs - last.atMs < LOOKS_EVERY_MS)
      this.#unseenSteps.push({ fromMs: last.atMs, toMs: nowMs });
    this.#lastStep = { atMs: nowMs, byMs };
    this.#machine.clock.aheadMs += byMs;
  }

  #killCollector(): void {
    // The agent saw no offsets stored since the step.
    if (this.#collector.isRunning && this.#collector.lastStoredMs < this.#setBackMs + 2 * SEEN_AFTER_MS)
      this.#mixedTimesMs = this.#setBackMs;
    this.#collector.kill();
  }

  #write(index: number, count: number): void {
    const { lines } = this.#files[index] as LogFile;
    for (let added = 0; added < count; added += 1) {
      const line = `<${index} ${lines.length}>`;
      lines.push(line);
      this.#written.set(line, (this.#written.get(line) ?? 0) + 1);
    }
  }

  #rewrite(file: LogFile): void {
    const isRead = this.#collector.isRunning && file.storedOffset === file.lines.length;
    const { nowMs } = this.#machine;
    const { storedAgainMs, lastStoredMs } = this.#collector;
    if (!isRead || nowMs - storedAgainMs < SEEN_AFTER_MS || lastStoredMs - file.readAtMs < REWRITTEN_AFTER_MS) return;
    Object.assign(file, { lines: [], storedOffset: 0, offset: 0 });
    this.#hit("file written again");
  }

  // ---- processes

  #start(): void {
    const process = this.#machine.spawn();
    this.#killCollector();
    this.#say("agent starts");
    this.#startCollector(20, process);
    this.#machine.enter(process, () => {
      const stored = new StoredBatches({ folder: "/state", log: LOG });
      const isLost = ([path, atMs]: [string, number]): boolean =>
        this.#endedMs - atMs < RECORDED_AFTER_MS[path.includes("/unanswered") ? "request" : "other"];
      if ([...this.#disk.hitMs].some(isLost)) this.#accountLostMs = this.#machine.nowMs;
      this.#agent = { process, stored, lines: new FileLines(stored, LOG), parts: new PartSender(() => undefined), requests: new Set() };
    });
  }

  #startCollector(afterMs: number, process: number): void {
    this.#machine.outside(afterMs, () => {
      if (this.#agent?.process !== process || this.#collector.isRunning) return;
      this.#say("collector starts");
      const { stored } = this.#agent;
      let number = 0;
      this.#machine.outside(1, () => {
        if (this.#agent?.process === process) this.#collector.start(number);
      });
      this.#machine.enter(process, () => (number = stored.collectorStarts()));
    });
  }

  #endCollector(downMs: number): void {
    if (!this.#collector.isRunning || !this.#agent) return;
    this.#killCollector();
    const { process, requests, stored } = this.#agent;
    this.#machine.enter(process, () => stored.collectorEnded());
    for (const request of requests)
      this.#machine.outside(OUTCOME_WITHIN_MS, () => {
        if (this.#machine.isAlive(process)) this.#machine.enter(process, () => request.abort.abort());
      });
    this.#startCollector(downMs, process);
  }

  #end({ downMs, clockMs }: { downMs: number; clockMs: number }, withCollector: boolean): void {
    if (withCollector) this.#killCollector();
    const agent = this.#agent;
    this.#agent = undefined;
    this.#setClock(clockMs);
    if (!agent) return;
    this.#endedMs = this.#machine.nowMs;
    this.#machine.kill(agent.process);
    this.#disk.closeAll();
    for (const { answered } of agent.requests) answered(undefined);
    this.#machine.outside(downMs, () => this.#start());
  }

  // ---- requests

  #deliver(body: Buffer, answered: Answered): void {
    const agent = this.#agent;
    if (!agent) return answered(undefined);
    const abort = new AbortController();
    const request = { abort, answered };
    agent.requests.add(request);
    void this.#machine.enter(agent.process, async () => {
      setTimeout(() => abort.abort(), ANSWER_WITHIN_MS);
      const result = await this.#sendOnce(agent, body, abort.signal).catch(() => undefined);
      agent.requests.delete(request);
      answered(result && isFinal(result) ? (result.kind === "accepted" ? "accepted" : "refused") : "retry");
    });
  }

  /** As agent/proxy/server.ts does. */
  #sendOnce({ stored, lines, parts }: Agent, body: Buffer, signal: AbortSignal): Promise<ForwardResult> {
    const credentials = { current: () => CREDENTIAL, refresh: async () => CREDENTIAL };
    const clock = { nowUnixS: () => Date.now() / 1000 };
    const send = (part: Buffer): Promise<ForwardResult> =>
      forward(
        {
          upstream: { request: (each) => this.#request(each.body as Buffer, each.signal as AbortSignal), ...NO_DISPOSE },
          credentials,
          clock,
        },
        { path: "/ingest/logs/otlp", headers: {}, body: part },
        signal,
      );
    const request = { headers: { [FILES_HEADER]: stored.token } } as unknown as IncomingMessage;
    return lines.sendOnce(request, parseFileRequest(body), async (part, isSingleBatch) => {
      const answer = await send(part);
      return isSingleBatch && mayAcceptParts(answer) ? parts.send("logs", part, answer, send) : answer;
    });
  }

  #request(body: Buffer, signal: AbortSignal): Promise<UpstreamAnswer> {
    const { random, running } = this.#machine;
    const { promise, resolve, reject } = Promise.withResolvers<UpstreamAnswer>();
    const lines = findLines(body);
    const fail = (wasConnected: boolean): void => reject(new UpstreamError("simulated", wasConnected));
    const inAgent = (ms: number, run: () => void): void =>
      this.#machine.outside(ms, () => {
        if (this.#machine.isAlive(running)) this.#machine.enter(running, run);
      });
    const arrive = (ms: number, isAnswered: boolean): void =>
      this.#machine.outside(ms, () => {
        const answer = this.#receive(body, lines);
        if (isAnswered) inAgent(random.latencyMs(20), () => resolve(answer));
      });
    signal.addEventListener("abort", () => fail(false), { once: true });
    inAgent(RESPONSE_TIMEOUT_MS, () => fail(true));
    if (this.#fault) this.#hit(this.#fault);
    const isCut = random.chance(0.5);
    switch (this.#fault) {
      case "unavailable":
        inAgent(random.latencyMs(20), () => (isCut ? fail(false) : resolve({ status: 503, headers: {}, body: "" })));
        break;
      case "loses requests":
        if (isCut) inAgent(random.latencyMs(20), () => fail(true));
        break;
      case "delays requests":
        arrive(random.whole(1000, LONGEST_DELAY_MS), false);
        if (isCut) inAgent(random.latencyMs(20), () => fail(true));
        break;
      case "loses responses":
        arrive(random.latencyMs(20), false);
        if (isCut) inAgent(random.latencyMs(200), () => fail(true));
        break;
      case undefined:
      case "duplicates requests":
        arrive(random.latencyMs(20), true);
        if (this.#fault) arrive(random.latencyMs(2000), false);
    }
    return promise;
  }

  #receive(body: Buffer, lines: readonly string[]): UpstreamAnswer {
    const headers = { "accept-post": "application/x-protobuf" };
    if (lines.some(isInvalid)) return { status: 400, headers, body: JSON.stringify({ error: "invalid_field", message: "simulated" }) };
    const hash = createHash("sha256").update(body).digest("hex");
    const isKnown = this.#machine.nowMs - (this.#known.get(hash) ?? Number.NEGATIVE_INFINITY) < KNOWN_MS;
    this.#say(`backend: ${lines.join(" ")}${isKnown ? ", again" : ""}`);
    if (isKnown) this.#hit("repeated request");
    else for (const line of lines) this.#stored.set(line, (this.#stored.get(line) ?? 0) + 1);
    if (!isKnown) this.#known.set(hash, this.#machine.nowMs);
    return { status: 204, headers, body: "" };
  }

  // ---- the end

  async #recover(): Promise<void> {
    this.#say("all faults end");
    const isOver = (): boolean => this.#collector.isRunning && this.#collector.isIdle;
    for (const isLast of [false, true]) {
      this.#disk.heal();
      this.#fault = undefined;
      if (!(await this.#machine.runUntil(isOver, this.#machine.nowMs + RECOVERY_MS)))
        return this.#fail("the lines are not delivered after the faults have ended");
      // Requests that are still under way.
      await this.#machine.runUntil(() => false, this.#machine.nowMs + LONGEST_DELAY_MS + 1000);
      if (!isLast) this.#machine.outside(0, () => this.#end({ downMs: 1, clockMs: 0 }, true));
      await this.#machine.runUntil(() => false, this.#machine.nowMs + 1000);
    }
    this.#audit();
  }

  #audit(): void {
    const accountLostMs = Math.max(this.#accountLostMs, this.#disk.lastFailedReadMs);
    for (const [line, written] of this.#written) {
      const stored = this.#stored.get(line) ?? 0;
      if (isInvalid(line)) continue;
      const readMs = this.#collector.readMs.get(line) ?? 0;
      const wasForgotten = readMs <= accountLostMs;
      // The same text, written again.
      const isExcepted = stored > 0 && (wasForgotten || readMs <= this.#mixedTimesMs);
      if (stored < written && !isExcepted) return this.#fail(`line ${line} is missing: stored ${stored} of ${written} times`);
      const hasUnseenTime = this.#unseenSteps.some(({ fromMs, toMs }) => fromMs <= readMs && readMs <= toMs);
      if (stored > written && !wasForgotten && !hasUnseenTime) return this.#fail(`line ${line} is stored ${stored} of ${written} times`);
    }
  }

  #fail(problem: string): void {
    this.#problem ??= problem;
    this.#say(`PROBLEM: ${problem}`);
  }

  #hit(fault: string): void {
    this.#hits[fault] = (this.#hits[fault] ?? 0) + 1;
  }

  #say(what: string): void {
    this.#trace.push(`${(this.#machine.nowMs / 1000).toFixed(3)} s: ${what}`);
  }
}

const NO_DISPOSE = { [Symbol.asyncDispose]: async (): Promise<void> => undefined };

/** Some lines of one file: the backend refuses each request with such a line. */
function isInvalid(line: string): boolean {
  return /^<0 \d*7>$/.test(line);
}

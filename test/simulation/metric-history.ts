// Runs one history of the write path of metrics: the real VictoriaMetricsStore, WriteJournal, Replay and AppendLog on a simulated disk,
// engine and clock. Invariants that it checks: an acknowledged write is in the engine once the faults are over, whichever of the two
// processes was killed; the journal does not grow for ever.
import { openWriteJournal, type WriteJournal } from "../../backend/engines/victoria-metrics/journal.ts";
import { Replay } from "../../backend/engines/victoria-metrics/replay.ts";
import { VictoriaMetricsStore } from "../../backend/storage/metrics/metric-store.ts";
import { Disk } from "./disk.ts";
import { install, Machine } from "./machine.ts";
import { ENGINE_STARTS_MS, type MetricStep } from "./metric-plan.ts";
import type { Outcome } from "./row-history.ts";
import { MetricEngine, useMetricEngine } from "./simulated-upstream.ts";

interface Server {
  readonly store: VictoriaMetricsStore;
  readonly journal: WriteJournal;
  readonly replay: Replay;
}

const URL = "http://127.0.0.1:8428";
const RESTART_MS = 1000;
const RETRY_MS = 1500;
const RECOVERY_MS = 180_000;
/** The journal keeps a write for 15 s, and is checked when another one arrives. */
const SETTLED_MS = 30_000;
const MAX_FILES_LEFT = 2;

export class MetricHistory {
  readonly #machine: Machine;
  readonly #disk: Disk;
  readonly #engine = new MetricEngine();
  readonly #acknowledged = new Set<string>();
  readonly #pending = new Set<string>();
  readonly #trace: string[] = [];
  readonly #hits: Record<string, number> = {};
  #server: Server | undefined;
  #process = 0;
  #rotted = 0;
  #isDown = false;
  #problem: string | undefined;

  constructor(seed: number) {
    this.#machine = new Machine(seed);
    this.#disk = new Disk(this.#machine, "/data");
    this.#machine.disk = this.#disk;
  }

  async run(plan: readonly MetricStep[]): Promise<Outcome> {
    install(this.#machine);
    useMetricEngine(this.#engine);
    for (const [number, step] of plan.entries()) this.#machine.outside(step.atMs, () => this.#take(step, number));
    this.#machine.outside(0, () => this.#start());
    await this.#machine.runUntil(() => this.#problem !== undefined, (plan.at(-1)?.atMs ?? 0) + 1);
    if (this.#problem === undefined) await this.#recover();
    const hits: Record<string, number> = { ...this.#hits, "engine refuses": this.#engine.refusals };
    for (const [name, count] of Object.entries(this.#disk.hits)) hits[name] = (hits[name] ?? 0) + count;
    return { problem: this.#problem, trace: this.#trace, hits, events: this.#machine.events };
  }

  #take(step: MetricStep, number: number): void {
    const { faults } = this.#disk;
    this.#say(JSON.stringify(step));
    if (step.kind !== "write") this.#hits[step.kind] = (this.#hits[step.kind] ?? 0) + 1;
    switch (step.kind) {
      case "write":
        this.#pending.add(`write-${number}`);
        return this.#send(`write-${number}`);
      case "kill":
      case "power cut":
        // The engine survives a killed backend, and is ended when the next one starts.
        if (step.kind === "power cut" || number % 2 === 0) this.#engine.crash();
        else this.#engine.stop();
        return this.#end(step.downMs, () => (step.kind === "kill" ? this.#disk.closeAll() : this.#disk.powerCut()));
      case "engine crash":
        return this.#crashEngine(step.downMs);
      case "engine refuses":
        this.#engine.isRefusing = true;
        return this.#machine.outside(step.forMs, () => (this.#engine.isRefusing = false));
      case "read-only":
        faults.isReadOnly = true;
        return this.#machine.outside(step.forMs, () => (faults.isReadOnly = false));
      case "disk full":
        faults.freeBytes = step.freeBytes;
        return this.#machine.outside(step.forMs, () => (faults.freeBytes = undefined));
      case "failed write":
        faults.failing.write += 1;
        return;
      case "failed fsync":
        faults.failing.sync += 1;
        return;
      case "failed read":
        faults.failing.read += 1;
        return;
      case "rot":
        if (this.#disk.rot((path) => path.endsWith(".journal")) !== undefined) this.#rotted += 1;
        return;
      case "clock":
        this.#machine.clock.aheadMs += step.byMs;
        return;
    }
  }

  #start(): void {
    if (this.#server) return;
    const process = this.#machine.spawn();
    this.#process = process;
    this.#engine.isUp = true;
    this.#isDown = false;
    // Nothing after an await happens if the process is killed.
    void this.#machine.enter(process, async () => {
      try {
        this.#server = await this.#open();
        this.#say("started");
      } catch (error) {
        this.#say(`start failed: ${String(error)}`);
        this.#end(RESTART_MS, () => this.#disk.closeAll());
      }
    });
  }

  async #open(): Promise<Server> {
    const log = this.#log();
    const journal = openWriteJournal("/data/journal", { isSynced: true, log });
    const replay = new Replay(journal, log);
    await replay.engineIsUp(URL);
    return { journal, replay, store: new VictoriaMetricsStore({ writeUrl: URL, queryUrl: URL, journal }) };
  }

  #end(downMs: number, onDisk: () => void): void {
    this.#machine.kill(this.#process);
    onDisk();
    this.#server = undefined;
    this.#machine.outside(downMs, () => this.#start());
  }

  #crashEngine(downMs: number): void {
    if (this.#isDown || !this.#server) return;
    const { journal, replay } = this.#server;
    const process = this.#process;
    this.#isDown = true;
    this.#engine.crash();
    // The supervisor learns it a moment later.
    this.#machine.outside(this.#machine.random.latencyMs(2), () => {
      if (this.#machine.isAlive(process)) this.#machine.enter(process, () => journal.engineCrashed());
    });
    this.#machine.outside(downMs + ENGINE_STARTS_MS, () => {
      if (!this.#machine.isAlive(process)) return;
      this.#isDown = false;
      this.#engine.isUp = true;
      void this.#machine.enter(process, () => replay.engineIsUp(URL));
    });
  }

  #send(body: string): void {
    const again = (): void => this.#machine.outside(RETRY_MS, () => this.#send(body));
    const server = this.#server;
    const process = this.#process;
    if (!server || this.#isDown) return again();
    let isAnswered = false;
    const answered = (): boolean => !isAnswered && (isAnswered = true);
    this.#machine.outside(30_000, () => {
      if (answered()) again();
    });
    const identity = { orgId: "org", hostId: "host", node: "node" };
    void this.#machine.enter(process, async () => {
      try {
        await server.store.write(identity, Buffer.from(body), 1000);
        this.#say(`204 for ${body}`);
        this.#acknowledged.add(body);
        if (answered()) this.#pending.delete(body);
      } catch {
        if (answered()) again();
      }
    });
  }

  async #recover(): Promise<void> {
    this.#say("all faults end");
    this.#disk.heal();
    this.#engine.isRefusing = false;
    const inTime = (isOver: () => boolean): Promise<boolean> =>
      this.#machine.runUntil(() => this.#problem !== undefined || isOver(), this.#machine.nowMs + RECOVERY_MS);
    if (!(await inTime(() => this.#server !== undefined && this.#pending.size === 0))) return this.#fail("the writes are not delivered");
    // A file that could not be read at one start is read at the next.
    const process = this.#process;
    this.#machine.outside(0, () => {
      this.#engine.crash();
      this.#end(1, () => this.#disk.closeAll());
    });
    const isReplayed = (): boolean => this.#process !== process && this.#server?.journal.isReplayPending === false;
    if (!(await inTime(isReplayed))) return this.#fail("the journal is not replayed after the faults have ended");
    const missing = [...this.#acknowledged].filter((body) => !this.#engine.has(body));
    if (missing.length > this.#rotted) return this.#fail(`acknowledged but missing: ${missing.join(", ")}`);
    await this.#machine.runUntil(() => false, this.#machine.nowMs + SETTLED_MS);
    this.#pending.add("last");
    this.#machine.outside(0, () => this.#send("last"));
    await inTime(() => this.#pending.size === 0);
    await this.#machine.runUntil(() => false, this.#machine.nowMs + 1000);
    const left = this.#disk.files((path) => path.endsWith(".journal")).map(({ path }) => path);
    if (left.length > MAX_FILES_LEFT) this.#fail(`the journal keeps ${left.join(", ")}`);
  }

  #log(): never {
    const note = ({ event = "" }: { event?: string }): void => this.#say(event);
    return { trace: note, debug: note, info: note, warn: note, error: note } as never;
  }

  #fail(problem: string): void {
    this.#problem ??= problem;
    this.#say(`PROBLEM: ${problem}`);
  }

  #say(what: string): void {
    this.#trace.push(`${(this.#machine.nowMs / 1000).toFixed(3)} s: ${what}`);
  }
}

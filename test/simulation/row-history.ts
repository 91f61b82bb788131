// Runs one history of the write path of logs and spans: the real OnceWriter, JournaledCommit, GroupCommit, InsertQueue, RowJournal and
// AppendLog on a simulated disk, engine and clock, with senders that repeat a body until it is acknowledged. The auditor knows every body.
// Invariants that it checks: an acknowledged body is stored once; a body is never stored twice; a query sees what was acknowledged before;
// refused rows are dead letters; once the faults are over, all is delivered and the journal's files are gone.
import { sql, Sql } from "../../backend/engines/clickhouse/sql.ts";
import { ApiError } from "../../backend/errors.ts";
import type { WriterBatch } from "../../backend/storage/write-path/once-writer.ts";
import { Disk } from "./disk.ts";
import { install, Machine } from "./machine.ts";
import type { Step } from "./plan.ts";
import { Claims, Replica } from "./replica.ts";
import { encodeSection } from "./rows.ts";
import { EngineState, REFUSED_HOST, useEngine } from "./simulated-clickhouse.ts";

export interface Outcome {
  readonly problem: string | undefined;
  readonly trace: readonly string[];
  readonly hits: Readonly<Record<string, number>>;
  readonly events: number;
}

type BodyStep = Extract<Step, { kind: "body" }>;

interface Body {
  readonly number: number;
  readonly step: BodyStep;
  readonly orgId: string;
  readonly hostId: string;
  readonly hash: string | undefined;
  /** First ids of attempts that got a 204, whether or not the sender got it. */
  readonly acknowledged: Set<number>;
  isAcknowledged: boolean;
  isDone: boolean;
}

const TABLE = new Sql("logs");
const RETRY_MS = 1500;
/** How long everything may take to recover after the last fault. */
const RECOVERY_MS = 180_000;
const IDS_PER_ATTEMPT = 16;

export class RowHistory {
  readonly #machine: Machine;
  readonly #disk: Disk;
  readonly #engine = new EngineState();
  readonly #bodies: Body[] = [];
  readonly #trace: string[] = [];
  readonly #hits: Record<string, number> = {};
  readonly #replicas: readonly Replica[];
  #attempts = 0;
  #engineTroubles = 0;
  #rotted = 0;
  #loses: "requests" | "responses" | undefined;
  #problem: string | undefined;

  /** More than one replica: they share a server. */
  constructor(seed: number, replicas = 1) {
    const machine = new Machine(seed);
    this.#machine = machine;
    this.#disk = new Disk(machine, "/data");
    machine.disk = this.#disk;
    const claims = replicas > 1 ? new Claims(machine) : undefined;
    const onEvent = (what: string): void => this.#say(what);
    this.#replicas = Array.from({ length: replicas }, (_, index) => new Replica({ machine, name: `replica-${index}`, claims, onEvent }));
  }

  async run(plan: readonly Step[]): Promise<Outcome> {
    install(this.#machine);
    useEngine(this.#engine);
    for (const [number, step] of plan.entries()) this.#machine.outside(step.atMs, () => this.#take(step, number));
    for (const replica of this.#replicas) this.#machine.outside(0, () => replica.start());
    const endMs = (plan.at(-1)?.atMs ?? 0) + 1;
    await this.#machine.runUntil(() => this.#problem !== undefined, endMs);
    if (this.#problem === undefined) await this.#recover();
    const hits = { ...this.#hits };
    for (const [name, count] of [...Object.entries(this.#disk.hits), ...Object.entries(this.#engine.hits)])
      hits[name] = (hits[name] ?? 0) + count;
    return { problem: this.#problem, trace: this.#trace, hits, events: this.#machine.events };
  }

  #take(step: Step, number: number): void {
    const { faults } = this.#disk;
    const replica = this.#replicas[number % this.#replicas.length] as Replica;
    this.#say(JSON.stringify(step));
    if (step.kind !== "body" && step.kind !== "query") this.#hits[step.kind] = (this.#hits[step.kind] ?? 0) + 1;
    switch (step.kind) {
      case "body":
        return this.#send(this.#newBody(step, number));
      case "query":
        return this.#query(`org-${number % 2}`, replica);
      case "kill":
        return replica.end(step, () => this.#disk.closeAll());
      case "power cut":
        return replica.end(step, () => this.#disk.powerCut());
      case "stop":
        return replica.stop(step);
      case "engine":
        this.#engine.fault = step.fault;
        this.#engineTroubles += 1;
        return this.#later(step.forMs, () => (this.#engine.fault = "none"));
      case "failing queries":
        this.#engine.areQueriesFailing = true;
        this.#engineTroubles += 1;
        return this.#later(step.forMs, () => (this.#engine.areQueriesFailing = false));
      case "read-only":
        faults.isReadOnly = true;
        return this.#later(step.forMs, () => (faults.isReadOnly = false));
      case "slow disk":
        faults.slowness = 200;
        return this.#later(step.forMs, () => (faults.slowness = 1));
      case "disk full":
        faults.freeBytes = step.freeBytes;
        return this.#later(step.forMs, () => (faults.freeBytes = undefined));
      case "failed write":
      case "failed fsync":
      case "failed read":
        faults.failing[step.kind === "failed write" ? "write" : step.kind === "failed fsync" ? "sync" : "read"] += step.times;
        return;
      case "clock":
        replica.clock.aheadMs += step.byMs;
        return;
      case "rot":
        if (this.#disk.rot((path) => path.endsWith(".journal")) !== undefined) this.#rotted += 1;
        return;
      case "network":
        this.#loses = step.loses;
        return this.#later(step.forMs, () => (this.#loses = undefined));
    }
  }

  #later(ms: number, run: () => void): void {
    this.#machine.outside(ms, () => {
      run();
      this.#say("over");
    });
  }

  #newBody(step: BodyStep, number: number): Body {
    const hostId = step.isRefused ? REFUSED_HOST : `host-${step.host}`;
    const hash = step.isHashed ? String(number + 1) : undefined;
    const acknowledged = new Set<number>();
    const body = { number, step, orgId: `org-${step.org}`, hostId, hash, acknowledged, isAcknowledged: false, isDone: false };
    this.#bodies.push(body);
    return body;
  }

  /** Sends a body until it is acknowledged. */
  #send(body: Body, isRepeated = false): void {
    const again = (ms: number): void => this.#machine.outside(ms, () => this.#send(body, isRepeated));
    const { random } = this.#machine;
    const replica = random.pick(this.#replicas);
    const { server, process } = replica;
    if (!server || this.#loses === "requests") return again(RETRY_MS * (0.5 + random.next()));
    const firstId = (this.#attempts += 1) * IDS_PER_ATTEMPT;
    let isAnswered = false;
    const answered = (): boolean => !isAnswered && (isAnswered = true);
    this.#say(`body ${body.number}: attempt ${firstId}`);
    // The sender's own time limit; also after a kill, because nothing answers then.
    this.#machine.outside(30_000, () => {
      if (answered()) again(0);
    });
    if (random.chance(0.05)) this.#machine.outside(random.latencyMs(50), () => this.#duplicate(body));
    // Nothing after an await happens if the process is killed.
    void this.#machine.enter(process, async () => {
      try {
        await server.writer.write(this.#batchOf(body, firstId));
        body.acknowledged.add(firstId);
        body.isAcknowledged = true;
        this.#say(`body ${body.number}: 204 for ${firstId}`);
        if (this.#loses !== "responses" && answered()) this.#senderIsDone(body, isRepeated);
      } catch (error) {
        this.#say(`body ${body.number}: ${firstId} failed, ${String(error)}`);
        if (!answered()) return;
        if (error instanceof ApiError && error.code === "unstorable") body.isDone = true;
        else again(RETRY_MS);
      }
    });
  }

  /** The network delivers a request twice. */
  #duplicate(body: Body): void {
    const { server, process } = this.#machine.random.pick(this.#replicas);
    if (!server) return;
    const firstId = (this.#attempts += 1) * IDS_PER_ATTEMPT;
    void this.#machine.enter(process, async () => {
      try {
        await server.writer.write(this.#batchOf(body, firstId));
        body.acknowledged.add(firstId);
      } catch {
        // The sender repeats the request anyway.
      }
    });
  }

  #senderIsDone(body: Body, isRepeated: boolean): void {
    const { repeatsAfterMs } = body.step;
    if (isRepeated || repeatsAfterMs === undefined) body.isDone = true;
    else this.#machine.outside(repeatsAfterMs, () => this.#send(body, true));
  }

  #batchOf({ orgId, hostId, hash, step }: Body, firstId: number): WriterBatch {
    const receivedS = Math.floor(this.#machine.wallMs / 1000);
    let id = firstId;
    const sections = step.days.map(([day, count]) => {
      const section = encodeSection({ orgId, hostId, bodyHash: hash ?? "0", receivedS, day, firstId: id, count });
      id += count;
      return section;
    });
    return { orgId, hostId, bodyHash: hash, sections };
  }

  #query(orgId: string, { server, process }: Replica): void {
    const troubles = this.#engineTroubles;
    const isSound = (): boolean =>
      this.#engineTroubles === troubles &&
      this.#engine.fault === "none" &&
      !this.#engine.areQueriesFailing &&
      server?.clickhouse.pending?.failingSeconds === undefined;
    // An unreadable segment is read at the next start.
    if (!server || !isSound() || this.#rotted > 0 || this.#disk.hits["failed read"] !== undefined) return;
    const acknowledged = this.#bodies.filter((body) => body.orgId === orgId && body.isAcknowledged && !body.step.isRefused);
    const statement = sql`SELECT id FROM ${TABLE} WHERE org_id = ${orgId}`;
    void this.#machine.enter(process, async () => {
      const rows = await server.clickhouse.read(orgId, { labelLimits: undefined }, (ask) => ask(statement)).catch(() => undefined);
      if (!rows || !isSound()) return;
      for (const body of acknowledged)
        if (this.#rowsOf(body).length === 0) this.#fail(`a query did not see body ${body.number}, which was acknowledged before`);
    });
  }

  /** Ends all faults, restarts the process twice, and checks that everything arrives. */
  async #recover(): Promise<void> {
    this.#say("all faults end");
    this.#disk.heal();
    this.#engine.fault = "none";
    this.#engine.areQueriesFailing = false;
    this.#loses = undefined;
    const areUp = (): boolean => this.#replicas.every(({ server }) => server !== undefined);
    const inTime = (isOver: () => boolean): Promise<boolean> =>
      this.#machine.runUntil(() => this.#problem !== undefined || isOver(), this.#machine.nowMs + RECOVERY_MS);
    const isDelivered = (): boolean => areUp() && this.#bodies.every(({ isDone }) => isDone);
    if (!(await inTime(isDelivered))) return this.#fail("the bodies are not delivered after the faults have ended");
    // The last duplicates, and inserts whose client is gone.
    await this.#machine.runUntil(() => false, this.#machine.nowMs + RETRY_MS);
    if (!(await inTime(() => this.#engine.underWay === 0))) return this.#fail("the server does not finish its inserts");
    await this.#settle(inTime);
    if (this.#disk.hits["failed read"] === undefined) this.#audit();
    if (this.#problem !== undefined) return;
    // A file that could not be read at one start is read at the next.
    const before = this.#replicas.map(({ process }) => process);
    for (const replica of this.#replicas) this.#machine.outside(0, () => replica.stop({ downMs: 1, clockMs: 0 }));
    const haveRestarted = (): boolean => areUp() && this.#replicas.every(({ process }, index) => process !== before[index]);
    if (!(await inTime(haveRestarted))) return this.#fail("the process does not restart");
    await this.#settle(inTime);
    await this.#machine.runUntil(() => false, this.#machine.nowMs + 20_000);
    if (this.#problem !== undefined) return;
    this.#audit();
    const left = this.#disk.files((path) => path.endsWith(".journal"));
    if (left.length > 0) this.#fail(`the journal keeps ${left.map(({ path }) => path).join(", ")}`);
  }

  /** Commits what the journals contain. */
  async #settle(inTime: (isOver: () => boolean) => Promise<boolean>): Promise<void> {
    let settled = 0;
    for (const { process, server } of this.#replicas)
      this.#machine.outside(0, () => {
        void this.#machine.enter(process, async () => {
          // While the engine has not accepted everything, it fails.
          while (await server?.clickhouse.settle().catch(() => true)) await this.#machine.delay(RETRY_MS);
          settled += 1;
        });
      });
    if (!(await inTime(() => settled === this.#replicas.length))) this.#fail("the journal is not committed after the faults have ended");
  }

  #audit(): void {
    let missing = 0;
    for (const body of this.#bodies) {
      const rows = this.#rowsOf(body);
      const wanted = body.step.days.reduce((sum, [, count]) => sum + count, 0);
      if (body.step.isRefused) {
        this.#auditRefused(body);
      } else if (body.hash !== undefined) {
        if (rows.length > wanted) return this.#fail(`body ${body.number} is stored twice: ${rows.length} rows of ${wanted}`);
        if (rows.length < wanted && body.acknowledged.size > 0) missing += 1;
      } else {
        const byAttempt = Map.groupBy(rows, ({ id }) => Math.floor(Number(id) / IDS_PER_ATTEMPT) * IDS_PER_ATTEMPT);
        for (const [attempt, stored] of byAttempt)
          if (stored.length > wanted) return this.#fail(`attempt ${attempt} of body ${body.number} is stored twice`);
        for (const attempt of body.acknowledged) if ((byAttempt.get(attempt)?.length ?? 0) < wanted) missing += 1;
      }
      if (missing > this.#rotted) return this.#fail(`body ${body.number} is acknowledged but missing: ${rows.length} rows of ${wanted}`);
    }
  }

  #auditRefused(body: Body): void {
    if (this.#rowsOf(body).length > 0) return this.#fail(`refused body ${body.number} is stored`);
    const letters = this.#disk
      .files((path) => path.endsWith(".record"))
      .filter(({ content }) => content.includes(`"bodyHash":"${body.hash}"`));
    if (body.acknowledged.size > 0 && body.hash !== undefined && letters.length === 0 && this.#rotted === 0)
      this.#fail(`refused body ${body.number} is acknowledged, but is not a dead letter`);
  }

  #rowsOf({ orgId, hostId, hash, acknowledged }: Body): { id: bigint }[] {
    if (hash !== undefined) return this.#engine.rows.filter((row) => row.bodyHash === hash && row.orgId === orgId && row.hostId === hostId);
    const ids = new Set([...acknowledged].flatMap((first) => Array.from({ length: IDS_PER_ATTEMPT }, (_, index) => BigInt(first + index))));
    return this.#engine.rows.filter(({ id, orgId: org }) => ids.has(id) && org === orgId);
  }

  #fail(problem: string): void {
    this.#problem ??= problem;
    this.#say(`PROBLEM: ${problem}`);
  }

  #say(what: string): void {
    this.#trace.push(`${(this.#machine.nowMs / 1000).toFixed(3)} s: ${what}`);
  }
}

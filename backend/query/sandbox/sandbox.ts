// Evaluates queries in processes that can be killed (README.md). Invariants: a job that exceeds its limits fails only its own query; the
// backend reads rows in the organisation's own slot and inserts the organisation into each statement; an idle pool has no process; while
// jobs run, a further process is ready, so that a job whose slot is taken back costs the next one no start of a process.
import type { Ask, ClickHouse } from "../../engines/clickhouse/clickhouse-client.ts";
import { Sql } from "../../engines/clickhouse/sql.ts";
import { ApiError } from "../../errors.ts";
import { FairQueue } from "../../admission/fair-queue.ts";
import { runQueued, type QueryOptions, UNLIMITED } from "../../admission/query-queue.ts";
import type { Log } from "../../log.ts";
import { SANDBOX_LIMITS, type SandboxLimits, WAITING_JOBS_PER_ORG } from "./sandbox-limits.ts";
import { bindOrganisation, type Question } from "./protocol.ts";
import { type KillReason, SandboxProcess } from "./sandbox-process.ts";

export interface SandboxOptions {
  /** The program of a process; it calls serveJobs. */
  readonly script: URL;
  readonly clickhouse: Pick<ClickHouse, "read">;
  readonly log: Log;
  readonly onKilled?: (reason: KillReason) => void;
  /** Aborts when the backend stops: waiting jobs are refused. */
  readonly stopping?: AbortSignal;
  readonly limits?: Partial<SandboxLimits>;
}

/** The "organisation" of a process that had no job yet. */
const SPARE = "";

interface Idle {
  /** The organisation of the last job. */
  readonly orgId: string;
  readonly end: NodeJS.Timeout;
}

/** Evaluates a job of an organisation. Throws ApiError, and the signal's reason once it aborts. */
export interface JobRunner {
  run(orgId: string, job: object, options?: QueryOptions): Promise<Buffer>;
}

export class Sandbox implements JobRunner, AsyncDisposable {
  readonly #options: SandboxOptions;
  readonly #limits: SandboxLimits;
  readonly #queue: FairQueue;
  readonly #all = new Set<SandboxProcess>();
  /** Idle processes, in the order in which they became idle. */
  readonly #idle = new Map<SandboxProcess, Idle>();
  readonly #closing = new AbortController();

  constructor(options: SandboxOptions) {
    this.#options = options;
    this.#limits = { ...SANDBOX_LIMITS, ...options.limits };
    this.#queue = new FairQueue({ running: this.#limits.processes, perOrg: 1, waitingPerOrg: WAITING_JOBS_PER_ORG, takesBack: 1 });
  }

  get jobs(): { readonly running: number; readonly waiting: number } {
    return this.#queue;
  }

  get processes(): number {
    return this.#all.size;
  }

  async run(orgId: string, job: object, options: QueryOptions = UNLIMITED): Promise<Buffer> {
    const { stopping } = this.#options;
    const signal = AbortSignal.any([this.#closing.signal, ...(options.signal ? [options.signal] : [])]);
    const { promise, resolve, reject } = Promise.withResolvers<Buffer>();
    runQueued({ queue: this.#queue, stopping }, orgId, { ...options, signal }, (ending) =>
      this.#evaluate(orgId, job, { labelLimits: options.labelLimits, signal: ending, onPartial: options.onPartial, resolve, reject }),
    ).catch(reject);
    return await promise;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const refusal = new ApiError("unavailable", "the backend is stopping", { retryAfterS: 5 });
    this.#closing.abort(refusal);
    for (const sandboxProcess of this.#all) sandboxProcess.kill(refusal);
    await Promise.all([...this.#all].map(({ exited }) => exited));
  }

  /** On abort, the caller gets the result immediately; the slot is freed once the process is free. */
  async #evaluate(
    orgId: string,
    job: object,
    { resolve, reject, ...options }: ReadOptions & Pick<PromiseWithResolvers<Buffer>, "resolve" | "reject">,
  ): Promise<void> {
    const { signal } = options;
    const sandboxProcess = this.#wake(orgId) ?? this.#start();
    if (this.#queue.running > 1 && this.#idle.size === 0) this.#rest(this.#start(), SPARE);
    sandboxProcess.onKilled = (reason) => this.#report(orgId, reason);
    const reads = new ReadSession(this.#options.clickhouse, orgId, options);
    const onAbort = (): void => {
      reject(signal.reason);
      // The slot was taken back, and another organisation waits for the cores.
      if (signal.reason instanceof ApiError) sandboxProcess.kill(signal.reason);
    };
    signal.addEventListener("abort", onAbort, { once: true });
    try {
      resolve(await sandboxProcess.run(job, (question) => reads.ask(question), signal));
    } catch (error) {
      reject(error);
    } finally {
      signal.removeEventListener("abort", onAbort);
      await reads.end();
      if (sandboxProcess.isReusable) this.#rest(sandboxProcess, orgId);
      else {
        sandboxProcess.kill(new Error("replaced"));
        await sandboxProcess.exited;
      }
    }
  }

  #report(orgId: string, reason: KillReason): void {
    this.#options.log.warn({ event: "sandbox.job_killed", org_id: orgId, reason }, "sandbox job killed");
    this.#options.onKilled?.(reason);
  }

  #start(): SandboxProcess {
    const sandboxProcess = new SandboxProcess(this.#options.script, this.#limits);
    this.#all.add(sandboxProcess);
    void this.#forgetWhenEnded(sandboxProcess);
    return sandboxProcess;
  }

  async #forgetWhenEnded(sandboxProcess: SandboxProcess): Promise<void> {
    await sandboxProcess.exited;
    this.#all.delete(sandboxProcess);
    this.#takeFromIdle(sandboxProcess);
  }

  /**
   * Takes the idle process that this organisation used last, so that an organisation whose jobs cause restarts waits for the new processes
   * itself. Takes the process of another organisation only if the limit of processes is reached.
   */
  #wake(orgId: string): SandboxProcess | undefined {
    const idle = [...this.#idle];
    const isFull = this.#all.size >= this.#limits.processes;
    const lastOf = (id: string) => idle.find(([, last]) => last.orgId === id);
    const [sandboxProcess] = lastOf(orgId) ?? lastOf(SPARE) ?? (isFull ? idle[0] : undefined) ?? [];
    if (sandboxProcess) this.#takeFromIdle(sandboxProcess);
    return sandboxProcess;
  }

  #takeFromIdle(sandboxProcess: SandboxProcess): void {
    clearTimeout(this.#idle.get(sandboxProcess)?.end);
    this.#idle.delete(sandboxProcess);
  }

  #rest(sandboxProcess: SandboxProcess, orgId: string): void {
    const end = (): void => {
      this.#idle.delete(sandboxProcess);
      sandboxProcess.kill(new Error("idle"));
    };
    this.#idle.set(sandboxProcess, { orgId, end: setTimeout(end, this.#limits.idleMs).unref() });
  }
}

type ReadOptions = Required<Pick<QueryOptions, "signal">> & Pick<QueryOptions, "labelLimits" | "onPartial">;

/** The organisation's slot among reads: acquired for the first statement of a job, released when the job ends. */
class ReadSession {
  readonly #clickhouse: Pick<ClickHouse, "read">;
  readonly #orgId: string;
  readonly #read: ReadOptions;
  readonly #ended = new AbortController();
  readonly #finished = Promise.withResolvers<void>();
  #asking: Promise<Ask> | undefined;
  #reading: Promise<void> | undefined;

  constructor(clickhouse: Pick<ClickHouse, "read">, orgId: string, options: ReadOptions) {
    this.#clickhouse = clickhouse;
    this.#orgId = orgId;
    this.#read = { ...options, signal: AbortSignal.any([options.signal, this.#ended.signal]) };
  }

  async ask({ statement, maxResultBytes, blockRows, groupLimit }: Question): Promise<Buffer> {
    const ask = await (this.#asking ??= this.#open());
    return await ask(new Sql(bindOrganisation(statement, this.#orgId)), maxResultBytes, blockRows, groupLimit);
  }

  /** Cancels a running statement. */
  async end(): Promise<void> {
    this.#ended.abort(new Error("the evaluation of this query has ended"));
    this.#finished.resolve();
    await this.#reading;
  }

  #open(): Promise<Ask> {
    const { promise, resolve, reject } = Promise.withResolvers<Ask>();
    this.#reading = this.#clickhouse
      .read(this.#orgId, this.#read, (ask, signal) => {
        signal.addEventListener("abort", () => this.#finished.resolve(), { once: true });
        resolve(ask);
        return this.#finished.promise;
      })
      .catch(reject);
    return promise;
  }
}

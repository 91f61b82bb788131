// Decodes OTLP bodies: small ones on this thread, larger ones too where the kernel takes them, one a turn of the event loop; the others on
// worker threads. So the event loop stays free, and both cores work. Invariants: a body is answered exactly once, also when decoding it
// kills its worker; the rows of a body are reserved before they are made; however many bodies of one organisation wait, another's is next.
import { createHash } from "node:crypto";
import { availableParallelism } from "node:os";
import { setImmediate as nextTurn } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { freeBuffer } from "../engines/free-buffer.ts";
import { ApiError, type ErrorCode } from "../errors.ts";
import { FairTurns, QueueFullError } from "../admission/fair-turns.ts";
import { decodeLogs, LOG_SHAPE } from "../logs/decode.ts";
import { decodeTraces, SPAN_SHAPE } from "../traces/decode.ts";
import { operationsOf } from "../traces/operations-of.ts";
import { ByteBudget, type Reservation } from "../admission/byte-budget.ts";
import { type BatchPlan, estimateRows, planBatch, tooLarge } from "../otlp/batch.ts";
import { type KernelLimits, threadKernel } from "../otlp/fast-decode.ts";
import { type DecodedBody, MOST_ROWS_BYTES, ROW_BYTES, type RowContext } from "../otlp/rows.ts";

export type OtlpSignal = "logs" | "traces";

export interface DecodeTask {
  readonly signal: OtlpSignal;
  readonly body: Uint8Array;
  /** The hash is made on the thread that decodes. */
  readonly context: Omit<RowContext, "bodyHash">;
}

/** What a worker answers: first what it will need, and after `Go` the rows. */
export type DecodeAnswer =
  | { neededBytes: number }
  | { decoded: DecodedBody }
  | { code: ErrorCode; message: string }
  | { failure: string }
  | { stopped: true };

/** The answer to what a worker needs. */
export interface Go {
  readonly go: boolean;
}

export interface OtlpDecoder extends AsyncDisposable {
  /** An account for the rows of one body; dispose it when nothing refers to them any more. */
  open(orgId: string): Reservation;
  /**
   * Takes the body over: its memory may move to another thread. What the rows take is added to `held`. Throws malformed_body,
   * invalid_payload, batch_too_large, unstorable, unavailable.
   */
  decode(task: DecodeTask, held: Reservation): Promise<DecodedBody>;
  /** Bodies waiting for a worker. */
  readonly queued: number;
  /** Bytes of decoded rows that are not stored yet. */
  readonly heldBytes: number;
  /** That live now: none before the first body that needs one, and none any more a minute after the last. */
  readonly threads: number;
}

/** Below this, handing a body to a thread costs more than decoding it, unless its rows are far larger. */
const INLINE_BYTES = 32 * 1024;
const INLINE_ROWS_BYTES = 1024 * 1024;
/** Below this the kernel decodes a body in less than a millisecond; a thread would cost half as much again. */
const KERNEL_BYTES_HERE = 384 * 1024;
/** Larger than what agents send: decoded one at a time, so that they leave a worker to the others. */
const LARGE_BYTES = 5 * 1024 * 1024;
/** Of the kernel on this thread. */
const INLINE_LIMITS: KernelLimits = { mostBodyBytes: KERNEL_BYTES_HERE, mostRowsBytes: INLINE_ROWS_BYTES };
/** Of a thread's kernel, whose memory stays: 40 MiB at most. */
export const KERNEL_LIMITS: KernelLimits = { mostBodyBytes: LARGE_BYTES, mostRowsBytes: 24 * 1024 * 1024 };
const MOST_THREADS = 2;
/** A thread keeps up to 60 MiB, and is started within a twentieth of a second. */
const IDLE_MS = 60_000;
/** Bodies of one organisation that wait for a worker. */
const MOST_WAITING = 256;
/** Twice what the worst body needs at once, which is a record of 32 MiB: JSON.parse over the limit would end the process, not the thread. */
const WORKER_HEAP_MIB = 512;
/** An estimate may be too large by so much. */
const HOPELESS = 8 * MOST_ROWS_BYTES;

const DECODERS = { logs: { shape: LOG_SHAPE, decode: decodeLogs }, traces: { shape: SPAN_SHAPE, decode: decodeTraces } };

/** Judges a body, and tells what its rows will need. Throws malformed_body, invalid_payload, batch_too_large. */
export function planNow({ signal, body, context }: DecodeTask): { plan: BatchPlan; neededBytes: number } {
  const plan = planBatch(body, DECODERS[signal].shape);
  const rowBytes = ROW_BYTES + context.orgId.length + context.hostId.length + context.node.length;
  const estimate = estimateRows(plan, rowBytes);
  if (estimate > HOPELESS) throw tooLarge(`some ${Math.round(estimate / 1024 / 1024)} MiB, of which each record takes its resource's part`);
  return { plan, neededBytes: Math.min(estimate, MOST_ROWS_BYTES) };
}

/** Decodes what was judged. Throws invalid_payload or batch_too_large. */
export function decodePlanned({ signal, body, context }: DecodeTask, plan: BatchPlan): DecodedBody {
  return decodeRows(signal, plan, { ...context, bodyHash: hashOf(body) });
}

/** A judged body: what its rows need, and the rows. */
export interface Judged {
  readonly neededBytes: number;
  readonly rows: () => DecodedBody;
}

/** The fast way where it takes the body, else the way that has words for every refusal. Throws as `planNow` does, and `rows` as `decodePlanned`. */
export function judge(task: DecodeTask, limits = KERNEL_LIMITS): Judged {
  const fast = judgeFast(task, limits);
  if (fast) return fast;
  const { plan, neededBytes } = planNow(task);
  return { neededBytes, rows: () => decodePlanned(task, plan) };
}

/** Undefined where the kernel does not take the body. */
function judgeFast({ signal, body, context }: DecodeTask, limits: KernelLimits): Judged | undefined {
  const fast = threadKernel()?.read(signal, body, context, limits);
  return fast && { neededBytes: fast.byteLength, rows: () => withOperations(signal, fast.take(hashOf(body))) };
}

/** Both at once, callable on any thread, with a hash that is given. */
export function decodeNow(task: DecodeTask & { readonly context: RowContext }): DecodedBody {
  const { signal, body, context } = task;
  const fast = threadKernel()?.read(signal, body, context, KERNEL_LIMITS);
  return fast ? withOperations(signal, fast.take(context.bodyHash)) : decodeInWords(task);
}

/** The same without the kernel, which must make the same of every body. */
export function decodeInWords(task: DecodeTask & { readonly context: RowContext }): DecodedBody {
  return decodeRows(task.signal, planNow(task).plan, task.context);
}

function decodeRows(signal: OtlpSignal, plan: BatchPlan, context: RowContext): DecodedBody {
  return withOperations(signal, DECODERS[signal].decode(plan, context));
}

function withOperations(signal: OtlpSignal, decoded: DecodedBody): DecodedBody {
  return signal === "traces" && !decoded.operations ? { ...decoded, operations: operationsOf(decoded.sections) } : decoded;
}

/** First 8 bytes of the SHA-256, as digits. */
function hashOf(body: Uint8Array): string {
  return createHash("sha256").update(body).digest().readBigUInt64BE().toString();
}

export function openOtlpDecoder(threads = Math.min(MOST_THREADS, availableParallelism()), { idleMs = IDLE_MS } = {}): OtlpDecoder {
  return new DecoderPool(threads, idleMs);
}

interface Job {
  readonly task: DecodeTask;
  readonly held: Reservation;
  readonly resolve: (decoded: DecodedBody) => void;
  readonly reject: (error: unknown) => void;
  reservedBytes: number;
  /** Why it may not go on. */
  refusal?: unknown;
}

class DecoderPool implements OtlpDecoder {
  /** Two of the largest at once, each of another organisation. */
  readonly #rows = new ByteBudget(2 * MOST_ROWS_BYTES, MOST_ROWS_BYTES / 2);
  readonly #turns: FairTurns;
  readonly #turnsHere = new FairTurns({ running: 1, perOrg: 1, waitingPerOrg: MOST_WAITING });
  readonly #largeTurns = new FairTurns({ running: 1, perOrg: 1, waitingPerOrg: MOST_WAITING });
  readonly #idleMs: number;
  /** Each with the timer that ends it. */
  readonly #idle = new Map<Worker, NodeJS.Timeout>();
  readonly #running = new Map<Worker, Job>();
  #closed = false;

  constructor(threads: number, idleMs: number) {
    this.#idleMs = idleMs;
    this.#turns = new FairTurns({ running: threads, perOrg: threads, waitingPerOrg: MOST_WAITING });
  }

  get queued(): number {
    return this.#turnsHere.waiting + this.#turns.waiting + this.#largeTurns.waiting;
  }

  get heldBytes(): number {
    return this.#rows.heldBytes;
  }

  get threads(): number {
    return this.#idle.size + this.#running.size;
  }

  open(orgId: string): Reservation {
    return this.#rows.open(orgId);
  }

  async decode(task: DecodeTask, held: Reservation): Promise<DecodedBody> {
    if (task.body.byteLength <= INLINE_BYTES) {
      const { neededBytes, rows } = judge(task, INLINE_LIMITS);
      if (neededBytes <= INLINE_ROWS_BYTES) {
        held.add(neededBytes);
        const decoded = rows();
        held.add(rowsBytes(decoded) - neededBytes);
        return decoded;
      }
    }
    const { orgId } = task.context;
    await this.#rows.whenRoom(orgId, MOST_WAITING);
    const run = () => this.#turns.run(orgId, undefined, () => this.#decodeOnWorker(task, held));
    try {
      const decoded = task.body.byteLength <= KERNEL_BYTES_HERE ? await this.#decodeHere(task, held) : undefined;
      if (decoded) return decoded;
      return await (task.body.byteLength > LARGE_BYTES ? this.#largeTurns.run(orgId, undefined, run) : run());
    } catch (error) {
      if (error instanceof QueueFullError) throw unavailable("too many bodies are waiting to be decoded; send it again later", error);
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#idle.keys(), ...this.#running.keys()].map((worker) => worker.terminate()));
  }

  /** What the kernel takes, on this thread. The turn ends with that of the event loop, so that between two bodies everybody is served. */
  async #decodeHere(task: DecodeTask, held: Reservation): Promise<DecodedBody | undefined> {
    const { promise, resolve, reject } = Promise.withResolvers<DecodedBody | undefined>();
    const turn = this.#turnsHere.run(task.context.orgId, undefined, async () => {
      try {
        const judged = judgeFast(task, INLINE_LIMITS);
        if (judged) held.add(judged.neededBytes);
        const decoded = judged?.rows();
        if (decoded) freeBuffer(task.body);
        resolve(decoded);
      } catch (error) {
        reject(error);
      }
      await nextTurn();
    });
    turn.catch(reject);
    return promise;
  }

  async #decodeOnWorker(task: DecodeTask, held: Reservation): Promise<DecodedBody> {
    if (this.#closed) throw unavailable("shutting down; try again");
    const worker = this.#wake() ?? this.#spawn();
    const { promise, resolve, reject } = Promise.withResolvers<DecodedBody>();
    this.#running.set(worker, { task, held, resolve, reject, reservedBytes: 0 });
    worker.ref();
    const body = ownBytes(task.body);
    worker.postMessage({ ...task, body }, [body.buffer]);
    return promise;
  }

  #spawn(): Worker {
    const worker = new Worker(new URL("./otlp-decoder-worker.ts", import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: WORKER_HEAP_MIB },
      env: {},
      execArgv: [],
    });
    worker.on("message", (answer: DecodeAnswer) => {
      const job = this.#running.get(worker);
      if (!job) return;
      if ("neededBytes" in answer) return worker.postMessage(reserve(job, answer.neededBytes), []);
      this.#running.delete(worker);
      this.#rest(worker);
      settle(job, answer);
    });
    worker.on("error", (cause) => this.#lost(worker, cause));
    worker.on("exit", () => this.#lost(worker, new Error("the decoder thread ended")));
    return worker;
  }

  /** An idle worker keeps no process alive, and ends after a while. */
  #rest(worker: Worker): void {
    worker.unref();
    const end = (): void => {
      if (this.#idle.delete(worker)) void worker.terminate();
    };
    this.#idle.set(worker, setTimeout(end, this.#idleMs).unref());
  }

  /** The one that rested last, so that others can end. */
  #wake(): Worker | undefined {
    const [worker, timer] = [...this.#idle].at(-1) ?? [];
    if (!worker) return undefined;
    clearTimeout(timer);
    this.#idle.delete(worker);
    return worker;
  }

  #lost(worker: Worker, cause: unknown): void {
    const job = this.#running.get(worker);
    this.#running.delete(worker);
    clearTimeout(this.#idle.get(worker));
    this.#idle.delete(worker);
    job?.reject(whyLost(cause));
  }
}

function reserve(job: Job, bytes: number): Go {
  try {
    job.held.add(bytes);
    job.reservedBytes = bytes;
    return { go: true };
  } catch (error) {
    job.refusal = error;
    return { go: false };
  }
}

function settle(job: Job, answer: Exclude<DecodeAnswer, { neededBytes: number }>): void {
  if ("stopped" in answer) return job.reject(job.refusal);
  if ("code" in answer) return job.reject(new ApiError(answer.code, answer.message));
  // The same body would fail in the same way: sent again, it would come for ever.
  if ("failure" in answer)
    return job.reject(
      new ApiError("unstorable", "the document cannot be decoded; sending it again will not help", { cause: new Error(answer.failure) }),
    );
  try {
    job.held.add(rowsBytes(answer.decoded) - job.reservedBytes);
    job.resolve(answer.decoded);
  } catch (error) {
    job.reject(error);
  }
}

export function rowsBytes({ sections }: DecodedBody): number {
  return sections.reduce((sum, { bytes }) => sum + bytes.byteLength, 0);
}

function whyLost(cause: unknown): ApiError {
  if ((cause as { code?: string }).code === "ERR_WORKER_OUT_OF_MEMORY")
    return new ApiError("batch_too_large", "the document needs too much memory once decoded: send smaller batches", { cause });
  return unavailable("decoding was interrupted; try again", cause);
}

function unavailable(message: string, cause?: unknown): ApiError {
  return new ApiError("unavailable", message, { cause, retryAfterS: 1 });
}

/** Bytes whose whole memory may be transferred; a slice of a pool is copied. */
function ownBytes(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  if (bytes.buffer instanceof ArrayBuffer && bytes.buffer.byteLength === bytes.byteLength) return bytes as Uint8Array<ArrayBuffer>;
  return new Uint8Array(bytes);
}

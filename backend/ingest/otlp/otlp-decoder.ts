// Decodes OTLP bodies: small ones on this thread, larger ones too where the kernel takes them, one a turn of the event loop; the others on
// worker threads. So the event loop stays free, and both cores work. Invariants: a body is answered exactly once, also when decoding it
// kills its worker; the rows of a body are reserved before they are made; however many bodies of one organisation wait, another's is next.
import { availableParallelism } from "node:os";
import { setImmediate as nextTurn } from "node:timers/promises";
import { Worker } from "node:worker_threads";
import { freeBuffer } from "../../../common/http.ts";
import { ApiError, type ErrorCode } from "../../errors.ts";
import { FairQueue, QueueFullError } from "../../admission/fair-queue.ts";
import { ByteBudget, type Reservation } from "../../admission/byte-budget.ts";
import { MAX_DECODER_THREADS, MAX_ROWS_BYTES, MAX_WAITING_BODIES_PER_ORG } from "../limits.ts";
import type { KernelLimits } from "./fast-decode.ts";
import { type DecodedBody } from "./rows.ts";
import { asJson, type DecodeTask, validateBody, validateFast, LARGE_BYTES, rowsBytes } from "./decode-body.ts";

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
   * Takes the body over: of one that became rows the memory is gone, where nothing else shares it. What the rows take is added to
   * `held`. An answer that is not a promise costs no wait. Throws malformed_body, invalid_payload, batch_too_large, unstorable,
   * unavailable.
   */
  decode(task: DecodeTask, held: Reservation): DecodedBody | Promise<DecodedBody>;
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
/** A body of protobuf becomes at most seven times as much JSON, which takes about 5 ms at the worst. */
const PROTOBUF_BYTES_HERE = 128 * 1024;
/** Of the kernel on this thread. */
const INLINE_LIMITS: KernelLimits = { mostBodyBytes: KERNEL_BYTES_HERE, mostRowsBytes: INLINE_ROWS_BYTES };
/** A thread keeps up to 60 MiB, and is started within a twentieth of a second. */
const IDLE_MS = 60_000;
/** Twice what the worst body needs at once, which is a record of 32 MiB: JSON.parse over the limit would end the process, not the thread. */
const WORKER_HEAP_MIB = 512;

export function openOtlpDecoder(threads = Math.min(MAX_DECODER_THREADS, availableParallelism()), { idleMs = IDLE_MS } = {}): OtlpDecoder {
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
  readonly #rows = new ByteBudget(2 * MAX_ROWS_BYTES, MAX_ROWS_BYTES / 2);
  readonly #queue: FairQueue;
  readonly #mainThreadQueue = new FairQueue({ running: 1, perOrg: 1, waitingPerOrg: MAX_WAITING_BODIES_PER_ORG });
  readonly #largeQueue = new FairQueue({ running: 1, perOrg: 1, waitingPerOrg: MAX_WAITING_BODIES_PER_ORG });
  readonly #idleMs: number;
  /** Each with the timer that ends it. */
  readonly #idle = new Map<Worker, NodeJS.Timeout>();
  readonly #running = new Map<Worker, Job>();
  #closed = false;

  constructor(threads: number, idleMs: number) {
    this.#idleMs = idleMs;
    this.#queue = new FairQueue({ running: threads, perOrg: threads, waitingPerOrg: MAX_WAITING_BODIES_PER_ORG });
  }

  get queued(): number {
    return this.#mainThreadQueue.waiting + this.#queue.waiting + this.#largeQueue.waiting;
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

  decode(task: DecodeTask, held: Reservation): DecodedBody | Promise<DecodedBody> {
    if (task.encoding === undefined) return this.#decodeJson(task, held);
    if (task.body.byteLength > PROTOBUF_BYTES_HERE) return this.#decodeQueued(task, held);
    const json = asJson(task);
    freeBuffer(task.body);
    const { byteLength } = json.body;
    held.add(byteLength);
    const decoded = this.#decodeJson(json, held);
    if (!(decoded instanceof Promise)) held.add(-byteLength);
    return decoded instanceof Promise ? decoded.finally(() => held.add(-byteLength)) : decoded;
  }

  #decodeJson(task: DecodeTask, held: Reservation): DecodedBody | Promise<DecodedBody> {
    if (task.body.byteLength <= INLINE_BYTES) {
      const { neededBytes, rows } = validateBody(task, INLINE_LIMITS);
      if (neededBytes <= INLINE_ROWS_BYTES) {
        held.add(neededBytes);
        const decoded = rows();
        freeBuffer(task.body);
        held.add(rowsBytes(decoded) - neededBytes);
        return decoded;
      }
    }
    return this.#decodeQueued(task, held);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    await Promise.all([...this.#idle.keys(), ...this.#running.keys()].map((worker) => worker.terminate()));
  }

  async #decodeQueued(task: DecodeTask, held: Reservation): Promise<DecodedBody> {
    const { orgId } = task.context;
    await this.#rows.waitForSpace(orgId, MAX_WAITING_BODIES_PER_ORG);
    const run = () => this.#queue.run(orgId, undefined, () => this.#decodeOnWorker(task, held));
    try {
      const isForKernel = task.encoding === undefined && task.body.byteLength <= KERNEL_BYTES_HERE;
      const decoded = isForKernel ? await this.#decodeHere(task, held) : undefined;
      if (decoded) return decoded;
      return await (task.body.byteLength > LARGE_BYTES ? this.#largeQueue.run(orgId, undefined, run) : run());
    } catch (error) {
      if (error instanceof QueueFullError) throw unavailable("too many bodies are waiting to be decoded; send it again later", error);
      throw error;
    }
  }

  /** What the kernel takes, on this thread. The turn ends with that of the event loop, so that between two bodies everybody is served. */
  async #decodeHere(task: DecodeTask, held: Reservation): Promise<DecodedBody | undefined> {
    const { promise, resolve, reject } = Promise.withResolvers<DecodedBody | undefined>();
    const slot = this.#mainThreadQueue.run(task.context.orgId, undefined, async () => {
      try {
        const validated = validateFast(task, INLINE_LIMITS);
        if (validated) held.add(validated.neededBytes);
        const decoded = validated?.rows();
        if (decoded) freeBuffer(task.body);
        resolve(decoded);
      } catch (error) {
        reject(error);
      }
      await nextTurn();
    });
    slot.catch(reject);
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

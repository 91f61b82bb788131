// Decodes OTLP bodies: small ones on this thread, large ones on worker threads, so that the event loop stays free and both cores work.
// Invariant: a body is answered exactly once, also when decoding it kills its worker. Opened by serve.ts, used by ingest.ts of logs and
// traces.
import { availableParallelism } from "node:os";
import { Worker } from "node:worker_threads";
import { ApiError, type ErrorCode } from "../errors.ts";
import { decodeLogs } from "../logs/decode.ts";
import { decodeTraces } from "../traces/decode.ts";
import type { DecodedBody, RowContext } from "./otlp-rows.ts";

export type OtlpSignal = "logs" | "traces";

export interface DecodeTask {
  readonly signal: OtlpSignal;
  readonly body: Uint8Array;
  readonly context: RowContext;
}

/** What a worker answers. */
export type DecodeAnswer = { decoded: DecodedBody } | { code: ErrorCode; message: string } | { failure: string };

export interface OtlpDecoder extends AsyncDisposable {
  /** Takes the body over: its memory may move to another thread. Throws malformed_body or invalid_payload. */
  decode(task: DecodeTask): Promise<DecodedBody>;
  /** Bodies waiting for a worker. */
  readonly queued: number;
}

/** Below this, handing a body to a thread costs more than decoding it. */
const INLINE_BYTES = 32 * 1024;
/**
 * Well above what the densest document that decodeDocument parses needs: JSON.parse over the limit would end the process, not the thread
 * alone.
 */
const WORKER_HEAP_MIB = 1536;

/** The pure decoders, callable on any thread. */
export function decodeNow({ signal, body, context }: DecodeTask): DecodedBody {
  return signal === "logs" ? decodeLogs(body, context) : decodeTraces(body, context);
}

export function openOtlpDecoder(threads = Math.min(4, availableParallelism())): OtlpDecoder {
  return new DecoderPool(threads);
}

interface Job {
  readonly task: DecodeTask;
  readonly resolve: (decoded: DecodedBody) => void;
  readonly reject: (error: unknown) => void;
}

class DecoderPool implements OtlpDecoder {
  readonly #threads: number;
  readonly #idle: Worker[] = [];
  readonly #running = new Map<Worker, Job>();
  readonly #queue: Job[] = [];
  #closed = false;

  constructor(threads: number) {
    this.#threads = threads;
  }

  get queued(): number {
    return this.#queue.length;
  }

  async decode(task: DecodeTask): Promise<DecodedBody> {
    if (task.body.byteLength <= INLINE_BYTES) return decodeNow(task);
    if (this.#closed) throw new ApiError("unavailable", "shutting down; try again", { retryAfterS: 1 });
    return new Promise((resolve, reject) => {
      this.#queue.push({ task, resolve, reject });
      this.#next();
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    for (const job of this.#queue.splice(0)) job.reject(new ApiError("unavailable", "shutting down; try again", { retryAfterS: 1 }));
    await Promise.all([...this.#idle, ...this.#running.keys()].map((worker) => worker.terminate()));
  }

  #next(): void {
    if (this.#queue.length === 0) return;
    const worker = this.#idle.pop() ?? (this.#running.size < this.#threads ? this.#spawn() : undefined);
    if (!worker) return;
    const job = this.#queue.shift() as Job;
    this.#running.set(worker, job);
    worker.ref();
    const body = ownBytes(job.task.body);
    worker.postMessage({ ...job.task, body }, [body.buffer]);
  }

  #spawn(): Worker {
    const worker = new Worker(new URL("./otlp-decoder-worker.ts", import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: WORKER_HEAP_MIB },
      env: {},
      execArgv: [],
    });
    worker.on("message", (answer: DecodeAnswer) => {
      const job = this.#running.get(worker);
      this.#running.delete(worker);
      // An idle worker keeps no process alive.
      worker.unref();
      this.#idle.push(worker);
      if (job) settle(job, answer);
      this.#next();
    });
    worker.on("error", (cause) => this.#lost(worker, cause));
    worker.on("exit", () => this.#lost(worker, new Error("the decoder thread ended")));
    return worker;
  }

  #lost(worker: Worker, cause: unknown): void {
    const job = this.#running.get(worker);
    this.#running.delete(worker);
    const idle = this.#idle.indexOf(worker);
    if (idle >= 0) this.#idle.splice(idle, 1);
    if (job) job.reject(whyLost(cause));
    if (!this.#closed) this.#next();
  }
}

function whyLost(cause: unknown): ApiError {
  if ((cause as { code?: string }).code === "ERR_WORKER_OUT_OF_MEMORY") {
    return new ApiError("invalid_payload", "the document needs too much memory once decoded: send smaller batches", { cause });
  }
  return new ApiError("unavailable", "decoding was interrupted; try again", { cause, retryAfterS: 1 });
}

function settle(job: Job, answer: DecodeAnswer): void {
  if ("decoded" in answer) job.resolve(answer.decoded);
  else if ("code" in answer) job.reject(new ApiError(answer.code, answer.message));
  else job.reject(new Error(`decoding failed: ${answer.failure}`));
}

/** Bytes whose whole memory may be transferred; a slice of a pool is copied. */
function ownBytes(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  if (bytes.buffer instanceof ArrayBuffer && bytes.buffer.byteLength === bytes.byteLength) return bytes as Uint8Array<ArrayBuffer>;
  return new Uint8Array(bytes);
}

// Runs jobs on a pool of worker threads with the same program. A thread runs one job at a time, is reused, and ends after a minute without
// a job. Invariants: a job ends exactly once, with its result or because its thread was lost; a job that kills its thread fails alone; idle
// threads do not keep the process alive.
import { ownBytes } from "../../engines/pieces.ts";
import { Worker } from "node:worker_threads";
import { ApiError, type ErrorCode } from "../../errors.ts";

export interface ThreadPoolOptions {
  readonly script: URL;
  /** Limit of a thread's heap. A job that needs more fails without ending the process. */
  readonly heapMib: number;
  readonly idleMs?: number | undefined;
  /** Creates the error of a job that exceeds the heap limit. */
  readonly tooLarge: (cause: unknown) => ApiError;
  /** Creates the error of a job whose thread was lost for another reason. */
  readonly interrupted: (cause: unknown) => ApiError;
}

/** Reads a message of the thread: the result of the job, or undefined if more messages follow. May throw the error of the job. */
type ReadMessage<M, R> = (message: M, reply: (message: object) => void) => R | undefined;

/** The message of a thread whose job threw an ApiError or failed unexpectedly. */
export type JobError = { readonly code: ErrorCode; readonly message: string } | { readonly failure: string };

export function jobError(error: unknown): JobError {
  if (error instanceof ApiError) return { code: error.code, message: error.message };
  return { failure: error instanceof Error ? (error.stack ?? error.message) : String(error) };
}

/** `unexpected`: the message for a failure. Sending the same body again would fail in the same way, so the sender must not retry. */
export function toApiError(error: JobError, unexpected: string): ApiError {
  if ("code" in error) return new ApiError(error.code, error.message);
  return new ApiError("unstorable", unexpected, { cause: new Error(error.failure) });
}

interface Job {
  readonly onMessage: (message: never) => boolean;
  readonly reject: (error: unknown) => void;
}

const IDLE_MS = 60_000;

export class ThreadPool implements AsyncDisposable {
  readonly #options: ThreadPoolOptions;
  /** Idle threads, each with the timer that ends it. */
  readonly #idle = new Map<Worker, NodeJS.Timeout>();
  readonly #running = new Map<Worker, Job>();

  constructor(options: ThreadPoolOptions) {
    this.#options = options;
  }

  get threads(): number {
    return this.#idle.size + this.#running.size;
  }

  /**
   * Runs one job with the bytes of `body`, of which it takes ownership. Starts a thread if none is idle; the caller limits the number of
   * concurrent jobs.
   */
  async run<M, R>({ body, ...task }: { readonly body: Uint8Array }, read: ReadMessage<M, R>): Promise<R> {
    const worker = this.#wake() ?? this.#spawn();
    const { promise, resolve, reject } = Promise.withResolvers<R>();
    const onMessage = (message: M): boolean => {
      try {
        const result = read(message, (answer) => worker.postMessage(answer, []));
        if (result === undefined) return false;
        resolve(result);
      } catch (error) {
        reject(error);
      }
      return true;
    };
    this.#running.set(worker, { onMessage, reject });
    worker.ref();
    const bytes = ownBytes(body);
    worker.postMessage({ ...task, body: bytes }, [bytes.buffer]);
    return await promise;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#idle.keys(), ...this.#running.keys()].map((worker) => worker.terminate()));
  }

  #spawn(): Worker {
    const { script, heapMib } = this.#options;
    const worker = new Worker(script, { resourceLimits: { maxOldGenerationSizeMb: heapMib }, env: {}, execArgv: [] });
    worker.on("message", (message: unknown) => {
      if (!this.#running.get(worker)?.onMessage(message as never)) return;
      this.#running.delete(worker);
      this.#rest(worker);
    });
    worker.on("error", (cause) => this.#lost(worker, cause));
    worker.on("exit", () => this.#lost(worker, new Error("the thread ended")));
    return worker;
  }

  #rest(worker: Worker): void {
    worker.unref();
    const end = (): void => {
      if (this.#idle.delete(worker)) void worker.terminate();
    };
    this.#idle.set(worker, setTimeout(end, this.#options.idleMs ?? IDLE_MS).unref());
  }

  /** The thread that became idle last, so that the others can end. */
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
    const isOutOfMemory = (cause as { code?: string }).code === "ERR_WORKER_OUT_OF_MEMORY";
    job?.reject(isOutOfMemory ? this.#options.tooLarge(cause) : this.#options.interrupted(cause));
  }
}

// Converts large bodies of OTLP metrics, and those that become much text, on threads, one after the other for each organisation, so that the
// event loop stays free. Invariants: at most two bodies and their text are in memory here, and 1 MiB of text of each small body that is being
// stored; a body that kills its thread fails alone.
import { Worker } from "node:worker_threads";
import { FairQueue, QueueFullError } from "../../../admission/fair-queue.ts";
import { ApiError, type ErrorCode } from "../../../errors.ts";
import { type ConvertedMetrics, convertMetrics, type MetricsTask } from "./convert-metrics.ts";

export type MetricsAnswer =
  | { readonly converted: ConvertedMetrics }
  | { readonly code: ErrorCode; readonly message: string }
  | { readonly failure: string };

/** Converting a smaller body takes a few milliseconds, about as long as handing it to a thread. */
const INLINE_BYTES = 128 * 1024;
/** The labels of a resource are repeated for each point: a small body that becomes more text is converted again, on a thread. */
const INLINE_TEXT_BYTES = 1024 * 1024;
const QUEUE = { running: 2, perOrg: 1, waitingPerOrg: 64 };
/** A thread keeps some 40 MiB. */
const IDLE_MS = 60_000;
/**
 * Twice what bodies of 32 MiB need: 192 MiB are enough for 192,000 points with two labels, and for two million attributes. A body of objects
 * that all have other keys needs more, and is refused as too large.
 */
const HEAP_MIB = 384;
const RETRY_AFTER_S = 5;

export class MetricsThreads implements AsyncDisposable {
  readonly #queue = new FairQueue(QUEUE);
  /** Each with what ends it: a timer, and an error while no body is there. */
  readonly #idle = new Map<Worker, { readonly timer: NodeJS.Timeout; readonly end: () => void }>();
  readonly #running = new Set<Worker>();

  /** Takes the body over, and calls `use` with its text. Throws as convertMetrics, `unstorable` and `unavailable`. */
  async convert<T>(orgId: string, task: MetricsTask, use: (converted: ConvertedMetrics) => Promise<T>): Promise<T> {
    const converted = convertInline(task);
    if (converted) return await use(converted);
    try {
      return await this.#queue.run(orgId, undefined, async () => await use(await this.#onThread(task)));
    } catch (error) {
      if (error instanceof QueueFullError) throw unavailable("too many bodies of metrics are waiting; send it again later", error);
      throw error;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#idle.keys(), ...this.#running].map((worker) => worker.terminate()));
  }

  async #onThread({ body, ...task }: MetricsTask): Promise<ConvertedMetrics> {
    const worker = this.#wake() ?? this.#spawn();
    this.#running.add(worker);
    const { promise, resolve, reject } = Promise.withResolvers<MetricsAnswer>();
    const lost = (cause: unknown): void => reject(whyLost(cause));
    worker.once("message", resolve).once("error", lost).once("exit", lost);
    // Bytes whose whole memory may be transferred; a slice of a pool is copied.
    const own = new Uint8Array(body);
    worker.postMessage({ ...task, body: own }, [own.buffer]);
    try {
      const answer = await promise;
      this.#rest(worker.off("error", lost).off("exit", lost));
      return readAnswer(answer);
    } finally {
      this.#running.delete(worker);
    }
  }

  #spawn(): Worker {
    return new Worker(new URL("./metrics-worker.ts", import.meta.url), {
      resourceLimits: { maxOldGenerationSizeMb: HEAP_MIB },
      env: {},
      execArgv: [],
    });
  }

  #rest(worker: Worker): void {
    worker.unref();
    const end = (): void => {
      if (this.#idle.delete(worker)) void worker.terminate();
    };
    // Without a listener, an error of an idle thread would end the process.
    worker.once("error", end);
    this.#idle.set(worker, { timer: setTimeout(end, IDLE_MS).unref(), end });
  }

  /** The one that rested last, so that others can end. */
  #wake(): Worker | undefined {
    const [worker, idle] = [...this.#idle].at(-1) ?? [];
    if (!worker || !idle) return undefined;
    clearTimeout(idle.timer);
    this.#idle.delete(worker);
    worker.off("error", idle.end).ref();
    return worker;
  }
}

/** Undefined for what is left to a thread. */
function convertInline(task: MetricsTask): ConvertedMetrics | undefined {
  if (task.body.byteLength > INLINE_BYTES) return undefined;
  try {
    return convertMetrics(task, INLINE_TEXT_BYTES);
  } catch (error) {
    if (error instanceof ApiError && error.code === "batch_too_large") return undefined;
    throw error;
  }
}

function readAnswer(answer: MetricsAnswer): ConvertedMetrics {
  if ("converted" in answer) return answer.converted;
  if ("code" in answer) throw new ApiError(answer.code, answer.message);
  // The same body would fail in the same way each time it is sent.
  const cause = new Error(answer.failure);
  throw new ApiError("unstorable", "the metrics cannot be converted; sending them again will not help", { cause });
}

function whyLost(cause: unknown): ApiError {
  if ((cause as { code?: string }).code === "ERR_WORKER_OUT_OF_MEMORY")
    return new ApiError("batch_too_large", "the metrics need too much memory once decoded: send smaller batches", { cause });
  return unavailable("converting the metrics was interrupted; try again", cause);
}

function unavailable(message: string, cause: unknown): ApiError {
  return new ApiError("unavailable", message, { cause, retryAfterS: RETRY_AFTER_S });
}

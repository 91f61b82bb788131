// Stores OTLP metrics: converts them to exposition text, which the exposition ingest validates and writes. Request bodies that are large or
// become much text are converted on threads, one after the other per organisation, so that the event loop stays free. Small requests of
// remote write, and those that the kernel accepts, are checked directly, others on the same threads. Invariants: at most two bodies with
// their text are in memory here, plus 1 MiB of text for each small body that is being stored; the text counts as memory of its request.
// Data points that cannot be stored are counted by reason. Exemplars are stored after all samples of the body. A body that fails halfway
// may be sent again, because a sample is stored once.
import { FairQueue } from "../../../admission/fair-queue.ts";
import { ApiError } from "../../../errors.ts";
import type { IngestSignal } from "../../ingest-handler.ts";
import { type JobError, ThreadPool, toApiError } from "../thread-pool.ts";
import { addExemplars, type ExemplarIngest } from "../../remote-write/exemplar-ingest.ts";
import { checkFast, type CheckedWrite, checkWrite, type WriteTask } from "../../remote-write/check-write.ts";
import { storeLimits } from "../../exposition/exposition-ingest.ts";
import { addCounts, requireNoFaults, requireUsable } from "../../record-faults.ts";
import { snappyLength } from "../../snappy.ts";
import { type ConvertedMetrics, convertMetrics, type MetricsTask } from "./convert-metrics.ts";

export type MetricsAnswer = { readonly converted: ConvertedMetrics } | { readonly checked: CheckedWrite } | JobError;

/** Converting a smaller body takes a few milliseconds, about as long as a transfer to a thread. */
const INLINE_BYTES = 128 * 1024;
/** The labels of a resource are repeated for each point. A small body that becomes more text is converted again, on a thread. */
const INLINE_TEXT_BYTES = 1024 * 1024;
/**
 * Checking a smaller remote write request takes a fraction of a millisecond. In 2.0, references repeat symbols, so the work grows with the
 * square of the size.
 */
const INLINE_WRITE_BYTES = { 1: 16 * 1024, 2: 2 * 1024 } as const;
/** The kernel checks a smaller request in less than a millisecond. */
const MAX_KERNEL_WRITE_BYTES = 512 * 1024;
const QUEUE = {
  running: 2,
  endsSoon: true,
  perOrg: 1,
  waitingPerOrg: 64,
  fullMessage: "too many metrics requests are waiting; send this one again later",
};
/**
 * Twice what bodies of 32 MiB need: 192 MiB are enough for 192,000 points with two labels, and for two million attributes. A body whose
 * objects all have different keys needs more, and is rejected as too large.
 */
const HEAP_MIB = 384;

/** `exposition`: stores one body of text. */
export function createOtlpMetricsIngest(
  threads: Pick<MetricsThreads, "convert">,
  exposition: IngestSignal,
  storeExemplars: ExemplarIngest,
  retentionMs: (orgId: string) => number,
): IngestSignal {
  return async (sender, body, { encoding, receivedAt, isTolerant, reservation }) => {
    const { oldestMs, newestMs } = storeLimits(receivedAt.getTime(), retentionMs(sender.orgId));
    return await threads.convert(
      sender.orgId,
      { body, keptTimes: { oldestMs, newestMs }, ...(encoding === "protobuf" && { encoding }) },
      async ({ texts, dropped, faults, exemplars }) => {
        if (!isTolerant) requireNoFaults(faults);
        reservation?.add(texts.reduce((sum, { byteLength }) => sum + byteLength, 0));
        const total = { accepted: 0, dropped, storedBytes: 0, activeSeries: 0 };
        for (const text of texts) {
          const stored = await exposition(sender, Buffer.from(text.buffer), { receivedAt });
          total.accepted += stored.accepted;
          total.storedBytes += text.byteLength;
          total.activeSeries = stored.activeSeries ?? 0;
          total.dropped = addCounts(total.dropped, stored.dropped);
        }
        const { activeSeries, ...rest } = total;
        const result = { ...rest, ...(activeSeries > 0 && { activeSeries }), ...(faults && { faults }) };
        requireUsable(result);
        return await addExemplars(storeExemplars, exemplars, result, { sender, receivedAt, reservation });
      },
    );
  };
}

export class MetricsThreads implements AsyncDisposable {
  readonly #queue = new FairQueue(QUEUE);
  readonly #pool = new ThreadPool({
    script: new URL("./metrics-worker.ts", import.meta.url),
    heapMib: HEAP_MIB,
    tooLarge: (cause) => new ApiError("batch_too_large", "the metrics need too much memory once decoded: send smaller batches", { cause }),
    interrupted: (cause) => new ApiError("unavailable", "converting the metrics was interrupted; try again", { cause, retryAfterS: 5 }),
  });

  /** Takes ownership of the body, and calls `use` with its text. Throws as convertMetrics, `unstorable` and `unavailable`. */
  async convert<T>(orgId: string, task: MetricsTask, use: (converted: ConvertedMetrics) => Promise<T>): Promise<T> {
    const converted = convertInline(task);
    if (converted) return await use(converted);
    return await this.#queue.run(orgId, undefined, async () => {
      // A copy is transferred to the thread, so that the caller's body stays valid.
      const onThread: MetricsTask = { ...task, body: new Uint8Array(task.body) };
      return await use(await this.#pool.run(onThread, readConverted));
    });
  }

  /** Takes ownership of the body. Throws as checkWrite, `unstorable` and `unavailable`. */
  async checkWrite(orgId: string, task: WriteTask): Promise<CheckedWrite> {
    const bytes = snappyLength(task.body);
    if (bytes <= INLINE_WRITE_BYTES[task.version]) return checkWrite(task);
    const isTried = bytes <= MAX_KERNEL_WRITE_BYTES;
    const fast = isTried ? checkFast(task) : undefined;
    if (fast) return fast;
    const onThread: WriteTask = { ...task, isTried };
    return await this.#queue.run(orgId, undefined, async () => await this.#pool.run(onThread, readChecked));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#pool[Symbol.asyncDispose]();
  }
}

/** Undefined if the body is left to a thread. */
function convertInline(task: MetricsTask): ConvertedMetrics | undefined {
  if (task.body.byteLength > INLINE_BYTES) return undefined;
  try {
    return convertMetrics(task, INLINE_TEXT_BYTES);
  } catch (error) {
    if (error instanceof ApiError && error.code === "batch_too_large") return undefined;
    throw error;
  }
}

function readConverted(answer: MetricsAnswer): ConvertedMetrics {
  if ("converted" in answer) return answer.converted;
  throw errorOf(answer);
}

function readChecked(answer: MetricsAnswer): CheckedWrite {
  if ("checked" in answer) return answer.checked;
  throw errorOf(answer);
}

function errorOf(answer: MetricsAnswer): ApiError {
  const error = "code" in answer || "failure" in answer ? answer : { failure: "the thread answered another question" };
  return toApiError(error, "the metrics cannot be converted; sending them again will not help");
}

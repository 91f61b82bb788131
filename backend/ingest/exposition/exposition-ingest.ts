// Stores one body of exposition text under the identity of the key that signed it. Invariant: either every line of the body was
// judged good and the whole body went to the engine, or nothing of it did. Large bodies take turns, by organisation: together they would
// hold the event loop and every place of the engine's for many seconds. So few of them are under way that others find a place, and enough
// that the engine has one to take while the next is judged.
import { ApiError } from "../../errors.ts";
import { FairQueue, QueueFullError } from "../../admission/fair-queue.ts";
import type { IngestSignal } from "../ingest-handler.ts";
import { checkExposition, ExpositionError, type ExpositionLimits, type ExpositionVerdict } from "./exposition.ts";
import type { ActiveSeries } from "../../storage/metrics/active-series.ts";
import type { MetricsStore } from "../../storage/metrics/store.ts";

export interface MetricsIngestOptions {
  /** The engine drops older samples, which are counted here. */
  readonly retentionMs: number;
  readonly activeSeries?: Pick<ActiveSeries, "admit">;
}

/** Judging and writing a body above this takes the engine and this process some hundredth of a second. */
const LARGE_BYTES = 1024 * 1024;
/** And above this a tenth to a good part of a second. */
const HUGE_BYTES = 4 * 1024 * 1024;
/**
 * On two cores the engine runs four inserts at once, and what comes meanwhile waits for the first that ends: some hundredths of a second.
 * What waits here is bounded in bytes by the budget for bodies as well. The two are apart, so that no huge body waits for many large ones.
 */
const LARGE_QUEUE = { running: 4, perOrg: 3, waitingPerOrg: 256 };
const HUGE_QUEUE = { running: 2, perOrg: 1, waitingPerOrg: 256 };
const RETRY_AFTER_S = 5;

/** The engine's defaults: 40 labels, less the three that the server adds. */
const LABEL_LIMITS = { maxLabels: 37, maxNameBytes: 256, maxValueBytes: 4096 };
/** The engine's default and least `-futureRetention`. */
const FUTURE_MS = 2 * 86_400_000;

/**
 * `body` is corrected in place, see exposition.ts. Throws ApiError `invalid_payload` naming the first bad line, with nothing stored;
 * `over_quota` over the limit of active series; `storage_unavailable` and `unstorable` as the store does.
 */
export function createExpositionIngest(store: MetricsStore, { retentionMs, activeSeries }: MetricsIngestOptions): IngestSignal {
  const largeQueue = new FairQueue(LARGE_QUEUE);
  const hugeQueue = new FairQueue(HUGE_QUEUE);
  const ingest: IngestSignal = async (key, body, { receivedAt }) => {
    const now = receivedAt.getTime();
    const verdict = await judge(body, { ...LABEL_LIMITS, oldestMs: now - retentionMs, newestMs: now + FUTURE_MS });
    if (verdict.accepted === 0) return verdict;
    const active = await activeSeries?.admit(key, body);
    await store.write(key, body, now);
    return active === undefined ? verdict : { ...verdict, activeSeries: active };
  };
  return async function ingestMetrics(key, body, context) {
    if (body.byteLength <= LARGE_BYTES) return await ingest(key, body, context);
    const queue = body.byteLength > HUGE_BYTES ? hugeQueue : largeQueue;
    return await queue
      .run(key.orgId, undefined, () => ingest(key, body, context))
      .catch((error: unknown) => {
        if (!(error instanceof QueueFullError)) throw error;
        const message = "too many large bodies of this organisation wait to be stored; send it again later";
        throw new ApiError("unavailable", message, { cause: error, retryAfterS: RETRY_AFTER_S });
      });
  };
}

async function judge(body: Buffer, limits: ExpositionLimits): Promise<ExpositionVerdict> {
  try {
    return await checkExposition(body, limits);
  } catch (error) {
    if (!(error instanceof ExpositionError)) throw error;
    throw new ApiError("invalid_payload", `not Prometheus exposition text, nothing was stored: ${error.message}`, { cause: error });
  }
}

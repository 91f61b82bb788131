// Stores one request body of exposition text under the identity of the key that signed it. Invariant: the whole body is written to the engine if
// every line is valid, otherwise nothing is. Large bodies pass a fair queue between organisations, because together they would block the
// event loop and all insert slots of the engine for many seconds. The queue is short enough that small bodies find a slot, and long enough
// that the engine writes one body while the next is validated.
import { ApiError } from "../../errors.ts";
import { FairQueue } from "../../admission/fair-queue.ts";
import type { IngestSignal } from "../ingest-handler.ts";
import { type ExpositionCounts, ExpositionError, validateExposition, withPrefixes } from "./exposition.ts";
import type { SeriesLimits } from "./plain-lines.ts";
import type { ActiveSeries } from "../../storage/metrics/active-series.ts";
import type { MetricsStore } from "../../storage/metrics/metric-store.ts";
import { MAX_SERIES_LABEL_BYTES } from "../ingest-limits.ts";

export interface MetricsIngestOptions {
  /** Samples that are older than the organisation's retention are dropped and counted. */
  readonly retentionMs: (orgId: string) => number;
  readonly activeSeries?: Pick<ActiveSeries, "admit">;
}

/** Validating and writing a larger body takes about 10 ms of this process and of the engine. */
const LARGE_BYTES = 1024 * 1024;
/** Validating and writing a larger body takes 100 ms or more. */
const HUGE_BYTES = 4 * 1024 * 1024;
/**
 * On two cores the engine runs four inserts at once; further ones wait about 10 ms for a slot. The memory budget for bodies also limits the
 * bytes that wait here. There are two queues, so that a huge body does not wait for many large ones.
 */
const WAITING = {
  endsSoon: true,
  waitingPerOrg: 256,
  fullMessage: "too many large bodies of this organisation wait to be stored; send it again later",
};
export const LARGE_QUEUE = { ...WAITING, running: 4, perOrg: 3 };
const HUGE_QUEUE = { ...WAITING, running: 2, perOrg: 1 };

/**
 * Corrects `body` in place, see exposition.ts. Throws ApiError `invalid_payload` that names the first bad line, with nothing stored;
 * `over_quota` if the limit of active series is exceeded; `storage_unavailable` and `unstorable` as the store does.
 */
export function createExpositionIngest(store: MetricsStore, { retentionMs, activeSeries }: MetricsIngestOptions): IngestSignal {
  const largeQueue = new FairQueue(LARGE_QUEUE);
  const hugeQueue = new FairQueue(HUGE_QUEUE);
  const ingest: IngestSignal = async (key, body, { receivedAt }) => {
    const now = receivedAt.getTime();
    const { renames, ...counts } = await validate(body, storeLimits(now, retentionMs(key.orgId)));
    if (counts.accepted === 0) return counts;
    const text = renames ? withPrefixes(body, renames) : body;
    const active = await activeSeries?.admit(key, text);
    await store.write(key, text, now);
    return active === undefined ? counts : { ...counts, activeSeries: active };
  };
  return async function ingestMetrics(key, body, context) {
    if (body.byteLength <= LARGE_BYTES) return await ingest(key, body, context);
    const queue = body.byteLength > HUGE_BYTES ? hugeQueue : largeQueue;
    return await queue.run(key.orgId, undefined, () => ingest(key, body, context));
  };
}

async function validate(body: Buffer, limits: SeriesLimits): Promise<ExpositionCounts> {
  try {
    return await validateExposition(body, limits);
  } catch (error) {
    if (!(error instanceof ExpositionError)) throw error;
    throw new ApiError("invalid_payload", `not Prometheus exposition text, nothing was stored: ${error.message}`, { cause: error });
  }
}

/** The defaults of VictoriaMetrics, which silently drops samples beyond them: 40 labels, minus the three that this server adds. */
const LABEL_LIMITS = { maxLabels: 37, maxNameBytes: 256, maxValueBytes: 4096, maxLabelBytes: MAX_SERIES_LABEL_BYTES };
/** The default and minimum of the engine's `-futureRetention`. */
const FUTURE_MS = 2 * 86_400_000;

/** The limits of a body that arrived at `receivedAtMs`. */
export function storeLimits(receivedAtMs: number, retentionMs: number): SeriesLimits {
  return { ...LABEL_LIMITS, oldestMs: receivedAtMs - retentionMs, newestMs: receivedAtMs + FUTURE_MS };
}

// Stores one body of exposition text under the identity of the key that signed it. Invariant: either every line of the body was
// judged good and the whole body went to the engine, or nothing of it did. Called by ingest/door.ts with the decompressed body.
import { ApiError } from "../errors.ts";
import type { IngestSignal } from "../ingest/door.ts";
import { checkExposition, ExpositionError, type ExpositionLimits, type ExpositionVerdict } from "./exposition.ts";
import type { MetricsStore } from "./store.ts";

export interface MetricsIngestOptions {
  /** As `METRICS_RETENTION`; the engine drops older samples, which are counted here. */
  readonly retention: string;
}

/** The engine's defaults: 40 labels, less the three that the server adds. */
const LABEL_LIMITS = { maxLabels: 37, maxNameBytes: 256, maxValueBytes: 4096 };
/** The engine's default and least `-futureRetention`. */
const FUTURE_MS = 2 * 86_400_000;

/**
 * `body` is corrected in place, see exposition.ts. Throws ApiError `invalid_payload` naming the first bad line, with nothing stored;
 * `storage_unavailable` and `unstorable` as the store does.
 */
export function createMetricsIngest(store: MetricsStore, options: MetricsIngestOptions = { retention: "30d" }): IngestSignal {
  const retentionMs = parseRetention(options.retention);
  return async function ingestMetrics(key, body, { receivedAt }) {
    const now = receivedAt.getTime();
    const verdict = await judge(body, { ...LABEL_LIMITS, oldestMs: now - retentionMs, newestMs: now + FUTURE_MS });
    if (verdict.accepted > 0) await store.write(key, body, now);
    return verdict;
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

const RETENTION_UNITS_MS: Record<string, number> = {
  h: 3_600_000,
  d: 86_400_000,
  w: 7 * 86_400_000,
  M: 31 * 86_400_000,
  y: 365 * 86_400_000,
  "": 31 * 86_400_000,
};

/** `-retentionPeriod` of VictoriaMetrics in milliseconds: a number with h, d, w, M or y; without a unit, months of 31 days. */
export function parseRetention(text: string): number {
  const match = /^(\d+(?:\.\d+)?)([hdwMy]?)$/.exec(text);
  if (!match) throw new Error(`METRICS_RETENTION: "${text}" is not a retention such as 30d, 8w or 1y`);
  return Number(match[1]) * (RETENTION_UNITS_MS[match[2] ?? ""] ?? 0);
}

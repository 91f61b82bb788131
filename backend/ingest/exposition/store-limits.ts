// What the metrics engine stores, by its defaults; what exceeds it is counted here, because the engine drops it without a word.

/** The engine's defaults: 40 labels, less the three that the server adds. */
const LABEL_LIMITS = { maxLabels: 37, maxNameBytes: 256, maxValueBytes: 4096 };
/** The engine's default and least `-futureRetention`. */
const FUTURE_MS = 2 * 86_400_000;

/** The limits of a body that arrived at `receivedAtMs`. */
export function storeLimits(receivedAtMs: number, retentionMs: number) {
  return { ...LABEL_LIMITS, oldestMs: receivedAtMs - retentionMs, newestMs: receivedAtMs + FUTURE_MS };
}

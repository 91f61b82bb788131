// What the metrics engine stores, by its defaults; what exceeds it is counted here, because the engine drops it without a word.

/** The engine's defaults: 40 labels, less the three that the server adds. */
export const LABEL_LIMITS = { maxLabels: 37, maxNameBytes: 256, maxValueBytes: 4096 };
/** The engine's default and least `-futureRetention`. */
export const FUTURE_MS = 2 * 86_400_000;

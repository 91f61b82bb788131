// The limits of common/otlp-metrics/. docs/reference/limits.md is generated from this file: each limit has one sentence, and its unit is in
// its name.

// histogram-buckets.ts
/** Wider histograms are made coarser until they fit: each bucket is a series. */
export const MAX_BUCKETS = 160;

// metric-lines.ts
/** VictoriaMetrics drops samples with a name over 256 bytes. */
export const MAX_METRIC_NAME_LENGTH = 240;
/** Converted names that are cached; the cache is emptied when it is full, because applications may create names without end. */
export const MAX_CACHED_NAMES = 20_000;
/** A longer name, or attribute key, is not cached, nor one whose unit makes it longer: most do not fit into the store anyway. */
export const MAX_CACHED_LENGTH = 1024;

// document.ts
/** Objects of a JSON body, which take about 400 MB; the largest batch of the collector has less than a million. */
export const MAX_JSON_OBJECTS = 3_000_000;

/** Different keys of the objects of a JSON body, about: OTLP has some fifty, and millions would take a thread many seconds. */
export const MAX_JSON_KEYS = 20_000;

// converter.ts
/** Requests made from one body: labels of a resource are repeated for each point, so a small body can become much text. */
export const MAX_REQUESTS_PER_BODY = 8;

// prometheus-names.ts
/** VictoriaMetrics drops samples with a label name over 256 bytes. */
export const MAX_LABEL_NAME_LENGTH = 240;
/** VictoriaMetrics never finds a series whose labels together exceed 64 KiB; with 35 labels of this length they do not. */
export const MAX_LABEL_VALUE_BYTES = 1024;

// series-labels.ts
/** VictoriaMetrics drops a sample with more than 40 labels; the name, three labels of the backend, and `le` or `quantile` are five. */
export const MAX_LABELS = 35;
/** Attribute names whose label names are cached. */
export const MAX_CACHED_KEYS = 10_000;

// The limits of common/otlp-metrics/. docs/reference/limits.md is generated from this file: each limit has one sentence, and its unit is in
// its name.

// histogram-buckets.ts
/** Buckets of an exponential histogram. Wider ones are made coarser until they fit: each bucket is a series. */
export const MAX_BUCKETS = 160;

// metric-lines.ts
/** Length of the Prometheus name of a metric of OTLP; a metric with a longer one is dropped. */
export const MAX_METRIC_NAME_LENGTH = 240;
/** Converted names that are cached; the cache is emptied when it is full, because applications may create names without end. */
export const MAX_CACHED_NAMES = 20_000;
/** Length of a metric name (with its unit) or of an attribute key that is cached; most longer ones are too long to be stored anyway. */
export const MAX_CACHED_LENGTH = 1024;

// document.ts
/** Objects and lists of a JSON body, which take about 200 MB. */
export const MAX_JSON_OBJECTS = 1_500_000;

/** Approximate number of different keys in a JSON body: OTLP has about fifty, and millions would occupy a thread for many seconds. */
export const MAX_JSON_KEYS = 20_000;

// converter.ts
/** Requests made from one body: labels of a resource are repeated for each point, so a small body can become much text. */
export const MAX_REQUESTS_PER_BODY = 8;

// prometheus-names.ts
/** Length of a label name; longer ones are cut. VictoriaMetrics drops samples with a label name of more than 256 bytes. */
export const MAX_LABEL_NAME_LENGTH = 240;
/**
 * Size of a label value; longer ones are cut. VictoriaMetrics never finds a series whose labels exceed 64 KiB in total; 35 labels of this size
 * do not.
 */
export const MAX_LABEL_VALUE_BYTES = 1024;

// series-labels.ts
/**
 * Labels of a sample; labels of the resource that do not fit are left out, and a point with more labels of its own is dropped. VictoriaMetrics
 * allows 40; the metric name, three labels of the backend, and `le` or `quantile` are the other five.
 */
export const MAX_LABELS = 35;
/** Attribute names whose label names are cached. */
export const MAX_CACHED_KEYS = 10_000;

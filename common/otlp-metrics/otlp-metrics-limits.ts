// The limits of common/otlp-metrics/. docs/reference/limits.md is generated from this file: each limit has one sentence, and its unit is in
// its name.

/** Buckets of an exponential histogram; wider ones are made coarser until they fit. */
export const MAX_BUCKETS = 160;
/** Length of the Prometheus name of a metric of OTLP; a metric with a longer one is dropped. */
export const MAX_METRIC_NAME_LENGTH = 240;
/** @internal Converted names that are cached; the cache is emptied when it is full, because applications may create names without end. */
export const MAX_CACHED_NAMES = 20_000;
/**
 * @internal Length of a metric name (with its unit) or of an attribute key that is cached; most longer ones are too long to be stored
 * anyway.
 */
export const MAX_CACHED_LENGTH = 1024;
/** @internal Objects and lists of a JSON body of metrics. */
export const MAX_JSON_OBJECTS = 1_500_000;
/** @internal Approximate number of different keys in such a body. */
export const MAX_JSON_KEYS = 20_000;
/** @internal Requests made from one body: labels of a resource are repeated for each point, so a small body can become much text. */
export const MAX_REQUESTS_PER_BODY = 8;
/** Length of a label name that is made from an OTLP attribute; longer ones are cut. */
export const MAX_LABEL_NAME_LENGTH = 240;
/** Size of such a label's value; longer ones are cut, and end with a hash of the whole value. */
export const MAX_LABEL_VALUE_BYTES = 1024;
/**
 * Labels of a sample from OTLP, without `le` and `quantile`; labels of the resource that do not fit are left out, and a point with more
 * labels of its own is dropped.
 */
export const MAX_LABELS = 35;
/** @internal Attribute names whose label names are cached. */
export const MAX_CACHED_KEYS = 10_000;

// The limits of backend/storage/. docs/reference/limits.md is generated from this file: each limit has one sentence, and its unit is in its
// name.

// found-page.ts
/** Approximate size of a page of log records or spans. */
export const MAX_PAGE_BYTES = 16 * 1024 * 1024;

// logs/counts.ts
/** @internal Levels that are counted by name; rarer ones are counted together. */
export const MAX_LEVELS = 20;
/** @internal Characters of the name or value of a field; fields with longer names are not counted, and longer values are cut. */
export const MAX_COUNTED_NAME_CHARACTERS = 256;
/** @internal Fields in one response. */
export const MAX_COUNTED_FIELDS = 200;
/** @internal Values of one field in one response. */
export const MAX_COUNTED_VALUES = 20;

// logs/group-counts.ts
/** @internal Characters of a group's value in counts of log records; longer values are cut. */
export const MAX_GROUP_VALUE_CHARACTERS = 256;

// logs/message-patterns.ts
/**
 * @internal Approximate number of records from which patterns of messages are found; if more match, evenly spread parts of the range are
 * read.
 */
export const MAX_PATTERN_SAMPLE_RECORDS = 20_000;
/** @internal Characters of a message's first line that take part in its pattern. */
export const MAX_PATTERN_LINE_CHARACTERS = 300;
/** @internal Patterns of messages in one response. */
export const MAX_MESSAGE_PATTERNS = 300;

// logs/minute-counts.ts
/** @internal Incomplete minutes that one query counts record by record. */
export const MAX_CUT_MINUTES = 600;

// logs/pattern.ts
/** @internal Characters of all regular expressions in the parameters of a log query. */
export const MAX_PATTERN_CHARACTERS = 1000;
/**
 * @internal Parts of all these expressions that match several characters or are repeated, each as often as it is repeated; `\p{L}` counts
 * as 50.
 */
export const MAX_PATTERN_STEPS = 50;
/**
 * @internal Characters, classes and groups of one regular expression, each as often as it is repeated; each further one counts as a
 * repetition.
 */
export const MAX_PATTERN_PARTS = 2000;
/** @internal Largest n and m of a repetition `{n,m}` in a regular expression; the engine's own limit. */
export const MAX_PATTERN_REPEATS = 1000;

// logs/tail.ts
/** Live tails of one organisation, at each of the two routes for tails. */
export const MAX_TAILS_PER_ORG = 8;
/** Live tails of all organisations, at each of these routes. */
export const MAX_TAILS = 128;
/** Delay of a tail; one that falls further behind skips records. */
export const MAX_TAIL_LAG_MS = 5 * 60_000;
/** Age of a record in a tail; older ones are left out. */
export const MAX_TAIL_RECORD_AGE_MS = 60 * 60_000;
/** @internal Records that a tail reads at a time. */
export const MAX_TAIL_ROWS = 500;
/** @internal Size of the records that a tail reads at a time. */
export const MAX_TAIL_BYTES = 512 * 1024;
/** @internal Sent records that a tail remembers, so that it does not repeat them. */
export const MAX_TAIL_REMEMBERED = 5000;

// logs/words.ts
/** @internal Words of the text of `q` or `|=` that are looked up in the index: the longest, which are the rarest. */
export const MAX_INDEX_WORDS = 4;

// metrics/active-series.ts
/** @internal Organisations without recent samples whose series are remembered. */
export const MAX_REMEMBERED_ORGS = 10_000;

// metrics/query-cost.ts
/** @internal Estimated values per series that the subqueries of a metrics query compute. */
export const MAX_SUBQUERY_VALUES = 50_000_000;
/** @internal Calls of `ru` and `ttf` in a metrics query. */
export const MAX_DOUBLING = 4;
/** @internal Nesting of subqueries in a metrics query. */
export const MAX_METRIC_QUERY_DEPTH = 100;

// metrics/metric-store.ts
/** @internal Concurrent metric queries; the default of `METRICS_QUERY_SLOTS`. */
export const MAX_METRIC_QUERIES = 3;
/** @internal Concurrent metric queries of one organisation; `METRICS_QUERY_SLOTS` describes when there are more or fewer. */
export const DEFAULT_METRIC_QUERIES_PER_ORG = 2;
/** Metrics queries of one organisation that wait; further ones are refused. */
export const MAX_WAITING_METRIC_QUERIES_PER_ORG = 64;
/** @internal Size of all `match[]` of one request. */
export const MAX_SELECTOR_BYTES = 64 * 1024;
/** Size of one response of the metrics engine. */
export const MAX_METRIC_ANSWER_BYTES = 64 * 1024 * 1024;
/** @internal Size of a response of the metrics engine that the backend parses, not only forwards. */
export const MAX_PARSED_ANSWER_BYTES = 16 * 1024 * 1024;

// page.ts
/** Log records, spans or traces of one page of the native API. */
export const MAX_LIMIT = 500;

// traces/operation-points.ts
/** @internal Characters of names of services, sources and operations in a comparison of two ranges; senders may send longer ones. */
export const MAX_COMPARED_NAME_CHARACTERS = 256;
/** @internal Operations that a comparison of two ranges reads, of entry and of client spans each, those with most calls first. */
export const MAX_COMPARED_OPERATIONS = 500;

// traces/jaeger-spans.ts
/** @internal Services of one trace in one response of the Jaeger API. */
export const MAX_SERVICES_PER_TRACE = 1_000;
/** @internal Size of the trace summaries in one response. */
export const MAX_SUMMARY_BYTES = 4 * 1024 * 1024;
/** @internal Size of the spans that a Jaeger search returns; if they are larger, it returns one span of each trace. */
export const MAX_JAEGER_PAGE_BYTES = 16 * 1024 * 1024;

// traces/search.ts
/** @internal Size of one page of a search for traces. */
export const MAX_SEARCH_PAGE_BYTES = 16 * 1024 * 1024;
/** @internal Services of one trace in a search. */
export const MAX_LISTED_SERVICES = 100;

// traces/span-fields.ts
/** @internal JSON of the events of one span, and of its links; if it is larger, all of them are left out. */
export const MAX_SPAN_JSON_BYTES = 4 * 1024 * 1024;

// traces/span-operations.ts
/** Approximate number of operations of one organisation that are listed; 1,000 of them are reserved for the first one of each service. */
export const MAX_OPERATIONS_PER_ORG = 10_000;
/** Approximate number of operations of one service that are listed. */
export const MAX_OPERATIONS_PER_SERVICE = 1_000;
/** Approximate number of services of one organisation that are listed. */
export const MAX_SERVICES_PER_ORG = 1_000;
/** @internal Operations of all organisations in memory, about 60 bytes each. */
export const MAX_REMEMBERED_OPERATIONS = 300_000;

// write-path/journaled-commit.ts
/**
 * @internal Size of the rows of one body that go through the journal; larger ones get their own insert, because the journal would write
 * them twice.
 */
export const MAX_JOURNALED_BYTES = 1024 * 1024;
/** @internal Size of the rows of a table that are not in the engine yet: three inserts, running, queued and filling. */
export const MAX_PENDING_BYTES = 48 * 1024 * 1024;
/** @internal Pending bytes of an organisation are at most this many times the free bytes: three quarters of the limit if it is alone. */
export const MAX_SHARE_OF_FREE = 3;

// write-path/stored-days.ts
/** @internal Keys of one statement, far below the engine's limit of 256 KiB. */
export const MAX_KEYS_PER_STATEMENT = 2000;

// traces/operations-of.ts
/** @internal Size of the name of a service or an operation; longer ones are not listed. */
export const MAX_OPERATION_NAME_BYTES = 512;
/** @internal Operations that are listed from one body; the others are seen in later bodies. */
export const MAX_OPERATIONS_PER_BODY = 2_000;

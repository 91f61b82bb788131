// The limits of backend/storage/. docs/reference/limits.md is generated from this file: each limit has one sentence, and its unit is in its
// name.

// found-page.ts
/** A page ends with the row that reaches this. */
export const MAX_PAGE_BYTES = 16 * 1024 * 1024;

// logs/counts.ts
/** Levels that are counted by name; rarer ones are counted together. */
export const MAX_LEVELS = 20;
/** Fields with longer names are not counted, and longer values are cut. */
export const MAX_COUNTED_NAME_CHARACTERS = 256;
/** Fields of an answer. */
export const MAX_COUNTED_FIELDS = 200;
/** Values of one field in an answer. */
export const MAX_COUNTED_VALUES = 20;

// logs/group-counts.ts
/** Longer values of a group are cut. */
export const MAX_GROUP_VALUE_CHARACTERS = 256;

// logs/message-patterns.ts
/** Records from which patterns of messages are found; of more, evenly spread stretches of time are sampled. */
export const MAX_PATTERN_SAMPLE_RECORDS = 20_000;
/** Characters of a message's first line that take part in its pattern. */
export const MAX_PATTERN_LINE_CHARACTERS = 300;
/** Most frequent texts of a sample that become patterns. */
export const MAX_MESSAGE_PATTERNS = 300;

// logs/minute-counts.ts
/** Incomplete minutes that are counted one by one. */
export const MAX_CUT_MINUTES = 600;

// logs/pattern.ts
/** Characters of all expressions of a query. */
export const MAX_PATTERN_CHARACTERS = 1000;
/** Classes and repetitions of all expressions, each as often as it is repeated. */
export const MAX_PATTERN_STEPS = 50;
/** Instructions of a compiled expression; RE2JS takes about 4 µs for each. */
export const MAX_PATTERN_PARTS = 2000;
/** The engine's own limit. */
export const MAX_PATTERN_REPEATS = 1000;

// logs/tail.ts
/** Live tails of one organisation. */
export const MAX_TAILS_PER_ORG = 8;
/** Live tails of all organisations. */
export const MAX_TAILS = 128;
/** A tail that falls further behind skips records. */
export const MAX_TAIL_LAG_MS = 5 * 60_000;
/** Older records are not shown in a tail, so that an agent that was away for hours does not flood it. */
export const MAX_TAIL_RECORD_AGE_MS = 60 * 60_000;
/** Records of one answer of a tail. */
export const MAX_TAIL_ROWS = 500;
/** Text of one answer of a tail. */
export const MAX_TAIL_BYTES = 512 * 1024;
/** Sent records that a tail remembers, so that it does not repeat them. */
export const MAX_TAIL_REMEMBERED = 5000;

// logs/words.ts
/** Words of a search that use the index; the longest are the rarest. */
export const MAX_INDEX_WORDS = 4;

// metrics/active-series.ts
/** Organisations without recent samples whose series are remembered. */
export const MAX_REMEMBERED_ORGS = 10_000;

// metrics/query-cost.ts
/** Values that subqueries pass to their functions per series, over all points. */
export const MAX_SUBQUERY_VALUES = 50_000_000;
/** Nested functions that write their argument twice: each level doubles the expression. */
export const MAX_DOUBLING = 4;
/** Nesting of a metrics query, which is a recursion here and a loop in the engine. */
export const MAX_METRIC_QUERY_DEPTH = 100;
/** The engine's own limit. */
export const MAX_METRIC_QUERY_BYTES = 16 * 1024;

// metrics/store.ts
/** Concurrent queries of metrics. */
export const MAX_METRIC_QUERIES = 3;
/** Concurrent queries of metrics of one organisation. */
export const DEFAULT_METRIC_QUERIES_PER_ORG = 2;
/** Queries that wait; a dashboard asks for all its panels at once. */
export const MAX_WAITING_METRIC_QUERIES_PER_ORG = 64;
/** All `match[]` of one request. */
export const MAX_SELECTOR_BYTES = 64 * 1024;
/** One answer of the metrics engine. */
export const MAX_METRIC_ANSWER_BYTES = 64 * 1024 * 1024;

// page.ts
/** Rows of one page. */
export const MAX_LIMIT = 500;

// traces/jaeger-spans.ts
/** Services of one trace in an answer of the Jaeger API. */
export const MAX_SERVICES_PER_TRACE = 1_000;
/** Summaries of the traces of one answer. */
export const MAX_SUMMARY_BYTES = 4 * 1024 * 1024;
/** One answer of the Jaeger API. */
export const MAX_JAEGER_PAGE_BYTES = 16 * 1024 * 1024;

// traces/search.ts
/** One page of a search for traces. */
export const MAX_SEARCH_PAGE_BYTES = 16 * 1024 * 1024;
/** Services of one trace in a search. */
export const MAX_LISTED_SERVICES = 100;

// traces/span-fields.ts
/** Attributes of one span; parsed JSON takes about twenty times its bytes, and a query may take 400 MB. */
export const MAX_SPAN_JSON_BYTES = 4 * 1024 * 1024;

// traces/span-operations.ts
/** Operations of one organisation; the first operation of a service is always kept. */
export const MAX_OPERATIONS_PER_ORG = 10_000;
/** Operations of one service. */
export const MAX_OPERATIONS_PER_SERVICE = 1_000;
/** Services of one organisation that are listed. */
export const MAX_SERVICES_PER_ORG = 1_000;
/** Operations of all organisations in memory, about 60 bytes each. */
export const MAX_REMEMBERED_OPERATIONS = 300_000;

// write-path/journaled-commit.ts
/** Larger rows get their own insert, because the journal would write them twice. */
export const MAX_JOURNALED_BYTES = 1024 * 1024;
/** Rows per table that are not in the engine yet: three inserts, running, queued and filling. */
export const MAX_PENDING_BYTES = 48 * 1024 * 1024;
/** Pending bytes of an organisation are at most this many times the free bytes: three quarters of the limit if it is alone. */
export const MAX_SHARE_OF_FREE = 3;

// write-path/stored-days.ts
/** Keys of one statement, far below the engine's limit of 256 KiB. */
export const MAX_KEYS_PER_STATEMENT = 2000;

// The limits of backend/query/. docs/reference/limits.md is generated from this file: each limit has one sentence, and its unit is in its
// name.

// jaeger/jaeger-parameters.ts
/** Traces of one search over the Jaeger API. */
export const MAX_TRACES = 500;

// prometheus/exemplars-route.ts
/** Size of an expression of query_exemplars. */
export const MAX_EXEMPLAR_QUERY_BYTES = 16 * 1024;
/** Selectors of an expression of query_exemplars. */
export const MAX_EXEMPLAR_SELECTORS = 20;

// loki/cell-statement.ts
/** Cells (series × window) of one statement. */
export const MAX_CELLS = 200_000;
/** Windows that count one record, if each window is its own cell. */
export const MAX_WINDOWS_PER_RECORD = 16n;

// loki/label-queries.ts
/** Longer values are no suggestions. */
export const MAX_DETECTED_VALUE_LENGTH = 1024;
/** Labels or values of one answer. */
export const MAX_LABEL_VALUES = 10_000;
/** Text of one answer with labels. */
export const MAX_LABEL_ANSWER_BYTES = 16 * 1024 * 1024;

// loki/evaluate.ts
/** Series of one answer; Loki's default. */
export const MAX_ANSWERED_SERIES = 500;
/** Characters of labels that label_replace creates, which are kept as long as the query runs. */
export const MAX_REPLACED_LABEL_CHARACTERS = 8 * 1024 * 1024;
/** One answer of the Loki API. */
export const MAX_LOKI_ANSWER_BYTES = 16 * 1024 * 1024;

// loki/label-sql.ts
/** A query that names more labels is evaluated record by record. */
export const MAX_LABEL_NAMES = 50;
/** A label with more spellings is evaluated record by record. */
export const MAX_LABEL_KEYS = 100;
/** The answer that lists the spellings of the labels of a query. */
export const MAX_LABEL_CONDITION_BYTES = 1024 * 1024;

// loki/endpoints.ts
/** Series of an answer with volumes. */
export const MAX_VOLUMES = 5000;
/** Points of an answer of `index/volume_range`: steps times series. */
export const MAX_VOLUME_POINTS = 200_000;

// loki/grammar.ts
/** Digits of a number in a query; BigInt is slow for very many. */
export const MAX_NUMBER_DIGITS = 100;
/** Characters of a LogQL query. */
export const MAX_QUERY_CHARACTERS = 20_000;
/** Nesting of a LogQL query. */
export const MAX_QUERY_DEPTH = 400;

// loki/pipeline.ts
/** Label sets whose match is remembered. */
export const MAX_REMEMBERED_LABELS = 10_000;

// loki/parameters.ts
/** Log entries of one answer. */
export const MAX_ENTRIES = 5000;
/** Steps of a range query; Loki's default. */
export const MAX_RANGE_STEPS = 11_000;

// loki/line-sql.ts
/** Lines from which SQL reads labels by json and logfmt; longer ones are read record by record. */
export const MAX_SQL_LINE_BYTES = 4 * 1024;
/** Different labels that SQL reads of a line. A logfmt expression reads 7 MiB per second, and the time limit is only checked between blocks. */
export const MAX_SQL_LINE_LABELS = 6;
/** Lines per block while SQL reads labels of them; the time limit is checked between blocks. */
export const LINE_BLOCK_ROWS = 256;

// loki/parsers.ts
/** Nesting of JSON in a line. */
export const MAX_JSON_DEPTH = 100;

// loki/points.ts
/** Series of all range aggregations of a query, by the memory that they need. */
export const MAX_QUERY_SERIES = 20_000;
/** Points of all range aggregations of a query. */
export const MAX_QUERY_POINTS = 5_000_000;

// loki/range-points.ts
/** Cells that the engine returns for one query. */
export const MAX_CELL_BYTES = 32 * 1024 * 1024;

// loki/regex.ts
/** Characters that the stages of a query process per record: 0.3 s for the slowest functions. */
export const MAX_STAGE_CHARACTERS = 32 * 1024 * 1024;
/** Longest line or attribute that stages read; by default Loki accepts no longer lines. */
export const MAX_STAGE_TEXT_CHARACTERS = 256 * 1024;
/** Characters of all expressions of a query, lists of plain values excepted. */
export const MAX_REGEX_CHARACTERS = 2000;
/** Repetitions and classes of all expressions of a query. */
export const MAX_REGEX_STEPS = 100;
/** Time of all expressions for one record. */
export const MAX_REGEX_MS_PER_RECORD = 1000;
/** Estimated time of one expression for one text, for automata that do not fit into their memory. */
export const MAX_REGEX_MS_PER_TEXT = 500;
/** Compiled expressions that are cached; each remembers the texts that it matched. */
export const MAX_CACHED_EXPRESSIONS = 8;

// loki/template-functions.ts
/** Characters that a template writes. */
export const MAX_TEMPLATE_CHARACTERS = 1024 * 1024;

// loki/template-values.ts
/** Number.toFixed writes no more. */
export const MAX_DECIMALS = 100;
/** BigInt is slow for very many digits. */
export const MAX_INTEGER_DIGITS = 100;
/** Characters of a printf verb. */
export const MAX_VERB_WIDTH = 10_000;

// loki/template.ts
/** Nesting of brackets and ifs, which are parsed and run by recursion. */
export const MAX_TEMPLATE_DEPTH = 100;

// native/log-counts-routes.ts
/** Buckets of a histogram of log records. */
export const MAX_BUCKETS = 500;

// native/log-filter-parameters.ts
/** Words of a full-text search: each is searched in every message. */
export const MAX_SEARCH_WORDS = 50;

// prometheus/metadata-route.ts
/** Names of metrics that an answer of metadata is derived from. */
export const MAX_METADATA_NAMES = 10_000;
/** Text of these names; with more of it, metadata is empty. */
export const MAX_METADATA_BYTES = 1024 * 1024;

// prometheus/routes.ts
/** Longest `timeout` of a metrics query. */
export const MAX_QUERY_TIMEOUT_MS = 30_000;
/** Body of a query that is sent as a form. */
export const MAX_FORM_BYTES = 256 * 1024;
/** Characters of the name of a label in a path. */
export const MAX_LABEL_LENGTH = 256;

// sandbox/sandbox-process.ts
/** Characters of a sandbox process's errors that are logged. */
export const MAX_STDERR_CHARACTERS = 4000;

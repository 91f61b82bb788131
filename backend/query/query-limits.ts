// The limits of backend/query/. docs/reference/limits.md is generated from this file: each limit has one sentence, and its unit is in its
// name.

// changes/changes-route.ts
/** Changes in one response. */
export const MAX_CHANGES = 100;
/** Hours of a range whose changes are listed. */
export const MAX_CHANGES_HOURS = 24;
/** Minutes of the shortest such range. */
export const MIN_CHANGES_MINUTES = 10;
/** @internal Time of each part of a comparison, such as traces, logs and metrics. */
export const MAX_CHANGES_PART_MS = 10_000;

// changes/metric-changes.ts
/** @internal Series of one state, such as restarted containers, that a comparison reports. */
export const MAX_CHANGED_SERIES = 20;

// changes/trace-changes.ts
/** @internal Entry spans from which the versions of services are read; if there are more, evenly spread periods are sampled. */
export const MAX_VERSION_SPANS = 100_000;

// jaeger/jaeger-parameters.ts
/** Whole traces in one response of the Jaeger API, for a comparison of traces. */
export const MAX_COMPARED_TRACES = 4;
/** Traces of one search over the Jaeger API. */
export const MAX_TRACES = 500;

// problems/change-problems.ts
/** @internal Time for which the comparison of an organisation's last hour is remembered. */
export const REMEMBERED_CHANGES_MS = 60_000;
/** @internal Organisations whose comparison is remembered. */
export const MAX_REMEMBERED_CHANGES = 1000;

// problems/problems-route.ts
/** Problems of one response. */
export const MAX_PROBLEMS = 200;

// prometheus/exemplars-route.ts
/** @internal Size of an expression of query_exemplars. */
export const MAX_EXEMPLAR_QUERY_BYTES = 64 * 1024;
/** @internal Selectors of an expression of query_exemplars. */
export const MAX_EXEMPLAR_SELECTORS = 20;

// kubernetes/cluster-state.ts
/** @internal Series of one read of the state of Kubernetes objects. */
export const MAX_KUBERNETES_SERIES = 60_000;

// kubernetes/kubernetes-route.ts
/** Kubernetes objects of one response. */
export const MAX_KUBERNETES_ROWS = 5000;
/** @internal Characters of the name of a Kubernetes object in a parameter. */
export const MAX_OBJECT_NAME_LENGTH = 253;

// loki/cell-statement.ts
/** @internal Counts by series and time of one range aggregation that ClickHouse evaluates. */
export const MAX_CELLS = 200_000;
/** @internal Overlapping windows of `quantile_over_time` in ClickHouse; with more, the sandbox evaluates it. */
export const MAX_WINDOWS_PER_RECORD = 16n;

// loki/label-queries.ts
/** @internal Characters of a value of a detected field; longer values are not suggested. */
export const MAX_DETECTED_VALUE_LENGTH = 1024;
/** Values of a label, or series, in one response of the Loki API. */
export const MAX_LABEL_VALUES = 10_000;
/** @internal Size of the engine's result for one request of labels. */
export const MAX_LABEL_ANSWER_BYTES = 16 * 1024 * 1024;

// loki/evaluate.ts
/** Series of one response to a LogQL query. */
export const MAX_ANSWERED_SERIES = 500;
/** @internal Characters of labels that label_replace creates, which are kept as long as the query runs. */
export const MAX_REPLACED_LABEL_CHARACTERS = 8 * 1024 * 1024;
/** A response of the Loki API with log entries ends after the entry that exceeds this size. */
export const MAX_LOKI_ANSWER_BYTES = 16 * 1024 * 1024;

// loki/label-sql.ts
/**
 * @internal Labels of a query whose attributes are looked up; with more, labels that `json` and `logfmt` read are evaluated record by
 * record.
 */
export const MAX_LABEL_NAMES = 50;
/** @internal Attributes that become these labels, in all; with more, the same applies. */
export const MAX_LABEL_KEYS = 100;
/** @internal Size of the list of possible spellings of a query's labels. */
export const MAX_LABEL_CONDITION_BYTES = 1024 * 1024;

// loki/endpoints.ts
/** @internal Value of `limit` in a request for volumes. */
export const MAX_VOLUMES = 5000;
/** @internal Points of one response of `index/volume_range`: steps times `limit`. */
export const MAX_VOLUME_POINTS = 200_000;

// loki/grammar.ts
/** @internal Digits of a number of a duration; BigInt is slow for very many. */
export const MAX_NUMBER_DIGITS = 100;
/** Characters of a LogQL query. */
export const MAX_QUERY_CHARACTERS = 64 * 1024;
/** @internal Nesting of a LogQL query; chained stages and operators count too. */
export const MAX_QUERY_DEPTH = 400;

// loki/pipeline.ts
/** @internal Label values for which the result of a regular expression of a filter is cached. */
export const MAX_REMEMBERED_LABELS = 10_000;

// loki/parameters.ts
/** Log entries of one response of the Loki API. */
export const MAX_ENTRIES = 5000;
/** Steps of a LogQL range query. */
export const MAX_RANGE_STEPS = 11_000;

// loki/line-sql.ts
/** @internal Size of a line from which SQL reads labels by json and logfmt; longer lines are read record by record. */
export const MAX_SQL_LINE_BYTES = 4 * 1024;
/**
 * @internal Different labels that SQL reads from a line. A logfmt expression reads 7 MiB per second, and the time limit is only checked
 * between blocks.
 */
export const MAX_SQL_LINE_LABELS = 6;
/** @internal Lines per block while SQL reads labels from them; the time limit is checked between blocks. */
export const LINE_BLOCK_ROWS = 256;

// loki/parsers.ts
/** @internal Nesting of JSON that the stage `json` reads. */
export const MAX_JSON_DEPTH = 100;

// loki/points.ts
/** Series of one range aggregation of a LogQL query. */
export const MAX_QUERY_SERIES = 20_000;
/** @internal Points of one range aggregation of a LogQL query: series times steps. */
export const MAX_QUERY_POINTS = 5_000_000;

// loki/range-points.ts
/** @internal Size of the cells that the engine returns for one statement. */
export const MAX_CELL_BYTES = 32 * 1024 * 1024;

// loki/regex.ts
/** @internal Characters that the stages of a LogQL query process per record. */
export const MAX_STAGE_CHARACTERS = 32 * 1024 * 1024;
/** @internal Characters of a line or attribute that stages read; a query that reads a longer one fails. */
export const MAX_STAGE_TEXT_CHARACTERS = 256 * 1024;
/** Characters of all regular expressions of a LogQL query; matchers of labels with a list of plain values do not count. */
export const MAX_REGEX_CHARACTERS = 2000;
/**
 * @internal Parts of all these expressions that match several characters or are repeated, each as often as it is repeated; `\p{L}` counts
 * as 50.
 */
export const MAX_REGEX_STEPS = 100;
/** @internal Time that these expressions may take for one record. */
export const MAX_REGEX_MS_PER_RECORD = 1000;
/** @internal Estimated time of one regular expression for one text if its automaton does not fit into memory. */
export const MAX_REGEX_MS_PER_TEXT = 500;
/** @internal Compiled regular expressions that are cached; each keeps the states of its automaton that the texts needed. */
export const MAX_CACHED_EXPRESSIONS = 8;

// loki/template-functions.ts
/** @internal Characters that a template writes. */
export const MAX_TEMPLATE_CHARACTERS = 1024 * 1024;

// loki/template-values.ts
/** @internal Decimals that a template writes, as many as Number.toFixed allows. */
export const MAX_DECIMALS = 100;
/** @internal Digits of an integer in a template; BigInt is slow for very many. */
export const MAX_INTEGER_DIGITS = 100;
/** @internal Width and precision of a printf verb. */
export const MAX_VERB_WIDTH = 10_000;

// loki/template.ts
/** @internal Nesting of brackets and ifs in a template. */
export const MAX_TEMPLATE_DEPTH = 100;

// mcp/answer.ts
/** Approximate size of the answer of an MCP tool; rows that do not fit are left out. */
export const MAX_TOOL_ANSWER_BYTES = 24_000;
/** @internal Characters of one text of telemetry, such as a message, in the answer of an MCP tool. */
export const MAX_TOOL_TEXT_CHARACTERS = 600;

// mcp/mcp-route.ts
/** @internal Size of the response of a route from which an MCP tool makes its answer. */
export const MAX_ROUTE_ANSWER_BYTES = 4 * 1024 * 1024;

// native/log-counts-routes.ts
/** Value of `buckets` in a histogram of log records. */
export const MAX_BUCKETS = 500;

// native/log-filter-parameters.ts
/** Words of a full-text search. */
export const MAX_SEARCH_WORDS = 50;

// prometheus/metadata-route.ts
/** @internal Metric names from which one metadata response is derived. */
export const MAX_METADATA_NAMES = 10_000;
/** @internal Size of these names as JSON; if they are larger, metadata is empty. */
export const MAX_METADATA_BYTES = 1024 * 1024;

// prometheus/promql-routes.ts
/** Value of `timeout` in a metrics query; longer ones count as this. */
export const MAX_QUERY_TIMEOUT_MS = 30_000;
/** @internal Size of a query that is sent as a form. */
export const MAX_FORM_BYTES = 256 * 1024;
/** @internal Characters of a label name in a path, and of the parameter `metric` of metadata. */
export const MAX_LABEL_LENGTH = 256;

// sandbox/sandbox-process.ts
/** @internal Characters of a sandbox process's errors that are logged. */
export const MAX_STDERR_CHARACTERS = 4000;

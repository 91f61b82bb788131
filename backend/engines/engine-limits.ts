// The limits of backend/engines/. docs/reference/limits.md is generated from this file: each limit has one sentence, and its unit is in its
// name.

// append-log/dead-letters.ts
/** Size of the dead letters of one journal. */
export const MAX_DEAD_LETTER_BYTES = 128 * 1024 * 1024;
/** @internal Files of dead letters of one journal; small files cost the file system more than their bytes. */
export const MAX_DEAD_LETTER_FILES = 10_000;

// clickhouse/clickhouse-client.ts
/** Approximate time of all statements of one log or trace query. */
export const MAX_READ_S = 15;
/**
 * @internal Concurrent log and trace queries of one organisation in all replicas together, or 1 if there are fewer than three slots;
 * others wait.
 */
export const MAX_READS_PER_ORG = 2;
/** Log and trace queries of one organisation that wait; further ones are refused. */
export const MAX_WAITING_READS_PER_ORG = 16;
/** @internal Time that acknowledged rows wait for the engine before it counts as unavailable. */
export const MAX_FAILING_S = 30;

// clickhouse/statement-settings.ts
/** @internal Memory of one statement of a log or trace query in ClickHouse. */
export const MAX_READ_MEMORY_BYTES = 400_000_000;

// relational/fair-driver.ts
/** @internal Statements of one organisation that wait for a connection to the relational store; further ones are refused. */
export const MAX_WAITING_STATEMENTS_PER_ORG = 1000;

// relational/row-limits.ts
/** Users of an organisation, and also its read tokens, its ingest tokens, its unused install tokens and its keys of direct senders. */
export const MAX_ROWS_PER_ORG = 5000;

// sqlite/thread.ts
/** @internal Size above which the write-ahead log is truncated; a checkpoint alone does not shorten it. */
export const MAX_WAL_BYTES = 16 * 1024 * 1024;
/** @internal Prepared statements that are cached. */
export const MAX_PREPARED_STATEMENTS = 200;
/** @internal Rows of one result, far above every list: an endless result would use up the memory of the process. */
export const MAX_RESULT_ROWS = 100_000;

// victoria-metrics/embedded-victoria-metrics.ts
/** Size of a PromQL query. */
export const MAX_EXPRESSION_BYTES = 64 * 1024;
/** Memory of one query of the embedded VictoriaMetrics, in MiB. */
export const MAX_METRIC_QUERY_MIB = 256;

// victoria-metrics/expression-guard.ts
/** @internal Series selectors of a PromQL query. */
export const MAX_SELECTORS = 100;
/** @internal Window or offset in a PromQL query: 100 years. */
export const MAX_DURATION_MS = 100 * 365 * 86_400_000;

// victoria-metrics/journal.ts
/** Size of the journal of metrics; while it is full, metrics are refused with 503. */
export const MAX_JOURNAL_BYTES = 2 * 1024 * 1024 * 1024;

// vmalert/vmalert-client.ts
/** @internal Size of one response of vmalert, more than the alerts of one rule or the rules of a few groups need. */
export const MAX_VMALERT_ANSWER_BYTES = 64 * 1024 * 1024;

// vmalert/dry-run.ts
/** @internal Rules that one run of vmalert validates. */
export const MAX_RULES_PER_DRY_RUN = 64;

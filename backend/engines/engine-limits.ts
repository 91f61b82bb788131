// The limits of backend/engines/. docs/reference/limits.md is generated from this file: each limit has one sentence, and its unit is in its
// name.

// append-log/dead-letters.ts
/** Disk space of the dead letters of one journal; damaged segments take at most half of it. */
export const MAX_DEAD_LETTER_BYTES = 128 * 1024 * 1024;
/** Files of dead letters of one journal; small files cost the file system more than their bytes. */
export const MAX_DEAD_LETTER_FILES = 10_000;

// clickhouse/clickhouse-client.ts
/** Time of all statements of one query. */
export const MAX_READ_S = 15;
/** Concurrent log and trace queries of one organisation in all replicas together, or 1 if there are fewer than three slots; others wait. */
export const MAX_READS_PER_ORG = 2;
/** Log and trace queries of one organisation that wait; further ones are refused. */
export const MAX_WAITING_READS_PER_ORG = 16;
/** Time that acknowledged rows wait for the engine before it counts as unavailable. */
export const MAX_FAILING_S = 30;

// clickhouse/statement-settings.ts
/** Memory of one read: a page of 16 MiB or one row of 32 MiB fits, and reads run concurrently in one process. */
export const MAX_READ_MEMORY_BYTES = 400_000_000;

// relational/fair-driver.ts
/** Statements of one organisation that wait for a connection to the relational store; further ones are refused. */
export const MAX_WAITING_STATEMENTS_PER_ORG = 1000;

// relational/row-limits.ts
/** Rows of each kind per organisation, for kinds without a limit of their own; a list of this length has a few megabytes. */
export const MAX_ROWS_PER_ORG = 5000;

// sqlite/thread.ts
/** Size above which the write-ahead log is truncated; a checkpoint alone does not shorten it. */
export const MAX_WAL_BYTES = 16 * 1024 * 1024;
/** Prepared statements that are cached. */
export const MAX_PREPARED_STATEMENTS = 200;
/** Rows of one result, far above every list: an endless result would use up the memory of the process. */
export const MAX_RESULT_ROWS = 100_000;

// victoria-metrics/embedded-victoria-metrics.ts
/** Size of a query or selector; the engine's own default is 16 KiB for queries. */
export const MAX_EXPRESSION_BYTES = 64 * 1024;
/** Memory of one query of the embedded VictoriaMetrics. */
export const MAX_METRIC_QUERY_MIB = 256;

// victoria-metrics/expression-guard.ts
/** Series selectors of a PromQL query; the engine may hold the series of all of them at once. */
export const MAX_SELECTORS = 100;
/** Window or offset of a query: 100 years. */
export const MAX_DURATION_MS = 100 * 365 * 86_400_000;

// victoria-metrics/journal.ts
/** Size of the journal, about 30 seconds of the highest ingest rate; only writes that the engine refuses at replay take more. */
export const MAX_JOURNAL_BYTES = 2 * 1024 * 1024 * 1024;

// vmalert/vmalert-client.ts
/** Size of one response of vmalert, more than the alerts of one rule or the rules of a few groups need. */
export const MAX_VMALERT_ANSWER_BYTES = 64 * 1024 * 1024;

// vmalert/dry-run.ts
/** Rules that one run of vmalert validates. */
export const MAX_RULES_PER_DRY_RUN = 64;

// What bounds agent/collector/. docs/reference/limits.md is made from this file: each limit has one sentence, and its unit is in its name.

// supervision/child-log.ts
/** Characters of one line of the collector's output; the rest of the line is dropped. */
export const MAX_LINE_LENGTH = 64 * 1024;
/** Characters kept from one piece of output to the next, so that a secret across two pieces is masked. */
export const MAX_SECRET_LENGTH = 8 * 1024;
/** Characters of the output that is shown as the reason why the collector ended. */
export const MAX_REASON_LENGTH = 2000;

// config/collector-config.ts
/** Protobuf bytes of one batch; the same data as JSON stays far below the backend's 32 MiB. */
export const MAX_BATCH_BYTES = 4_000_000;

// config/fragments/otlp.ts
/** Attributes kept of an OTLP resource; a series has at most 35 labels, and the sender's own must fit. */
export const MAX_CLAIMED_ATTRIBUTES = 16;

// config/fragments/log-fields.ts
/** A longer log line is not parsed for fields. */
export const MAX_PARSED_LINE_BYTES = 65_536;

// supervision/outages.ts
/** Distinct outages of the collector's components that are remembered. */
export const MAX_OUTAGES = 100;
/** An error that is not repeated within this time is over, or was no outage. */
export const MAX_QUIET_MS = 15 * 60_000;

// config/remote-config.ts
/** Globs of log files in a remote configuration. */
export const MAX_REMOTE_PATHS = 100;

// supervision/validate.ts
/** Characters that are read from a run of the collector that validates a configuration. */
export const MAX_VALIDATION_OUTPUT = 1_000_000;

// files/link-name.ts
/** Linux allows no longer name in a folder. */
export const MAX_NAME_BYTES = 255;

// files/log-files.ts
/** Deleted files that stay open; their disk space is freed only when they are closed. */
export const MAX_GONE_FILES = 1000;
/** Log files that are open at one time. */
export const MAX_OPEN_FILES = 20_000;

// files/stored-batches.ts
/** Batches of a log file that are remembered, of 100 lines each: 5 million lines. */
export const MAX_STORED_BATCHES = 50_000;
/** A killed collector sends again what was still in its queue: about 110 of the smallest batches in each of six requests. */
export const MAX_RESENT_BATCHES = 800;
/** Periods around an unclean end of the collector in which lines may have been read twice. */
export const MAX_DOUBTFUL_BATCHES = 32;

// files/unanswered-requests.ts
/** Far more than the collector has in flight. */
export const MAX_UNANSWERED_REQUESTS = 64;

// The limits of backend/operations/ and backend/replicas/. docs/reference/limits.md is generated from this file: each limit has one
// sentence, and its unit is in its name.

/** @internal A line of the protocol between a backup and the running backend. */
export const MAX_LINE_BYTES = 16 * 1024;
/** Lifetime of a backup's snapshot. */
export const MAX_SNAPSHOT_MS = 12 * 60 * 60_000;
/** @internal Backup processes that connect at one time. */
export const MAX_BACKUP_CONNECTIONS = 8;
/** @internal Connections to the health port. */
export const MAX_HEALTH_CONNECTIONS = 256;
/** @internal Causes of an error that are logged. */
export const MAX_CAUSES = 4;
/** @internal Errors of an AggregateError that are logged. */
export const MAX_ERRORS = 5;
/** @internal Characters of the message, and of the stack, of an error that is logged. */
export const MAX_LOG_TEXT_LENGTH = 10_000;
/** @internal Bodies that one statement claims. */
export const MAX_CLAIMS_PER_STATEMENT = 500;
/** @internal Owners of limits whose demand a replica reports to the others; those with the largest demand come first. */
export const MAX_REPORTED_OWNERS = 5000;

// The limits of backend/outgoing/. docs/reference/limits.md is generated from this file: each limit has one sentence, and its unit is in its
// name.

/** @internal Bytes of a notification receiver's response that are read. */
export const MAX_RECEIVER_RESPONSE_BYTES = 64 * 1024;
/** A longer `Retry-After` of a receiver is reduced to this. */
export const MAX_RETRY_AFTER_MS = 3_600_000;
/** @internal Addresses of a receiver that are tried in turn. */
export const MAX_TRIED_ADDRESSES = 8;
/** @internal Addresses of a receiver that are checked: a tenant's name server may return thousands. */
export const MAX_CHECKED_ADDRESSES = 64;

// The limits of backend/http/. docs/reference/limits.md is generated from this file: each limit has one sentence, and its unit is in its name.

/** Path, query and headers of a request over HTTP/1.1. */
export const MAX_HEAD_BYTES = 64 * 1024;
/**
 * @internal Length of a path parameter, that of a request head, so that the response to a long id is the same as for any other unknown id.
 */
export const MAX_PARAMETER_LENGTH = MAX_HEAD_BYTES;
/** @internal Parameters of a query string, except in signed requests and those with an ingest token. */
export const MAX_QUERY_PARAMETERS = 500;
/** @internal Characters of the query string of a request without a credential. */
export const MAX_UNAUTHENTICATED_QUERY_LENGTH = 8 * 1024;
/** @internal Characters of a header with a list of choices (`Accept`, `Accept-Encoding`, `If-None-Match`) that are read. */
export const MAX_CHOICES_LENGTH = 1024;
/** Calls of one connection at one time over gRPC; requests that a client pipelines on a connection over HTTP/1.1. */
export const MAX_REQUESTS_PER_CONNECTION = 16;
/** @internal An HTTP/2 connection with more is closed: refusing endless calls one by one would block the event loop. */
export const MAX_REFUSED_REQUESTS = 2 * MAX_REQUESTS_PER_CONNECTION;
/** @internal Evicted connections whose sockets have not closed yet. */
export const MAX_CLOSING_CONNECTIONS = 256;
/**
 * @internal Unauthenticated connections with more than 16 KiB of a request head that is not complete yet; beyond it, the oldest are closed.
 */
export const MAX_LONG_HEADS = 512;
/** @internal HTTP chunks or packets of a body that may be small. */
export const FREE_BODY_PIECES = 256;
/** @internal A body that arrives in many smaller HTTP chunks or packets can be refused. */
export const MIN_BODY_PIECE_BYTES = 128;
/** @internal Small pieces that a body may have in each second, so that a slow sender may send one record at a time. */
export const FREE_BODY_PIECES_PER_SECOND = 200;
/** @internal Characters of an `Authorization` header with a read token, an ingest token or an issuer's token; longer ones are ignored. */
export const MAX_AUTHORIZATION_LENGTH = 8192;
/** Memory of responses to queries that clients have not read yet, and of running queries; organisations share it. */
export const MAX_HELD_RESPONSE_BYTES = 256 * 1024 * 1024;
/** @internal Memory that is reserved for a response before its query runs; for a larger one, the rest when it is sent. */
export const RESERVED_RESPONSE_BYTES = 4 * 1024 * 1024;
/** A client that takes nothing of the response to a query for this time is disconnected. */
export const MAX_RESPONSE_STALL_MS = 30_000;
/** A client that falls 30 s behind this speed while it reads the response to a query is disconnected. */
export const MIN_RESPONSE_BYTES_PER_SECOND = 16 * 1024;
/** @internal Memory of responses that clients without a credential have not read yet, on one listener; networks share it. */
export const MAX_HELD_ANONYMOUS_RESPONSE_BYTES = 64 * 1024 * 1024;
/** @internal A refused body is read and discarded up to this size; a larger one is not read, and its connection is closed. */
export const MAX_DRAINED_BYTES = 256 * 1024;
/** @internal Refused bodies that are read and discarded at one time. Further clients may see a reset. */
export const MAX_DRAINING_BODIES = 64;
/** @internal The same for clients without a credential. */
export const MAX_DRAINING_UNAUTHENTICATED = 16;
/** @internal Bytes that the client of a WebSocket may send in a minute, pongs included; with more, it is disconnected. */
export const MAX_CLIENT_BYTES_PER_MINUTE = 4 * 1024;
/** @internal Size of a WebSocket message from a client. */
export const MAX_MESSAGE_BYTES = 1024;

// The limits of backend/http/. docs/reference/limits.md is generated from this file: each limit has one sentence, and its unit is in its name.

// app.ts
/** Path, query and headers of a request: Grafana's Loki data source sends queries of many kilobytes in the path. */
export const MAX_HEAD_BYTES = 64 * 1024;
/** Length of a path parameter, longer than a request head, so that the response to a long id is the same as for any other unknown id. */
export const MAX_PARAMETER_LENGTH = MAX_HEAD_BYTES;

// connections.ts
/** Concurrent requests of one connection; clients that do not pipeline have one. */
export const MAX_REQUESTS_PER_CONNECTION = 16;
/** A connection with more is closed: refusing an endless pipeline request by request would block the event loop. */
export const MAX_REFUSED_REQUESTS = 2 * MAX_REQUESTS_PER_CONNECTION;
/** Evicted connections whose sockets have not closed yet. */
export const MAX_CLOSING_CONNECTIONS = 256;
/** Unauthenticated connections with more than 16 KiB of a request head that is not complete yet; beyond it, the oldest are closed. */
export const MAX_LONG_HEADS = 512;

// response-budget.ts
/** Responses that clients have not read yet, and running queries; an organisation takes more only if as much stays free as it uses. */
export const MAX_HELD_RESPONSE_BYTES = 256 * 1024 * 1024;
/** Memory that is reserved for a response before its query runs. */
export const RESERVED_RESPONSE_BYTES = 16 * 1024 * 1024;
/** A client that does not read the next chunk within this time is disconnected. */
export const MAX_RESPONSE_STALL_MS = 30_000;
/** A client that reads more slowly on average is disconnected, after the time of the line above. */
export const MIN_RESPONSE_BYTES_PER_SECOND = 16 * 1024;

// small-bodies.ts
/** Refused bodies that are read and discarded at one time: each delays new connections; with 200, by 16 s. Further clients may see a reset. */
export const MAX_DRAINING_BODIES = 64;
/** The same for clients without a credential. */
export const MAX_DRAINING_UNAUTHENTICATED = 16;

// websocket.ts
/** Size of a WebSocket message from a client; the backend reads and discards it. */
export const MAX_MESSAGE_BYTES = 1024;

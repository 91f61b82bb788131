// What bounds agent/proxy/. docs/reference/limits.md is made from this file: each limit has one sentence, and its unit is in its name.

// body.ts
/** Small pieces of a body are joined up to this size, because each costs memory of its own. */
export const MAX_SMALL_PIECES_BYTES = 16 * 1024;

// fast-exposition.ts
/** Larger bodies are converted in TypeScript, because the memory of the kernel never shrinks. */
export const MAX_KERNEL_BODY_BYTES = 4 * 1024 * 1024;
/** More exposition text is converted in TypeScript, which cuts it into several requests. */
export const MAX_KERNEL_TEXT_BYTES = 16 * 1024 * 1024;
/** Metrics that the kernel may leave to TypeScript; with more, TypeScript alone is cheaper. */
export const MAX_LEFT_METRICS = 500;
/** Labels of a resource, which are repeated in each line. */
export const MAX_HEAD_BYTES = 16 * 1024;

// forward.ts
/** A longer `Retry-After` is cut, so that a wrong header cannot stop a node for a day. */
export const MAX_RETRY_AFTER_S = 300;

// part-sender.ts
/** Batches of which the already delivered parts are remembered. */
export const MAX_PARTLY_SENT_BATCHES = 64;

// server.ts
/** The backend's limit for a body. */
export const MAX_BODY_BYTES = 32 * 1024 * 1024;
/** Bodies that the proxy converts or splits before it forwards them. */
export const MAX_JSON_BODY_BYTES = 2 * MAX_BODY_BYTES;
/** The collector has about twenty; other programs of the machine may open more. */
export const MAX_PROXY_CONNECTIONS = 512;

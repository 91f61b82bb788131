// What bounds agent/pods/. docs/reference/limits.md is made from this file: each limit has one sentence, and its unit is in its name.

// relay.ts
/** About ten components of the collector connect, with one or two connections each. */
export const MAX_RELAY_CONNECTIONS = 64;
/** A watch that lets more events pile up is closed. */
export const MAX_UNREAD_BYTES = 4 * 1024 * 1024;

// slim-pod.ts
/** A larger pod is kept without ports and long annotations, and if necessary without owners. */
export const MAX_POD_CHARACTERS = 64 * 1024;

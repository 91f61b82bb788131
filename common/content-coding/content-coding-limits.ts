// The limits of common/content-coding/. docs/reference/limits.md is generated from this file: each limit has one sentence, and its unit is
// in its name.

/** Window of a zstd frame. */
export const MAX_ZSTD_WINDOW_BYTES = 8 * 1024 * 1024;
/** @internal Zstd frames of a body whose size does not matter: each costs about 20 µs. */
export const FRAME_ALLOWANCE = 64;
/** @internal Bytes that the frames of a body have on average, if there are more than the allowance. */
export const FRAME_BYTES = 512;
/** @internal Compressed bytes that are collected before they are decompressed, because each call costs about 20 µs. */
export const COLLECTED_BYTES = 64 * 1024;
/** @internal Zstd frames of a body that is decompressed synchronously. */
export const MAX_FRAMES_AT_ONCE = 4;

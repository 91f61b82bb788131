// Declares the functions that this kernel imports from backend/ingest/otlp/fast-decode.ts, in addition to those of backend/ingest/kernel/host.ts:
// WebAssembly has no number formatting that equals JavaScript's.

/** Replaces the JSON number of `length` bytes at `at` by JavaScript's text of it, which ends at the same address. Returns the new length. */
export declare function number(at: usize, length: u32): u32;

/** Writes JavaScript's text of `value` to `to`, at most 24 bytes. Returns its length. */
export declare function double(value: f64, to: usize): u32;

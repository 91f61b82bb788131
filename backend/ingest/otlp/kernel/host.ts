// What the kernel asks of its host, backend/ingest/otlp/fast-decode.ts, besides giving up.

/** Formats the number of `length` bytes at `at` as JavaScript does, right-aligned over them. Returns its new length. */
export declare function number(at: usize, length: u32): u32;

/** Writes a number as JavaScript does, at most 24 bytes. Returns its length. */
export declare function double(value: f64, to: usize): u32;

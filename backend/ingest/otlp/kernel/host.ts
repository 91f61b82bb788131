// What the kernel asks of its host, backend/ingest/otlp/fast-decode.ts, besides giving up.

/** JavaScript's `String(Number(text))`, written over the `length` bytes at `at`, its end where theirs was; its length. */
export declare function number(at: usize, length: u32): u32;

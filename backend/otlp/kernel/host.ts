// What the kernel asks of its host, backend/otlp/fast-decode.ts.

/** Throws in the host: nothing of the document is kept, and the TypeScript decoder decides. */
export declare function giveUp(reason: i32): void;

/** JavaScript's `String(Number(text))`, written over the `length` bytes at `at`, its end where theirs was; its length. */
export declare function number(at: usize, length: u32): u32;

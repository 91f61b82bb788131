// The functions that this kernel imports from agent/proxy/fast-exposition.ts, for what WebAssembly cannot do well: formatting numbers,
// naming series, joining labels. Addresses (`at`, `to`, `timeAt`) are positions in the kernel's memory. Each function that writes to `to`
// returns the number of bytes written. If the result has more than `room` bytes, the host throws and converts the document in TypeScript.

/** Takes the `length` bytes of finished text at `at` out of the memory. They follow the first `before` bytes of the document's text. */
export declare function flush(at: usize, length: u32, before: u32): void;

/** Reads the JSON number at `at` and writes it as the value of a sample, at most NUMBER_BYTES. */
export declare function number(at: usize, length: u32, to: usize): u32;

/** Writes what the dictionary stores for the key of `length` bytes at `at`: a metric's names or a bucket's bound, by `kind` (dictionary.ts). */
export declare function describe(kind: u32, at: usize, length: u32, to: usize, room: u32): u32;

/** Writes the labels of a point: its attributes, the JSON array at `at`, joined with those of its resource. */
export declare function labels(at: usize, length: u32, isHistogram: bool, to: usize, room: u32): u32;

/** Ends a resource that describes a target: writes its line of `target_info`, with the time of its last point (`timeLength` 0: no time). */
export declare function endResource(timeAt: usize, timeLength: u32, to: usize, room: u32): u32;

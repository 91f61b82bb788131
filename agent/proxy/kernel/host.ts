// What the kernel asks of its host, agent/proxy/fast-exposition.ts. Each may give up by a throw of the host's own.

/** Takes `length` bytes of text from `at` on, which stand behind the first `before` bytes of the document's text. */
export declare function flush(at: usize, length: u32, before: u32): void;

/** A number's JSON as a sample's value, written to `to`; its length, at most NUMBER_BYTES. */
export declare function number(at: usize, length: u32, to: usize): u32;

/** What is remembered of these bytes, written to `to`, at most `room`; its length. What it is, and how it is written: dictionary.ts. */
export declare function describe(kind: u32, at: usize, length: u32, to: usize, room: u32): u32;

/** Labels of a point whose attributes are the array at `at`, together with its resource's, written to `to`; their length. */
export declare function labels(at: usize, length: u32, isHistogram: bool, to: usize, room: u32): u32;

/** The end of a resource that describes a target: writes its target_info to `to`; the length. `timeAt`: of the last point, or 0. */
export declare function endResource(timeAt: usize, timeLength: u32, to: usize, room: u32): u32;

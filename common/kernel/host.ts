// What kernels ask of their hosts.

/** Throws in the host: the kernel does not take what it reads, and TypeScript decides. */
export declare function giveUp(reason: i32): void;

/** Whether `length` bytes at `at` are UTF-8: asked about texts that are not ASCII. */
export declare function isUtf8(at: usize, length: u32): bool;

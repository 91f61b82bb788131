// What every kernel that reads JSON asks of its host.

/** Throws in the host: the kernel does not take what it reads, and TypeScript decides. */
export declare function giveUp(reason: i32): void;

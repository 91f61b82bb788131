// The functions that kernels import from their host, the TypeScript that loads the WebAssembly (`startKernel` in backend/ingest/kernel-host.ts).
// AssemblyScript names the import after this file: the host passes `{ host: { giveUp, … } }`.

/** Throws in the host, which ends the kernel's call. The host then parses the same document in TypeScript. `reason`: see `bytes.ts`. */
export declare function giveUp(reason: i32): void;

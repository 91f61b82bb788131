/** Folders with sources, from the root. */
export const KERNELS: readonly string[];
export function buildKernels(): Promise<boolean>;
export function setup(): Promise<void>;

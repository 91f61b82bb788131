export function buildKernel(): Promise<boolean>;
export function setup(): Promise<void>;

export function acquireLock(path: string, onWait?: (holderPid: number) => void): Promise<() => void>;

// What product code gets for node:timers/promises: the clock of the machine.
import { machine } from "./machine.ts";

export async function setTimeout<T>(ms?: number, value?: T, { signal }: { signal?: AbortSignal } = {}): Promise<T | undefined> {
  signal?.throwIfAborted();
  await new Promise<void>((resolve, reject) => {
    machine().inProcess(ms ?? 0, resolve);
    signal?.addEventListener("abort", () => reject(signal.reason), { once: true });
  });
  return value;
}

export const setImmediate = <T>(value?: T): Promise<T | undefined> => setTimeout(0, value);

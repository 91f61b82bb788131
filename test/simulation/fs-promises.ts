// What product code gets for node:fs/promises: the simulated disk (fs.ts).
import * as fs from "./fs.ts";
import { machine } from "./machine.ts";

/** The effect is in the page cache at once; the call ends later. */
async function soon<T>(call: () => T): Promise<T> {
  let outcome: { error: unknown } | { result: T };
  try {
    outcome = { result: call() };
  } catch (error) {
    outcome = { error };
  }
  await machine().delay(machine().disk.writeMs);
  if ("error" in outcome) throw outcome.error;
  return outcome.result;
}

export const link = (from: string, to: string): Promise<void> => soon(() => machine().disk.link(from, to));
export const readdir = (path: string): Promise<string[]> => soon(() => fs.readdirSync(path));
export const readFile = (path: string): Promise<Buffer> => soon(() => machine().disk.read(path));
export const rm = (path: string, options?: { force?: boolean }): Promise<void> => soon(() => fs.rmSync(path, options));
export const stat = (path: string): Promise<unknown> => soon(() => fs.statSync(path));
export const writeFile = (path: string, data: Uint8Array, options?: { flush?: boolean }): Promise<void> =>
  soon(() => fs.writeFileSync(path, data, options));

export async function open(path: string): Promise<{ sync: () => Promise<void> } & AsyncDisposable> {
  const fd = await soon(() => fs.openSync(path));
  return {
    async sync() {
      await machine().delay(machine().disk.syncMs);
      machine().disk.sync(fd);
    },
    async [Symbol.asyncDispose]() {
      machine().disk.close(fd);
    },
  };
}

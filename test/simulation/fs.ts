// What product code gets for node:fs: the simulated disk. Only the calls that the simulated code makes exist; hooks.ts replaces the module.
import { promisify } from "node:util";
import { machine } from "./machine.ts";

export const constants = { X_OK: 1 };
type Done<T> = (error: unknown, result?: T) => void;

export function openSync(path: string, flags = "r"): number {
  return machine().disk.open(path, flags);
}

export function closeSync(fd: number): void {
  machine().disk.close(fd);
}

export function fsyncSync(fd: number): void {
  machine().disk.sync(fd);
}

export function readFileSync(path: string, encoding?: "utf8"): Buffer | string {
  const content = machine().disk.read(path);
  return encoding ? content.toString(encoding) : content;
}

export function writeFileSync(path: string, data: Uint8Array | string, options: { flag?: string; flush?: boolean } = {}): void {
  const { disk } = machine();
  const fd = disk.open(path, options.flag ?? "w");
  try {
    const bytes = Buffer.from(data as Uint8Array);
    if (disk.write(fd, bytes, 0) < bytes.length) throw Object.assign(new Error("ENOSPC"), { code: "ENOSPC" });
    if (options.flush) disk.sync(fd);
  } finally {
    disk.close(fd);
  }
}

/** Appends. */
export function writeSync(fd: number, text: string): number {
  return machine().disk.write(fd, Buffer.from(text), undefined);
}

export function readdirSync(path: string): string[] {
  return machine().disk.list(path);
}

export function statSync(
  path: string,
  options?: { throwIfNoEntry?: boolean },
): ReturnType<ReturnType<typeof machine>["disk"]["stat"]> | undefined {
  const { disk } = machine();
  return options?.throwIfNoEntry === false && !disk.has(path) ? undefined : disk.stat(path);
}

export function existsSync(path: string): boolean {
  return machine().disk.has(path);
}

export function mkdirSync(path: string): void {
  machine().disk.makeFolder(path);
}

export function renameSync(from: string, to: string): void {
  machine().disk.rename(from, to);
}

export function unlinkSync(path: string): void {
  machine().disk.remove(path);
}

export function rmSync(path: string, options?: { force?: boolean }): void {
  machine().disk.remove(path, options);
}

export function accessSync(path: string): void {
  machine().disk.stat(path);
}

/** The cache has the bytes at once, in part if the disk fills up; the call ends later. */
export function writev(fd: number, pieces: readonly Uint8Array[], position: number, done: Done<number>): void {
  later(machine().disk.writeMs, () => machine().disk.write(fd, Buffer.concat(pieces), position), done);
}
Object.defineProperty(writev, promisify.custom, {
  value: (fd: number, pieces: readonly Uint8Array[], position: number) =>
    new Promise((resolve, reject) => {
      writev(fd, pieces, position, (error, bytesWritten) => (error ? reject(error) : resolve({ bytesWritten })));
    }),
});

export function fdatasync(fd: number, done: Done<void>): void {
  const { disk } = machine();
  // Until the call ends, any part may be on the disk.
  machine().inProcess(disk.syncMs, () => settle(() => disk.sync(fd), done));
}

function later<T>(ms: number, call: () => T, done: Done<T>): void {
  let outcome: () => void = () => undefined;
  settle(call, (error, result) => (outcome = () => done(error, result)));
  machine().inProcess(ms, () => outcome());
}

function settle<T>(call: () => T, done: Done<T>): void {
  let result: T;
  try {
    result = call();
  } catch (error) {
    return done(error);
  }
  done(null, result);
}

// Lets one process at a time use a DATA_DIR: PGlite corrupts silently, and chDB refuses obscurely, when two do. Called by main.ts
// before any embedded engine opens. Invariant: the lock is the kernel's (an exclusive SQLite transaction), so it ends with its
// process however that dies, is never stale, and holds across containers that share a volume.
import { mkdir, readFile, rm, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";

/** Another process uses the directory; the message says which and what to do. */
export class DataDirInUseError extends Error {
  override readonly name = "DataDirInUseError";
}

/** Takes the lock of `dir`, making the folder (mode 0700) when it is missing. Throws DataDirInUseError when it is taken. */
export async function lockDataDir(dir: string): Promise<AsyncDisposable> {
  await mkdir(dir, { recursive: true, mode: 0o700 });
  const holderFile = join(dir, "lock.holder");
  const lock = new DatabaseSync(join(dir, "lock"));
  try {
    lock.exec("PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE");
  } catch (error) {
    lock.close();
    if (!isBusy(error)) throw error;
    throw new DataDirInUseError(
      `${dir} is used by ${await readHolder(holderFile)}: stop it, or give this one its own DATA_DIR and listen addresses`,
      { cause: error },
    );
  }
  await writeFile(holderFile, `process ${process.pid} on ${hostname()}, since ${new Date().toISOString()}\n`);
  return {
    async [Symbol.asyncDispose]() {
      await rm(holderFile, { force: true });
      if (lock.isOpen) lock.close();
    },
  };
}

function isBusy(error: unknown): boolean {
  return (error as { errcode?: number }).errcode === 5;
}

async function readHolder(file: string): Promise<string> {
  const text = await readFile(file, "utf8").catch(() => "");
  return text.trim() || "another process";
}

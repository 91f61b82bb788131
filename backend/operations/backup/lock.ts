// Lets one process at a time use a DATA_DIR: two would have different accounts, and chDB fails with an unclear error. Invariant: the lock
// belongs to the kernel (an exclusive SQLite transaction), so it ends with its process, is never stale, and works across containers that
// share a volume.
import { accessSync, constants, existsSync, statSync } from "node:fs";
import { readFile, rm, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { makeFolder } from "../../../common/files.ts";
import { DataDirInUseError, StartError } from "../../errors.ts";

/**
 * Takes the lock of `dir`, making the folder (mode 0700) when it is missing. Throws DataDirInUseError when it is taken, StartError when
 * this user cannot write there.
 */
export async function lockDataDir(dir: string): Promise<AsyncDisposable> {
  const holderFile = join(dir, "lock.holder");
  const lock = openLock(dir);
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

function openLock(dir: string): DatabaseSync {
  const file = join(dir, "lock");
  try {
    makeFolder(dir, 0o700);
    accessSync(dir, constants.R_OK | constants.W_OK | constants.X_OK);
    if (existsSync(file)) accessSync(file, constants.R_OK | constants.W_OK);
    return new DatabaseSync(file);
  } catch (error) {
    throw new StartError(`DATA_DIR: user ${process.getuid?.()} cannot write ${dir} (${reasonOf(error)})${ownerOf(dir)}: ${ADVICE}`, {
      cause: error,
    });
  }
}

const ADVICE =
  "give it to this user (chown -R), name another place, or, with the Helm chart, set persistence.chown=true, which does it at each start";

function reasonOf(error: unknown): string {
  const { code, message } = error as NodeJS.ErrnoException;
  return code?.startsWith("E") && !code.startsWith("ERR_") ? code : message;
}

function ownerOf(dir: string): string {
  const found = existsSync(dir) ? statSync(dir) : undefined;
  return found ? `, which belongs to user ${found.uid} with mode ${(found.mode & 0o777).toString(8)}` : "";
}

function isBusy(error: unknown): boolean {
  return (error as { errcode?: number }).errcode === 5;
}

async function readHolder(file: string): Promise<string> {
  const text = await readFile(file, "utf8").catch(() => "");
  return text.trim() || "another process";
}

// Lets one process at a time use a DATA_DIR: two would have different accounts, and chDB fails with an unclear error.
import { accessSync, constants, existsSync, statSync } from "node:fs";
import { hostname } from "node:os";
import { join } from "node:path";
import { makeFolder } from "../../../common/files.ts";
import { holderOf, tryLock } from "../../../common/folder-lock.ts";
import { DataDirInUseError, StartError } from "../../errors.ts";

/**
 * Locks `dir`, which is created (mode 0700) if it is missing. Throws DataDirInUseError if another process has the lock, StartError if this
 * user cannot write to the folder.
 */
export function lockDataDir(dir: string): Disposable {
  const lock = openLock(dir);
  if (lock) return lock;
  throw new DataDirInUseError(
    `${dir} is used by ${holderOf(dir) ?? "another process"}: stop it, or give this one its own DATA_DIR and listen addresses`,
  );
}

function openLock(dir: string): Disposable | undefined {
  const file = join(dir, "lock");
  try {
    makeFolder(dir, 0o700);
    accessSync(dir, constants.R_OK | constants.W_OK | constants.X_OK);
    if (existsSync(file)) accessSync(file, constants.R_OK | constants.W_OK);
    return tryLock(dir, `process ${process.pid} on ${hostname()}`);
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

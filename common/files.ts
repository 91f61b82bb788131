// Writes files and folders so that they survive a power cut, and checks this process's permissions. Invariant: when a call returns, the new
// content is on disk under the file's name, not only in the kernel's memory; until then, the old content is. Not for files that are written
// many times a second.
import { X509Certificate } from "node:crypto";
import {
  closeSync,
  fsyncSync,
  openSync,
  renameSync,
  rmSync,
  writeFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  statSync,
  accessSync,
  constants,
} from "node:fs";
import { open } from "node:fs/promises";
import { dirname } from "node:path";

/** Replaces `file` by a new one with `mode`. Throws system errors; `file` is then unchanged, and no temporary file is left. */
export function writeDurably(file: string, text: string, mode = 0o600): void {
  const draft = `${file}.new`;
  // A leftover of a killed process may be a hard link to a file in use.
  rmSync(draft, { force: true });
  try {
    writeFileSync(draft, text, { mode, flag: "wx", flush: true });
    renameSync(draft, file);
  } catch (error) {
    rmSync(draft, { force: true });
    throw error;
  }
  syncFolder(dirname(file));
}

/** Renames a file within its folder; its content must already be on disk. */
export function renameDurably(from: string, to: string): void {
  renameSync(from, to);
  syncFolder(dirname(to));
}

/**
 * Writes the names in `folder` to disk. Errors are ignored if the file system cannot sync folders, or if the folder is writable but not
 * readable.
 */
export function syncFolder(folder: string): void {
  try {
    syncFile(folder);
  } catch (error) {
    if (!isUnsyncable(error)) throw error;
  }
}

/** Like `syncFolder`, without blocking the event loop. */
export async function folderSynced(folder: string): Promise<void> {
  try {
    await using handle = await open(folder, "r");
    await handle.sync();
  } catch (error) {
    if (!isUnsyncable(error)) throw error;
  }
}

function isUnsyncable(error: unknown): boolean {
  return ["EINVAL", "ENOTSUP", "EACCES", "EISDIR"].includes(String((error as NodeJS.ErrnoException).code));
}

/** Writes the file's content to disk. */
export function syncFile(path: string): void {
  const handle = openSync(path, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

/**
 * Creates a folder and its parents; an existing one is not changed. Throws the system's error for the first folder that cannot be created.
 */
export function makeFolder(folder: string, mode: number): void {
  const parent = dirname(folder);
  if (isFolder(folder)) return;
  if (parent !== folder) makeFolder(parent, mode);
  try {
    mkdirSync(folder, { mode });
    syncFolder(parent);
  } catch (error) {
    // Another process was faster.
    if (!isFolder(folder)) throw error;
  }
}

/** `path`, or the nearest folder above it that exists. */
export function nearestExisting(path: string): string {
  const parent = dirname(path);
  return existsSync(path) || parent === path ? path : nearestExisting(parent);
}

function isFolder(path: string): boolean {
  return existsSync(path) && statSync(path).isDirectory();
}

/** False for a folder, which has the same permission. */
export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch {
    return false;
  }
}

/** Returns the text of a PEM file. Throws if it cannot be read, or its first certificate is missing or invalid: Node.js would ignore that. */
export function readCertificates(path: string): string {
  const pem = readFileSync(path, "utf8");
  void new X509Certificate(pem);
  return pem;
}

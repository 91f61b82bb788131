// Files and folders that survive a power cut, and what this process may do with a file. Invariant: when a call returns, the new content has
// the file's name on the disk, not only in the kernel's memory; until then the old content has it. Not for files that are written many
// times a second.
import {
  closeSync,
  fsyncSync,
  openSync,
  renameSync,
  rmSync,
  writeFileSync,
  existsSync,
  mkdirSync,
  statSync,
  accessSync,
  constants,
} from "node:fs";
import { open } from "node:fs/promises";
import { dirname } from "node:path";

/** Replaces `file` by a new one with `mode`. Throws what the system says; then `file` is as it was, and no draft is left. */
export function writeDurably(file: string, text: string, mode = 0o600): void {
  const draft = `${file}.new`;
  // What a killed process left may be a second name of a file in use.
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

/** Gives a file whose content is on the disk already another name, in the same folder. */
export function renameDurably(from: string, to: string): void {
  renameSync(from, to);
  syncFolder(dirname(to));
}

/** Puts the names in `folder` on the disk. Some file systems sync no folders, and some folders can be written and not read: both pass. */
export function syncFolder(folder: string): void {
  try {
    syncFile(folder);
  } catch (error) {
    if (!isUnsyncable(error)) throw error;
  }
}

/** As `syncFolder`, while the event loop goes on. */
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

/** Puts what a file holds on the disk. */
export function syncFile(path: string): void {
  const handle = openSync(path, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

/** A folder that is there already is kept as it is. Throws what the system says of the first folder that cannot be made. */
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

function isFolder(path: string): boolean {
  return existsSync(path) && statSync(path).isDirectory();
}

/** Also for a folder: whether it can be entered. */
export function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return true;
  } catch {
    return false;
  }
}

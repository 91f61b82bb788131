// Makes a folder and what is missing above it. Invariants: what was made has its name on the disk; it ends. Node's own `recursive` spins for
// ever where a parent exists and yet answers ENOENT, such as /proc.
import { existsSync, mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { syncFolder } from "./durable-file.ts";

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

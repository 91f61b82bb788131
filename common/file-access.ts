// What this process may do with a file, asked of the system in advance: to find a program, and to report what cannot be read.
// Invariant: a file that is not there, or cannot be asked about, is an answer of no.
import { accessSync, constants } from "node:fs";

/** Of a folder, too: to pass through it. */
export function isExecutable(path: string): boolean {
  return allows(path, constants.X_OK);
}

export function isReadable(path: string): boolean {
  return allows(path, constants.R_OK);
}

function allows(path: string, mode: number): boolean {
  try {
    accessSync(path, mode);
    return true;
  } catch {
    return false;
  }
}

// Reads text and JSON from files that the user names. Invariant: a file that cannot be read is a Problem that names it.
import { readFileSync, statSync } from "node:fs";
import { text } from "node:stream/consumers";
import { Problem } from "./cli-error.ts";

/** The largest inputs are files for `atherops apply`; a thousand rules take about 500 KiB. */
const MAX_BYTES = 8 * 1024 * 1024;

/** Throws Problem if the file is unreadable or too large. */
export function readTextFile(file: string): string {
  try {
    if (statSync(file).size > MAX_BYTES) throw new Problem(`${file}: is larger than ${MAX_BYTES} bytes`);
    return readFileSync(file, "utf8");
  } catch (error) {
    if (error instanceof Problem) throw error;
    throw new Problem(`${file}: cannot be read: ${(error as NodeJS.ErrnoException).code}`);
  }
}

/** Reads a file, or standard input if `file` is `-`. Throws like readTextFile. */
export async function readInput(file: string, stdin: NodeJS.ReadableStream): Promise<string> {
  return file === "-" ? await text(stdin) : readTextFile(file);
}

/** `name`: the argument or option that contains the JSON. */
export function parseJson(name: string, json: string, Failure: typeof Problem = Problem): unknown {
  try {
    return JSON.parse(json);
  } catch (error) {
    throw new Failure(`${name} is not JSON: ${(error as Error).message}`);
  }
}

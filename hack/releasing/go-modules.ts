// Lists the Go modules that are linked into a program, as `go version -m` does: the linker writes them between two markers
// (cmd/go/internal/modload/build.go), so neither Go nor network access is needed.
import { openSync, readSync, closeSync, fstatSync } from "node:fs";

export interface GoModule {
  readonly path: string;
  readonly version: string;
}

const START = Buffer.from("3077af0c9274080241e1c107e6d618e6", "hex");
const END = Buffer.from("f932433186182072008242104116d8f2", "hex");
const CHUNK_BYTES = 8 * 1024 * 1024;

/** Sorted by path. Throws if the file is not a Go program with modules. */
export function readGoModules(program: string): GoModule[] {
  const file = openSync(program, "r");
  try {
    const { size } = fstatSync(file);
    const chunk = Buffer.alloc(CHUNK_BYTES);
    // Chunks overlap, so that one of them contains both markers and the text between them.
    for (let at = 0; at < size; at += CHUNK_BYTES / 2) {
      const bytes = chunk.subarray(0, readSync(file, chunk, 0, CHUNK_BYTES, at));
      const start = bytes.indexOf(START);
      const end = start === -1 ? -1 : bytes.indexOf(END, start);
      if (end !== -1) return parseModules(bytes.toString("utf8", start + START.length, end));
    }
  } finally {
    closeSync(file);
  }
  throw new Error(`${program} has no list of Go modules: it is no Go program, or was built without modules`);
}

function parseModules(text: string): GoModule[] {
  const modules: GoModule[] = [];
  for (const line of text.split("\n")) {
    const [kind, path = "", version = ""] = line.split("\t");
    if (kind === "dep") modules.push({ path, version });
    // The module before it was replaced by this one.
    else if (kind === "=>") modules.splice(-1, 1, { path, version });
  }
  return modules.toSorted((a, b) => (a.path < b.path ? -1 : 1));
}

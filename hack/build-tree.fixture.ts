// Copies some files of this repository to a temporary folder, with its packages, and runs a build script in that folder, in a separate process.
import { cpSync, symlinkSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { temporaryFolder } from "../test/fixtures/processes.ts";
import { ROOT } from "./bundle.ts";

/** `script` and `paths` are relative to the root; `build` runs the script. */
export function buildTree(script: string, paths: readonly string[]) {
  const folder = temporaryFolder();
  for (const path of [script, ...paths]) cpSync(join(ROOT, path), join(folder.path, path), { recursive: true });
  symlinkSync(join(ROOT, "node_modules"), join(folder.path, "node_modules"));
  return {
    path: folder.path,
    build: () => execa(process.execPath, [script], { cwd: folder.path, reject: false }),
    [Symbol.dispose]: () => folder[Symbol.dispose](),
  };
}

// Finds the imports of a TypeScript file in its text, for checks that do not run the code. Invariant: every form that this repository uses
// is found (import, export … from, import(), require, resolve); comments that contain such a form count, too.
import { existsSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";

const IMPORT =
  /(?<types>\b(?:import|export) type [^;"]*)?(?:\b(?:from|import)\s*|\bimport\(\s*|\brequire\(|\.resolve\()"(?<path>[^"\s]+)"/g;

export interface Import {
  /** The specifier as written: a relative file, `node:…`, or a package with an optional subpath. */
  readonly path: string;
  /** True if only types are imported, so nothing is loaded. */
  readonly isType: boolean;
}

export function importsIn(source: string): Import[] {
  return [...source.matchAll(IMPORT)].map(({ groups }) => ({ path: groups?.["path"] ?? "", isType: groups?.["types"] !== undefined }));
}

/** The package of a specifier; undefined for a relative path and for Node's own modules. */
export function packageOf(path: string): string | undefined {
  if (path.startsWith(".") || path.startsWith("/") || path.startsWith("node:")) return undefined;
  return /^(?:@[^/]+\/)?[^/]+/.exec(path)?.[0];
}

/** Whether `file` loads `target` through relative imports, directly or indirectly; type imports load nothing. Both paths are absolute. */
export function reaches(file: string, target: string): boolean {
  const seen = new Set([file]);
  for (const each of seen) {
    if (each === target) return true;
    for (const next of importsOf(each)) seen.add(next);
  }
  return false;
}

const imported = new Map<string, string[]>();

function importsOf(file: string): string[] {
  const known = imported.get(file);
  if (known) return known;
  const found = importsIn(readFileSync(file, "utf8"))
    .filter(({ path, isType }) => path.startsWith(".") && !isType)
    .map(({ path }) => join(dirname(file), path))
    .filter((path) => path.endsWith(".ts") && existsSync(path) && statSync(path).isFile());
  imported.set(file, found);
  return found;
}

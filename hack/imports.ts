// What a file of TypeScript imports, read from its text: for what looks at the tree instead of running it. Invariant: every
// form that this repository uses is found (import, export … from, import(), require, resolve); words of a comment in that form count too.
const IMPORT =
  /(?<types>\b(?:import|export) type [^;"]*)?(?:\b(?:from|import)\s*|\bimport\(\s*|\brequire\(|\.resolve\()"(?<path>[^"\s]+)"/g;

export interface Import {
  /** As it is written: a relative file, `node:…`, or a package and what of it. */
  readonly path: string;
  /** Of types alone: nothing is loaded. */
  readonly isType: boolean;
}

export function importsIn(source: string): Import[] {
  return [...source.matchAll(IMPORT)].map(({ groups }) => ({ path: groups?.["path"] ?? "", isType: groups?.["types"] !== undefined }));
}

/** The package that a path leads into; none for a relative one and for Node's own. */
export function packageOf(path: string): string | undefined {
  if (path.startsWith(".") || path.startsWith("/") || path.startsWith("node:")) return undefined;
  return /^(?:@[^/]+\/)?[^/]+/.exec(path)?.[0];
}

// Which files the host agent may read, whatever the server says. Invariants: a path is judged by where its symbolic links lead; the
// agent's credentials and state are never read; a stray file that a pattern happens to match is left out, a path that names one is
// refused. A tree is walked a folder at a time, and whoever else has work goes in between.
import { type Dirent, realpathSync } from "node:fs";
import { readdir, realpath, stat } from "node:fs/promises";
import { matchesGlob } from "node:path";

export interface LogPathRules {
  /** Globs (LOG_PATHS_ALLOWED). */
  readonly allowed: readonly string[];
  /** Files and folders of the agent itself. */
  readonly forbidden: readonly string[];
}

const WILDCARD = /[*?]/;

/** Why `path` (a file, or a pattern with `*`, `**`, `?`) may not be read; undefined when it may. */
export function whyRefused(path: string, rules: LogPathRules): string | undefined {
  if (!path.startsWith("/") || path.split("/").includes("..")) return `${path}: not an absolute path without ".."`;
  if (/[{}[\]\\!$\0]/.test(path)) return `${path}: only the wildcards *, ** and ? may be used`;
  if (!rules.allowed.some((allowed) => matchesGlob(path, allowed))) return `${path}: outside LOG_PATHS_ALLOWED of this host`;
  if (WILDCARD.test(path)) return undefined;
  return mayRead(path, rules) ? undefined : `${path}: leads to a file that this host does not allow to be read`;
}

/** What must be excluded from `patterns` now, as globs: symbolic links below their folders that lead outside of what is allowed. */
export async function strayLinks(patterns: readonly string[], rules: LogPathRules): Promise<string[]> {
  const judge = judgeOf(rules);
  const strays: string[] = [];
  for (const folder of new Set(patterns.map((pattern) => folderOf(pattern)))) {
    for await (const link of strayBelow(folder, judge, [])) {
      if (patterns.some((pattern) => matchesGlob(link, pattern)) || (await isFolder(link))) strays.push(link);
    }
  }
  return strays.sort().flatMap((link) => [link, `${link}/**`]);
}

/** `way`: the folders, links resolved, that led here; a link back to one of them would lead round for ever. */
async function* strayBelow(folder: string, judge: (real: string) => boolean, way: readonly string[]): AsyncGenerator<string> {
  const here = await realpath(folder).catch(() => folder);
  if (way.includes(here)) return;
  for (const entry of await entriesOf(folder)) {
    const path = `${folder}/${entry.name}`;
    if (entry.isSymbolicLink() && !judge(await realpath(path).catch(() => resolved(path)))) yield path;
    else if (entry.isDirectory() || entry.isSymbolicLink()) yield* strayBelow(path, judge, [...way, here]);
  }
}

async function isFolder(path: string): Promise<boolean> {
  return (await stat(path).catch(() => undefined))?.isDirectory() ?? false;
}

/** Empty for what is no folder or cannot be read: the collector cannot read it either. */
async function entriesOf(folder: string): Promise<Dirent[]> {
  return readdir(folder, { withFileTypes: true }).catch(() => []);
}

/** The folder before the first wildcard. */
function folderOf(pattern: string): string {
  const wildcard = pattern.search(WILDCARD);
  return pattern.slice(0, pattern.lastIndexOf("/", wildcard === -1 ? undefined : wildcard));
}

/** A file that is not there yet is judged by its folder. */
function mayRead(path: string, rules: LogPathRules): boolean {
  return judgeOf(rules)(resolved(path));
}

/** Whether a path without links may be read. */
function judgeOf(rules: LogPathRules): (real: string) => boolean {
  const forbidden = rules.forbidden.map(resolved);
  const allowed = rules.allowed.map(resolvedPattern);
  return (real) =>
    !forbidden.some((own) => real === own || real.startsWith(`${own}/`)) && allowed.some((pattern) => matchesGlob(real, pattern));
}

function resolved(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const slash = path.lastIndexOf("/");
    return slash <= 0 ? path : `${resolved(path.slice(0, slash))}/${path.slice(slash + 1)}`;
  }
}

/** The part before the first wildcard may itself be reached through symbolic links, as /var/log is on some systems. */
function resolvedPattern(pattern: string): string {
  if (!WILDCARD.test(pattern)) return resolved(pattern);
  const folder = folderOf(pattern);
  return `${folder === "" ? "" : resolved(folder)}${pattern.slice(folder.length)}`;
}

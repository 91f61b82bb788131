// Which files the host agent may read, whatever the server says. Invariants: a path is judged by where its symbolic links lead; the
// agent's credentials and state are never read; a stray file that a pattern happens to match is left out, a path that names one is
// refused. Called by enrolment/remote-config.ts (what the server asks for) and run.ts (what the patterns match now).
import { type Dirent, readdirSync, realpathSync, statSync } from "node:fs";
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
export function strayLinks(patterns: readonly string[], rules: LogPathRules): string[] {
  const folders = new Set(patterns.map((pattern) => folderOf(pattern)));
  return [...folders]
    .flatMap((folder) => strayBelow(folder, rules, []))
    .filter((link) => isFolder(link) || patterns.some((pattern) => matchesGlob(link, pattern)))
    .sort()
    .flatMap((link) => [link, `${link}/**`]);
}

/** `way`: the folders, links resolved, that led here; a link back to one of them would lead round for ever. */
function strayBelow(folder: string, rules: LogPathRules, way: readonly string[]): string[] {
  const here = resolved(folder);
  if (way.includes(here)) return [];
  return entriesOf(folder).flatMap((entry) => {
    const path = `${folder}/${entry.name}`;
    if (entry.isSymbolicLink() && !mayRead(path, rules)) return [path];
    return entry.isDirectory() || entry.isSymbolicLink() ? strayBelow(path, rules, [...way, here]) : [];
  });
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

/** Empty for what is no folder or cannot be read: the collector cannot read it either. */
function entriesOf(folder: string): Dirent[] {
  try {
    return readdirSync(folder, { withFileTypes: true });
  } catch {
    return [];
  }
}

/** The folder before the first wildcard. */
function folderOf(pattern: string): string {
  const wildcard = pattern.search(WILDCARD);
  return pattern.slice(0, pattern.lastIndexOf("/", wildcard === -1 ? undefined : wildcard));
}

/** A file that is not there yet is judged by its folder. */
function mayRead(path: string, rules: LogPathRules): boolean {
  const real = resolved(path);
  if (rules.forbidden.map(resolved).some((own) => real === own || real.startsWith(`${own}/`))) return false;
  return rules.allowed.some((allowed) => matchesGlob(real, resolvedPattern(allowed)));
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

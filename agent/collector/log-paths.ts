// Which files the host agent may read, whatever the server says. Invariants: a path is validated by where its symbolic links lead; the
// agent's credentials and state are never read; a path of the remote configuration that names a forbidden file is refused. What a pattern
// matches is validated when it is opened (agent/log-files).
import { realpathSync } from "node:fs";
import { matchesGlob } from "node:path";
import type { LogFileRules } from "../log-files/open-log-file.ts";
import { PathPatterns } from "../log-files/path-patterns.ts";

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

/**
 * Rules for files that a walk found, by their paths without links. What the operator's own LOG_PATHS name is allowed as well; links are not
 * followed out of it. `paths`: LOG_PATHS of this host.
 */
export function logFileRules(rules: LogPathRules, paths: readonly string[]): LogFileRules {
  const allowed = new PathPatterns([...rules.allowed, ...paths.flatMap(withRotated)].map(resolvedPattern));
  const forbidden = rules.forbidden.map(resolved);
  const isForbidden = (real: string): boolean => forbidden.some((own) => real === own || real.startsWith(`${own}/`));
  return {
    mayRead: (real) => !isForbidden(real) && allowed.matches(real),
    mayEnter: (real) => !isForbidden(real) && allowed.canMatchBelow(real),
  };
}

/** A file rotated while the collector was down still has its last lines unread; it is known by its content, not by its name. */
export function withRotated(path: string): string[] {
  return path.endsWith(".log") ? [path, `${path}.1`] : [path];
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

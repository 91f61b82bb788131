// Decides which log files the host agent may read, whatever the server asks for, and matches glob patterns one path segment at a time.
// Invariants: a path is validated after its symbolic links are resolved; the agent's credentials and state are never read; remote
// configuration cannot name a forbidden file. A matching file is validated again when it is opened (open-files.ts).
import { realpathSync } from "node:fs";
import { matchesGlob } from "node:path";
import type { LogFileRules } from "./open-files.ts";

export interface LogPathRules {
  /** Globs (LOG_PATHS_ALLOWED). Their rotated files may be read, too. */
  readonly allowed: readonly string[];
  /** Files and folders of the agent itself. */
  readonly forbidden: readonly string[];
}

const WILDCARD = /[*?]/;

/** Returns why `path` (a file, or a pattern with `*`, `**`, `?`) may not be read; undefined if it may. */
export function whyRefused(path: string, rules: LogPathRules): string | undefined {
  if (!path.startsWith("/") || path.split("/").includes("..")) return `${path}: not an absolute path without ".."`;
  if (/[{}[\]\\!$\0]/.test(path)) return `${path}: only the wildcards *, ** and ? may be used`;
  if (!rules.allowed.some((allowed) => matchesGlob(path, allowed))) return `${path}: outside LOG_PATHS_ALLOWED of this host`;
  // A file that does not exist yet is validated by its folder.
  if (WILDCARD.test(path) || logFileRules(rules).mayRead(resolveLinks(path))) return undefined;
  return `${path}: leads to a file that this host does not allow to be read`;
}

/** Rules for resolved paths. */
export function logFileRules(rules: LogPathRules): LogFileRules {
  const allowed = new PathPatterns(rules.allowed.map(resolvedPattern));
  const forbidden = rules.forbidden.map(resolveLinks);
  const isForbidden = (real: string): boolean => forbidden.some((folder) => real === folder || real.startsWith(`${folder}/`));
  return {
    mayRead: (real) => !isForbidden(real) && [real, unrotated(real)].some((path) => path !== undefined && allowed.matches(path)),
    mayEnter: (real) => !isForbidden(real) && allowed.canMatchBelow(real),
  };
}

/**
 * A file that was rotated while the collector was down still has unread last lines; the collector recognises it by content, not by name.
 */
export function withRotated(path: string): string[] {
  return path.endsWith(".log") ? [path, `${path}.1`] : [path];
}

/** Numbers, dates and times that a rotation appends to a name, such as `.2` and `-20261129`. */
const ROTATION = /[^/][.-]\d[\d.T_-]{0,40}$/;

/** A path or name without the suffix of a rotation; undefined if it has none. */
export function unrotated(path: string): string | undefined {
  const suffix = ROTATION.exec(path);
  return suffix ? path.slice(0, suffix.index + 1) : undefined;
}

function resolveLinks(path: string): string {
  try {
    return realpathSync(path);
  } catch {
    const slash = path.lastIndexOf("/");
    return slash <= 0 ? path : `${resolveLinks(path.slice(0, slash))}/${path.slice(slash + 1)}`;
  }
}

/** The part before the first wildcard may itself contain symbolic links, as /var/log is on some systems. */
function resolvedPattern(pattern: string): string {
  if (!WILDCARD.test(pattern)) return resolveLinks(pattern);
  const folder = pattern.slice(0, pattern.lastIndexOf("/", pattern.search(WILDCARD)));
  return `${folder === "" ? "" : resolveLinks(folder)}${pattern.slice(folder.length)}`;
}

/** Wildcards of an operator's own patterns, which may contain sets such as `[0-9]`; a server may not use those. */
const GLOB_WILDCARD = /[*?[]/;

interface Segment {
  readonly isRecursive: boolean;
  readonly isLast: boolean;
  readonly matches: (name: string) => boolean;
}

/** Indexes of segments that the next name may match, in ascending order. */
export type Position = readonly number[];

export interface Root {
  /** The folder before the first wildcard. */
  readonly folder: string;
  readonly position: Position;
}

export interface Step {
  /** True if the path up to this name matches a pattern. */
  readonly isMatch: boolean;
  /** Position for the names below; empty if none can match. */
  readonly position: Position;
}

export class PathPatterns {
  readonly roots: readonly Root[];
  readonly #segments: Segment[] = [];

  /** `patterns`: absolute paths. */
  constructor(patterns: readonly string[]) {
    const roots = new Map<string, number[]>();
    for (const pattern of new Set(patterns)) {
      const names = pattern.split("/").slice(1);
      const wildcard = names.findIndex((name) => GLOB_WILDCARD.test(name));
      const literal = wildcard === -1 ? names.length - 1 : wildcard;
      const folder = `/${names.slice(0, literal).join("/")}`;
      const first = this.#segments.length;
      for (const [i, name] of names.entries()) {
        if (i >= literal) this.#segments.push(segment(name, i === names.length - 1));
      }
      roots.set(folder, [...(roots.get(folder) ?? []), ...this.#reachableFrom(first)]);
    }
    this.roots = [...roots].map(([folder, position]) => ({ folder, position }));
  }

  step(position: Position, name: string): Step {
    const next = new Set<number>();
    let isMatch = false;
    for (const at of position) {
      const { isRecursive, isLast, matches } = this.#segments[at] as Segment;
      if (!isRecursive && !matches(name)) continue;
      if (isLast) isMatch = true;
      for (const index of isRecursive ? this.#reachableFrom(at) : isLast ? [] : this.#reachableFrom(at + 1)) next.add(index);
    }
    return { isMatch, position: [...next].sort((a, b) => a - b) };
  }

  matches(path: string): boolean {
    return this.roots.some((root) => this.#walk(root, path)?.isMatch);
  }

  /** Whether a file in or below this folder can match. */
  canMatchBelow(folder: string): boolean {
    return this.roots.some((root) => root.folder === folder || (this.#walk(root, folder)?.position.length ?? 0) > 0);
  }

  /** Undefined for a path that is not below the root. */
  #walk({ folder, position }: Root, path: string): Step | undefined {
    const prefix = folder === "/" ? "/" : `${folder}/`;
    if (!path.startsWith(prefix)) return undefined;
    let step: Step = { isMatch: false, position };
    for (const name of path.slice(prefix.length).split("/")) step = this.step(step.position, name);
    return step;
  }

  /** The segments that the next name may match if it has reached this one: a `**` can also match zero folders. */
  #reachableFrom(index: number): number[] {
    const { isRecursive, isLast } = this.#segments[index] as Segment;
    return isRecursive && !isLast ? [index, ...this.#reachableFrom(index + 1)] : [index];
  }
}

function segment(name: string, isLast: boolean): Segment {
  if (!GLOB_WILDCARD.test(name)) return { isRecursive: false, isLast, matches: (other) => other === name };
  const expression = new RegExp(`^${name.replace(/\[[!^]?[^\]]+\]|\*+|\?|[\\^$.|+(){}[\]]/g, translate)}$`, "su");
  return { isRecursive: name === "**", isLast, matches: (other) => expression.test(other) };
}

function translate(part: string): string {
  if (part.startsWith("*")) return ".*";
  if (part === "?") return ".";
  if (part.length === 1) return `\\${part}`;
  return `[${part.slice(1, -1).replace(/^!/, "^").replaceAll("\\", "\\\\")}]`;
}

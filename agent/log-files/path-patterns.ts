// Matches paths against glob patterns (`*`, `**`, `?`, `[…]`) one name at a time, so that a walk enters only the folders in which a file
// can match. The agent's own, because the walk needs the state after each folder, which `path.matchesGlob` and glob libraries do not give.
// As in the collector, wildcards match names that begin with a dot.

const WILDCARD = /[*?[]/;

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
  /** The path up to this name matches a pattern. */
  readonly isMatch: boolean;
  /** For names below; empty if none can match. */
  readonly position: Position;
}

export class PathPatterns {
  readonly roots: readonly Root[];
  readonly #segments: Segment[] = [];

  /** `patterns`: absolute. */
  constructor(patterns: readonly string[]) {
    const roots = new Map<string, number[]>();
    for (const pattern of new Set(patterns)) {
      const names = pattern.split("/").slice(1);
      const wildcard = names.findIndex((name) => WILDCARD.test(name));
      const literal = wildcard === -1 ? names.length - 1 : wildcard;
      const folder = `/${names.slice(0, literal).join("/")}`;
      const first = this.#segments.length;
      for (const [i, name] of names.entries()) {
        if (i >= literal) this.#segments.push(segment(name, i === names.length - 1));
      }
      roots.set(folder, [...(roots.get(folder) ?? []), ...this.#from(first)]);
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
      for (const index of isRecursive ? this.#from(at) : isLast ? [] : this.#from(at + 1)) next.add(index);
    }
    return { isMatch, position: [...next].sort((a, b) => a - b) };
  }

  matches(path: string): boolean {
    return this.roots.some((root) => this.#walk(root, path)?.isMatch);
  }

  /** A file in this folder, or below it, can match. */
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

  /** A `**` also matches no folder at all, so that the segment after it may be the next one. */
  #from(index: number): number[] {
    const { isRecursive, isLast } = this.#segments[index] as Segment;
    return isRecursive && !isLast ? [index, ...this.#from(index + 1)] : [index];
  }
}

function segment(name: string, isLast: boolean): Segment {
  if (!WILDCARD.test(name)) return { isRecursive: false, isLast, matches: (other) => other === name };
  const expression = new RegExp(`^${name.replace(/\[[!^]?[^\]]+\]|\*+|\?|[\\^$.|+(){}[\]]/g, translate)}$`, "su");
  return { isRecursive: name === "**", isLast, matches: (other) => expression.test(other) };
}

function translate(part: string): string {
  if (part.startsWith("*")) return ".*";
  if (part === "?") return ".";
  if (part.length === 1) return `\\${part}`;
  return `[${part.slice(1, -1).replace(/^!/, "^").replaceAll("\\", "\\\\")}]`;
}

// A trace as a tree of spans, for the CLI and the console: each span below the span that called it, in the order of their starts, and the
// critical path. Invariants: every span is in the tree once, even if its parent is missing, is the span itself, or is part of a circle. The
// work is proportional to the number of spans, and needs no stack.
import type { ApiResponses } from "./api.ts";

export type Span = ApiResponses["GET /query/traces/{trace_id}"][number];
/** The fields of a span that the tree reads. */
export type TimedSpan = Pick<Span, "Timestamp" | "SpanID" | "ParentSpanID" | "DurationMs" | "Error">;

export interface Node<S extends TimedSpan = Span> {
  readonly span: S;
  /** Milliseconds since the trace's first start, with fractions. */
  readonly startMs: number;
  readonly endMs: number;
  depth: number;
  readonly children: Node<S>[];
  /** Number of spans in its subtree, without itself. */
  below: number;
  hasErrorBelow: boolean;
  isCritical: boolean;
}

export interface Tree<S extends TimedSpan = Span> {
  readonly roots: readonly Node<S>[];
  /** Each parent before its children. */
  readonly all: readonly Node<S>[];
  readonly startMs: number;
  readonly durationMs: number;
}

export function buildTree<S extends TimedSpan>(spans: readonly S[]): Tree<S> {
  const starts = spans.map((span) => preciseMs(span.Timestamp));
  const first = starts.reduce((least, { whole }) => Math.min(least, whole), Number.POSITIVE_INFINITY);
  const nodes = spans.map((span, at): Node<S> => {
    const { whole = 0, part = 0 } = starts[at] ?? {};
    const startMs = whole - first + part;
    return { span, startMs, endMs: startMs + span.DurationMs, depth: 0, children: [], below: 0, hasErrorBelow: false, isCritical: false };
  });
  nodes.sort((a, b) => a.startMs - b.startMs || b.endMs - a.endMs);
  const all = ordered(hang(nodes));
  for (const node of all.toReversed())
    for (const child of node.children) {
      node.below += 1 + child.below;
      node.hasErrorBelow ||= child.span.Error || child.hasErrorBelow;
    }
  const roots = all.filter(({ depth }) => depth === 0);
  markCritical(roots);
  const endMs = all.reduce((latest, node) => Math.max(latest, node.endMs), 0);
  return { roots, all, startMs: first, durationMs: Math.max(endMs, 0.001) };
}

/** Adds each span to its parent; returns those without one. */
function hang<S extends TimedSpan>(nodes: readonly Node<S>[]): Node<S>[] {
  const byId = new Map(nodes.toReversed().map((node) => [node.span.SpanID, node]));
  const above = (node: Node<S>): Node<S> | undefined => {
    const parent = byId.get(node.span.ParentSpanID);
    return parent === node ? undefined : parent;
  };
  const cut = closingCircles(nodes, above);
  const roots: Node<S>[] = [];
  for (const node of nodes) (cut.has(node) ? roots : (above(node)?.children ?? roots)).push(node);
  return roots;
}

/** For each cycle of parents, the span whose parent is ignored. Each path to the root is walked once. */
function closingCircles<S extends TimedSpan>(nodes: readonly Node<S>[], above: (node: Node<S>) => Node<S> | undefined): Set<Node<S>> {
  const walkOf = new Map<Node<S>, number>();
  const cut = new Set<Node<S>>();
  for (const [walk, node] of nodes.entries()) {
    let last = node;
    let up: Node<S> | undefined = node;
    for (; up && !walkOf.has(up); up = above(up)) {
      walkOf.set(up, walk);
      last = up;
    }
    if (up && last !== up && walkOf.get(up) === walk) cut.add(last);
  }
  return cut;
}

/** Depth first, with a stack of our own. */
function ordered<S extends TimedSpan>(roots: readonly Node<S>[]): Node<S>[] {
  const all: Node<S>[] = [];
  const stack = roots.toReversed();
  for (let node = stack.pop(); node; node = stack.pop()) {
    all.push(node);
    for (const child of node.children.toReversed()) {
      child.depth = node.depth + 1;
      stack.push(child);
    }
  }
  return all;
}

/** From each root's end backwards: the child that ended last before, then what ended last before that child began. */
function markCritical<S extends TimedSpan>(roots: readonly Node<S>[]): void {
  const stack = roots.map((node) => ({ node, untilMs: node.endMs }));
  for (let next = stack.pop(); next; next = stack.pop()) {
    const { node } = next;
    node.isCritical = true;
    let { untilMs } = next;
    const byEnd = node.children.toSorted((a, b) => b.endMs - a.endMs);
    for (const child of byEnd) {
      // One that outlives its parent was not waited for.
      if (child.endMs > untilMs + 0.0005 || child.endMs <= node.startMs || child.isCritical) continue;
      stack.push({ node: child, untilMs: child.endMs });
      untilMs = child.startMs;
    }
  }
}

/** Parses RFC 3339 with up to nanoseconds. In two parts, because a double would lose microseconds. */
function preciseMs(timestamp: string): { whole: number; part: number } {
  const digits = /\.(\d+)/.exec(timestamp)?.[1] ?? "";
  const part = Number(`0.${digits.slice(3) || "0"}`);
  return { whole: Date.parse(timestamp.replace(/(\.\d{3})\d+/, "$1")), part };
}

/** How long a span worked itself: its time without the time in which at least one of its children ran. Children of one span may overlap. */
export function selfMs<S extends TimedSpan>({ startMs, endMs, children }: Node<S>): number {
  let [covered, until] = [0, startMs];
  // Children are in the order of their starts.
  for (const child of children) {
    const from = Math.max(child.startMs, until);
    const to = Math.min(child.endMs, endMs);
    if (to > from) covered += to - from;
    until = Math.max(until, to);
  }
  return Math.max(0, endMs - startMs - covered);
}

// A trace as a tree of spans: who called whom, in the order of their starts; and the critical path, what the trace's end had to wait for.
// Invariants: every span is in it once, also one whose parent is missing, that is its own parent, or whose parents go in a circle; it takes
// time in proportion to the number of spans, and no stack in proportion to their depth.
export interface Span {
  readonly Timestamp: string;
  readonly TraceID: string;
  readonly SpanID: string;
  readonly ParentSpanID: string;
  readonly Service: string;
  readonly Operation: string;
  readonly DurationMs: number;
  readonly StatusCode: string;
  readonly Error: boolean;
  readonly Kind: string;
  readonly StatusMessage: string;
  readonly Attributes: Readonly<Record<string, string>>;
  readonly Events: readonly { readonly Timestamp: string; readonly Name: string; readonly Attributes: Readonly<Record<string, string>> }[];
  readonly Links: readonly { readonly TraceID: string; readonly SpanID: string; readonly Attributes: Readonly<Record<string, string>> }[];
  readonly Scope: { readonly Name: string; readonly Version: string };
}

export interface Node {
  readonly span: Span;
  /** Milliseconds since the trace's first start, with fractions. */
  readonly startMs: number;
  readonly endMs: number;
  depth: number;
  readonly children: Node[];
  /** In its subtree, itself not counted. */
  below: number;
  hasErrorBelow: boolean;
  isCritical: boolean;
}

export interface Tree {
  readonly roots: readonly Node[];
  /** Each parent before its children. */
  readonly all: readonly Node[];
  readonly startMs: number;
  readonly durationMs: number;
}

export function treeOf(spans: readonly Span[]): Tree {
  const starts = spans.map((span) => preciseMs(span.Timestamp));
  const first = Math.min(...starts.map(({ whole }) => whole));
  const nodes = spans.map((span, at): Node => {
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

/** Puts each under its parent; answers those that have none. */
function hang(nodes: readonly Node[]): Node[] {
  const byId = new Map(nodes.toReversed().map((node) => [node.span.SpanID, node]));
  const above = (node: Node): Node | undefined => {
    const parent = byId.get(node.span.ParentSpanID);
    return parent === node ? undefined : parent;
  };
  const cut = closingCircles(nodes, above);
  const roots: Node[] = [];
  for (const node of nodes) (cut.has(node) ? roots : (above(node)?.children ?? roots)).push(node);
  return roots;
}

/** Of each circle of parents, the one whose parent is left out. Each way up is walked once. */
function closingCircles(nodes: readonly Node[], above: (node: Node) => Node | undefined): Set<Node> {
  const walkOf = new Map<Node, number>();
  const cut = new Set<Node>();
  for (const [walk, node] of nodes.entries()) {
    let last = node;
    let up: Node | undefined = node;
    for (; up && !walkOf.has(up); up = above(up)) {
      walkOf.set(up, walk);
      last = up;
    }
    if (up && last !== up && walkOf.get(up) === walk) cut.add(last);
  }
  return cut;
}

/** Depth first, with a stack of our own. */
function ordered(roots: readonly Node[]): Node[] {
  const all: Node[] = [];
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
function markCritical(roots: readonly Node[]): void {
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

/** Of RFC 3339 with up to nanoseconds; a double would round microseconds away. */
function preciseMs(timestamp: string): { whole: number; part: number } {
  const digits = /\.(\d+)/.exec(timestamp)?.[1] ?? "";
  const part = Number(`0.${digits.slice(3) || "0"}`);
  return { whole: Date.parse(timestamp.replace(/(\.\d{3})\d+/, "$1")), part };
}

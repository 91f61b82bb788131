// Builds a flame graph from a trace: spans with the same service, operation and callers form one frame, as wide as their self time plus
// that of everything below. Invariant: the work is proportional to the number of spans, and uses no recursion.
import { type Node, selfMs, type Tree } from "../../client/trace-tree.ts";

export interface Frame {
  readonly service: string;
  readonly operation: string;
  readonly depth: number;
  /** Share of the whole width, 0 to 1. */
  readonly left: number;
  readonly width: number;
  readonly count: number;
  readonly selfMs: number;
  readonly hasError: boolean;
  /** The id of one of its spans. */
  readonly spanId: string;
}

/** Narrower frames would be invisible. */
const MIN_WIDTH = 0.002;

interface Merged {
  readonly service: string;
  readonly operation: string;
  readonly depth: number;
  readonly nodes: Node[];
  readonly below: Map<string, Merged>;
  selfMs: number;
  /** Self time plus that of everything below. */
  totalMs: number;
}

export function flameFrames(tree: Tree): Frame[] {
  const roots = new Map<string, Merged>();
  const ofNode = new Map<Node, Merged>();
  const all: Merged[] = [];
  const merge = (siblings: Map<string, Merged>, node: Node): void => {
    const { Service: service, Operation: operation } = node.span;
    const key = JSON.stringify([service, operation]);
    let merged = siblings.get(key);
    if (!merged) {
      merged = { service, operation, depth: node.depth, nodes: [], below: new Map(), selfMs: 0, totalMs: 0 };
      siblings.set(key, merged);
      all.push(merged);
    }
    merged.nodes.push(node);
    merged.selfMs += selfMs(node);
    ofNode.set(node, merged);
  };
  for (const root of tree.roots) merge(roots, root);
  // Parents come before their children.
  for (const node of tree.all) for (const child of node.children) merge((ofNode.get(node) as Merged).below, child);
  for (const merged of all.toReversed())
    merged.totalMs = merged.selfMs + [...merged.below.values()].reduce((sum, child) => sum + child.totalMs, 0);
  return placeFrames(roots);
}

function placeFrames(roots: ReadonlyMap<string, Merged>): Frame[] {
  const wholeMs = Math.max(
    0.001,
    [...roots.values()].reduce((sum, { totalMs }) => sum + totalMs, 0),
  );
  const frames: Frame[] = [];
  const open: { readonly siblings: ReadonlyMap<string, Merged>; readonly left: number }[] = [{ siblings: roots, left: 0 }];
  for (let next = open.pop(); next; next = open.pop()) {
    let { left } = next;
    for (const merged of next.siblings.values()) {
      const width = merged.totalMs / wholeMs;
      if (width >= MIN_WIDTH) {
        const { service, operation, depth, nodes, selfMs: ownMs } = merged;
        const hasError = nodes.some(({ span }) => span.Error);
        frames.push({
          service,
          operation,
          depth,
          left,
          width,
          count: nodes.length,
          selfMs: ownMs,
          hasError,
          spanId: nodes[0]?.span.SpanID ?? "",
        });
        open.push({ siblings: merged.below, left });
      }
      left += width;
    }
  }
  return frames;
}

export interface OperationTime {
  readonly service: string;
  readonly operation: string;
  readonly count: number;
  readonly selfMs: number;
  readonly minMs: number;
  readonly maxMs: number;
  readonly errors: number;
  readonly spanId: string;
}

/** Operations by self time, longest first. */
export function operationTimes(tree: Tree): OperationTime[] {
  const groups = Map.groupBy(tree.all, ({ span }) => JSON.stringify([span.Service, span.Operation]));
  const times = [...groups.values()].map((nodes): OperationTime => {
    const durations = nodes.map(({ span }) => span.DurationMs);
    const slowest = nodes.reduce((a, b) => (b.span.DurationMs > a.span.DurationMs ? b : a));
    return {
      service: slowest.span.Service,
      operation: slowest.span.Operation,
      count: nodes.length,
      selfMs: nodes.reduce((sum, node) => sum + selfMs(node), 0),
      minMs: durations.reduce((a, b) => Math.min(a, b)),
      maxMs: slowest.span.DurationMs,
      errors: nodes.filter(({ span }) => span.Error).length,
      spanId: slowest.span.SpanID,
    };
  });
  return times.toSorted((a, b) => b.selfMs - a.selfMs);
}

// Calculates the positions of nodes in the service map: callers to the left of the services that they call, in columns; within a column,
// near their neighbours. Invariants: every node has a position, even if services call each other in a cycle; the work is limited by
// MAX_NODES.
import type { ApiResponses } from "../../client/api.ts";

export type Graph = ApiResponses["GET /query/services/graph"];
export type Edge = Graph["edges"][number];
export type NodeKind = Graph["nodes"][number]["kind"];

/** A larger map is unreadable; the table below it lists every call. */
export const MAX_NODES = 120;
export const NODE_WIDTH_PX = 184;
export const NODE_HEIGHT_PX = 52;
const COLUMN_PX = NODE_WIDTH_PX + 96;
const ROW_PX = NODE_HEIGHT_PX + 24;
const MARGIN_PX = 12;
/** Passes that order each column by its neighbours. */
const PASSES = 6;

export interface PlacedNode {
  readonly key: string;
  readonly name: string;
  readonly kind: NodeKind;
  readonly x: number;
  readonly y: number;
}

export interface PlacedEdge {
  readonly edge: Edge;
  readonly from: PlacedNode;
  readonly to: PlacedNode;
}

export interface Layout {
  readonly nodes: readonly PlacedNode[];
  readonly edges: readonly PlacedEdge[];
  readonly widthPx: number;
  readonly heightPx: number;
  /** Nodes with few calls that are not drawn. */
  readonly omitted: number;
}

interface MapNode extends Pick<PlacedNode, "key" | "name" | "kind"> {
  readonly next: MapNode[];
  readonly previous: MapNode[];
  column: number;
  /** Within its column. */
  row: number;
}

/** A database may have the name of a service. */
export function serverKind({ connection }: Edge): NodeKind {
  return connection === "" || connection === "messaging" ? "service" : connection;
}

const keyOf = (kind: NodeKind, name: string): string => `${kind} ${name}`;

export function neighbourhood({ edges }: Graph, service: string): Edge[] {
  return edges.filter((edge) => edge.client === service || (edge.server === service && serverKind(edge) === "service"));
}

/** `edges`: most calls first. */
export function layOut(edges: readonly Edge[]): Layout {
  const { nodes, drawn, omitted } = collect(edges);
  assignColumns(nodes);
  const columns = orderRows(nodes);
  const tallest = Math.max(1, ...columns.map(({ length }) => length));
  const placed = new Map(
    nodes.map((node): [MapNode, PlacedNode] => {
      const free = tallest - (columns[node.column]?.length ?? 0);
      const position = { x: MARGIN_PX + node.column * COLUMN_PX, y: MARGIN_PX + (node.row + free / 2) * ROW_PX };
      return [node, { key: node.key, name: node.name, kind: node.kind, ...position }];
    }),
  );
  return {
    nodes: columns.flat().map((node) => placed.get(node) as PlacedNode),
    edges: drawn.map(({ edge, from, to }) => ({ edge, from: placed.get(from) as PlacedNode, to: placed.get(to) as PlacedNode })),
    widthPx: Math.max(1, columns.length) * COLUMN_PX - (COLUMN_PX - NODE_WIDTH_PX) + 2 * MARGIN_PX,
    heightPx: tallest * ROW_PX - (ROW_PX - NODE_HEIGHT_PX) + 2 * MARGIN_PX,
    omitted,
  };
}

interface Collected {
  readonly nodes: readonly MapNode[];
  readonly drawn: readonly { readonly edge: Edge; readonly from: MapNode; readonly to: MapNode }[];
  readonly omitted: number;
}

function collect(edges: readonly Edge[]): Collected {
  const byKey = new Map<string, MapNode>();
  const omitted = new Set<string>();
  const findOrAdd = (kind: NodeKind, name: string): MapNode | undefined => {
    const key = keyOf(kind, name);
    const known = byKey.get(key);
    if (known) return known;
    if (byKey.size >= MAX_NODES) return void omitted.add(key);
    const node: MapNode = { key, name, kind, next: [], previous: [], column: 0, row: 0 };
    byKey.set(key, node);
    return node;
  };
  const drawn = edges.flatMap((edge) => {
    const [from, to] = [findOrAdd("service", edge.client), findOrAdd(serverKind(edge), edge.server)];
    if (!from || !to) return [];
    if (from !== to) {
      from.next.push(to);
      to.previous.push(from);
    }
    return [{ edge, from, to }];
  });
  return { nodes: [...byKey.values()], drawn, omitted: omitted.size };
}

/** A node's column is the longest path to it from a node without callers. Calls that close a cycle do not count. */
function assignColumns(nodes: readonly MapNode[]): void {
  const finished = new Set<MapNode>();
  const onPath = new Set<MapNode>();
  const order: MapNode[] = [];
  // Recursion is as deep as the longest path, at most MAX_NODES.
  const visit = (node: MapNode): void => {
    if (finished.has(node) || onPath.has(node)) return;
    onPath.add(node);
    for (const next of node.next) visit(next);
    onPath.delete(node);
    finished.add(node);
    order.push(node);
  };
  const entries = nodes.filter(({ previous }) => previous.length === 0);
  for (const node of [...entries, ...nodes]) visit(node);
  const rank = new Map(order.toReversed().map((node, at) => [node, at]));
  for (const node of order.toReversed())
    for (const next of node.next) if ((rank.get(next) ?? 0) > (rank.get(node) ?? 0)) next.column = Math.max(next.column, node.column + 1);
}

/** Places each node near the mean of its neighbours: https://en.wikipedia.org/wiki/Layered_graph_drawing. */
function orderRows(nodes: readonly MapNode[]): MapNode[][] {
  const columns: MapNode[][] = [];
  for (const node of nodes) (columns[node.column] ??= []).push(node);
  const numberRows = (column: readonly MapNode[]): void => {
    for (const [row, node] of column.entries()) node.row = row - (column.length - 1) / 2;
  };
  for (const column of columns) numberRows(column);
  const mean = (node: MapNode, neighbours: readonly MapNode[]): number =>
    neighbours.length === 0 ? node.row : neighbours.reduce((sum, { row }) => sum + row, 0) / neighbours.length;
  for (let pass = 0; pass < PASSES; pass++) {
    const isForward = pass % 2 === 0;
    for (const column of isForward ? columns : columns.toReversed()) {
      const means = new Map(column.map((node) => [node, mean(node, isForward ? node.previous : node.next)]));
      column.sort((a, b) => (means.get(a) ?? 0) - (means.get(b) ?? 0));
      numberRows(column);
    }
  }
  for (const column of columns) for (const [row, node] of column.entries()) node.row = row;
  return columns;
}

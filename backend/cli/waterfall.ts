// Renders a trace as text: each span below its parent, with a bar at its time within the trace. Invariants: every span has exactly one
// line, whatever its parents are; a line is no wider than the terminal, and text from telemetry cannot control it.
import { buildTree, type Node, type Span } from "../client/trace-tree.ts";
import { truncate, visible } from "./text-table.ts";

export type TraceSpan = Pick<
  Span,
  "Timestamp" | "TraceID" | "SpanID" | "ParentSpanID" | "Service" | "Operation" | "DurationMs" | "Error" | "StatusMessage"
>;

type TraceNode = Node<TraceSpan>;

const MIN_COLUMNS = 60;
const MAX_INDENT = 16;
const MIN_BAR = 10;
const TIME_COLUMNS = 10;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const ERROR_MARK = "  ERROR";

/** Lines for a terminal with this many columns: a title, then a line per span. Needs at least one span. */
export function waterfall(spans: readonly TraceSpan[], columns: number): string[] {
  const nodes = buildTree(spans).all;
  const wholeMs = nodes.reduce((latest, { endMs }) => Math.max(latest, endMs), 0);
  const width = Math.max(MIN_COLUMNS, columns);
  const names = nodes.map(nameOf);
  const nameWidth = Math.min(
    Math.floor(width / 2),
    names.reduce((max, name) => Math.max(max, name.length), 0),
  );
  const mark = nodes.some(({ span }) => span.Error) ? ERROR_MARK : "";
  const barWidth = Math.max(MIN_BAR, width - nameWidth - 2 - TIME_COLUMNS - mark.length);
  const lines = nodes.flatMap((node, at) => {
    const { DurationMs, Error: isError, StatusMessage: message } = node.span;
    const time = durationText(DurationMs).padStart(TIME_COLUMNS);
    const name = truncate(names[at] ?? "", nameWidth).padEnd(nameWidth);
    const line = `${name}  ${barOf(node, wholeMs, barWidth)}${time}${isError ? mark : ""}`;
    const text = isError && message ? [line, `${indentOf(node)}! ${visible(message)}`] : [line];
    return text.map((part) => truncate(part, width));
  });
  return [titleOf(nodes, wholeMs), ...lines];
}

function nameOf(node: TraceNode): string {
  const branch = node.depth === 0 ? "" : `${indentOf(node).slice(2)}└ `;
  return `${branch}${visible(node.span.Service)}: ${visible(node.span.Operation)}`;
}

function indentOf({ depth }: TraceNode): string {
  return "  ".repeat(Math.min(depth, MAX_INDENT));
}

function barOf({ span, startMs }: TraceNode, wholeMs: number, width: number): string {
  const scale = wholeMs > 0 ? width / wholeMs : 0;
  const from = Math.min(width - 1, Math.floor(startMs * scale));
  const length = Math.min(width - from, Math.max(1, Math.round(span.DurationMs * scale)));
  return `${" ".repeat(from)}${(span.Error ? "▒" : "█").repeat(length)}`.padEnd(width);
}

function titleOf(nodes: readonly TraceNode[], wholeMs: number): string {
  const services = new Set(nodes.map(({ span }) => span.Service)).size;
  const errors = nodes.filter(({ span }) => span.Error).length;
  const [first] = nodes;
  const counts = [count(nodes.length, "span"), count(services, "service"), ...(errors > 0 ? [count(errors, "error")] : [])];
  return `${first?.span.TraceID}  ${first?.span.Timestamp}  ${durationText(wholeMs)}  ${counts.join(", ")}`;
}

function count(number: number, noun: string): string {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}

function durationText(ms: number): string {
  if (ms >= DAY_MS) return `${Math.floor(ms / DAY_MS)}d${Math.floor((ms % DAY_MS) / HOUR_MS)}h`;
  if (ms >= HOUR_MS) return `${Math.floor(ms / HOUR_MS)}h${Math.floor((ms % HOUR_MS) / 60_000)}m`;
  if (ms >= 60_000) return `${Math.floor(ms / 60_000)}m${Math.floor((ms % 60_000) / 1000)}s`;
  if (ms >= 1000) return `${(ms / 1000).toFixed(2)} s`;
  return ms >= 1 ? `${ms.toFixed(1)} ms` : `${(ms * 1000).toFixed(0)} µs`;
}

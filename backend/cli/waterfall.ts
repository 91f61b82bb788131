// A trace as text: each span under its parent, with a bar at its time within the trace. Invariant: every span has a line, once,
// whatever the parents say; a line is no wider than the terminal, and text from telemetry cannot steer it.
import { visible } from "./table.ts";

export interface TraceSpan {
  readonly Timestamp: string;
  readonly TraceID: string;
  readonly SpanID: string;
  readonly ParentSpanID: string;
  readonly Service: string;
  readonly Operation: string;
  readonly DurationMs: number;
  readonly Error: boolean;
  readonly StatusMessage: string;
}

interface Placed {
  readonly span: TraceSpan;
  readonly depth: number;
  /** Since the start of the trace. */
  readonly offsetMs: number;
}

const LEAST_COLUMNS = 60;
const DEEPEST_INDENT = 16;
const LEAST_BAR = 10;
const TIME_COLUMNS = 10;
const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
const ERROR_MARK = "  ERROR";

/** Lines for a terminal of so many columns: what it is, then a line for each span. At least one span. */
export function waterfall(spans: readonly TraceSpan[], columns: number): string[] {
  const placed = inOrder(spans);
  const wholeMs = placed.reduce((most, { offsetMs, span }) => Math.max(most, offsetMs + span.DurationMs), 0);
  const width = Math.max(LEAST_COLUMNS, columns);
  const names = placed.map(nameOf);
  const nameWidth = Math.min(
    Math.floor(width / 2),
    names.reduce((most, name) => Math.max(most, name.length), 0),
  );
  const mark = placed.some(({ span }) => span.Error) ? ERROR_MARK : "";
  const barWidth = Math.max(LEAST_BAR, width - nameWidth - 2 - TIME_COLUMNS - mark.length);
  const lines = placed.flatMap((one, at) => {
    const { DurationMs, Error: isError, StatusMessage: message } = one.span;
    const time = durationText(DurationMs).padStart(TIME_COLUMNS);
    const name = cut(names[at] ?? "", nameWidth).padEnd(nameWidth);
    const line = `${name}  ${barOf(one, wholeMs, barWidth)}${time}${isError ? mark : ""}`;
    const text = isError && message ? [line, `${indentOf(one)}! ${visible(message)}`] : [line];
    return text.map((words) => cut(words, width));
  });
  return [headOf(placed, wholeMs), ...lines];
}

/** Depth first, each parent before its children, and these by their start. */
function inOrder(spans: readonly TraceSpan[]): Placed[] {
  const starts = new Map(spans.map((span) => [span, nanoseconds(span.Timestamp)]));
  const startOf = (span: TraceSpan): bigint => starts.get(span) ?? 0n;
  const byStart = spans.toSorted((one, other) => (startOf(one) < startOf(other) ? -1 : Number(startOf(one) > startOf(other))));
  const first = byStart[0] ? startOf(byStart[0]) : 0n;
  const known = new Set(spans.map(({ SpanID }) => SpanID));
  const children = Map.groupBy(byStart, ({ ParentSpanID }) => ParentSpanID);
  const placed: Placed[] = [];
  const seen = new Set<TraceSpan>();
  const place = (root: TraceSpan): void => {
    const waiting = [{ span: root, depth: 0 }];
    for (let next = waiting.pop(); next; next = waiting.pop()) {
      const { span, depth } = next;
      if (seen.has(span)) continue;
      seen.add(span);
      placed.push({ span, depth, offsetMs: Number(startOf(span) - first) / 1e6 });
      const below = (children.get(span.SpanID) ?? []).filter((child) => !seen.has(child));
      waiting.push(...below.toReversed().map((child) => ({ span: child, depth: depth + 1 })));
    }
  };
  for (const span of byStart) if (!known.has(span.ParentSpanID)) place(span);
  // Spans that are each other's parents.
  for (const span of byStart) place(span);
  return placed;
}

function nameOf(one: Placed): string {
  const branch = one.depth === 0 ? "" : `${indentOf(one).slice(2)}└ `;
  return `${branch}${visible(one.span.Service)}: ${visible(one.span.Operation)}`;
}

function indentOf({ depth }: Placed): string {
  return "  ".repeat(Math.min(depth, DEEPEST_INDENT));
}

function barOf({ span, offsetMs }: Placed, wholeMs: number, width: number): string {
  const scale = wholeMs > 0 ? width / wholeMs : 0;
  const from = Math.min(width - 1, Math.floor(offsetMs * scale));
  const length = Math.min(width - from, Math.max(1, Math.round(span.DurationMs * scale)));
  return `${" ".repeat(from)}${(span.Error ? "▒" : "█").repeat(length)}`.padEnd(width);
}

function headOf(placed: readonly Placed[], wholeMs: number): string {
  const services = new Set(placed.map(({ span }) => span.Service)).size;
  const errors = placed.filter(({ span }) => span.Error).length;
  const [first] = placed;
  const counts = [count(placed.length, "span"), count(services, "service"), ...(errors > 0 ? [count(errors, "error")] : [])];
  return `${first?.span.TraceID}  ${first?.span.Timestamp}  ${durationText(wholeMs)}  ${counts.join(", ")}`;
}

function count(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}

function durationText(ms: number): string {
  if (ms >= DAY_MS) return `${Math.floor(ms / DAY_MS)}d${Math.floor((ms % DAY_MS) / HOUR_MS)}h`;
  if (ms >= HOUR_MS) return `${Math.floor(ms / HOUR_MS)}h${Math.floor((ms % HOUR_MS) / 60_000)}m`;
  if (ms >= 60_000) return `${Math.floor(ms / 60_000)}m${Math.floor((ms % 60_000) / 1000)}s`;
  if (ms >= 1000) return `${(ms / 1000).toFixed(2)} s`;
  return ms >= 1 ? `${ms.toFixed(1)} ms` : `${(ms * 1000).toFixed(0)} µs`;
}

function cut(text: string, width: number): string {
  return text.length <= width ? text : `${text.slice(0, width - 1)}…`;
}

/** Nine digits of fraction, as the backend writes times. */
function nanoseconds(timestamp: string): bigint {
  const [seconds = "", fraction = ""] = timestamp.replace(/Z$/, "").split(".");
  return BigInt(Date.parse(`${seconds}Z`)) * 1_000_000n + BigInt(fraction.padEnd(9, "0").slice(0, 9));
}

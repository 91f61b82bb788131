// Renders the number of log records over time as lines of text, each with a bar. Invariant: no line is wider than the terminal, the longest
// bar belongs to the largest count, and every count above 0 has a bar.
import type { ApiResponses } from "../client/api.ts";
import { formatDuration } from "../../common/duration.ts";
import { truncate, visible } from "./text-table.ts";

export type Bucket = ApiResponses["GET /query/logs/histogram"][number];

const MIN_COLUMNS = 32;
const MIN_BAR = 5;
/** With fewer columns, times have no year and no seconds. */
const NARROW_COLUMNS = 60;
const FAILURES = new Set(["error", "fatal"]);

/** A title, a line per bucket, and the count of each level. */
export function histogram(buckets: readonly Bucket[], columns: number): string[] {
  const width = Math.max(MIN_COLUMNS, columns);
  const times = buckets.map(({ start }) => timeText(start, width));
  const totals = buckets.map(({ counts }) => sum(Object.values(counts)));
  const countWidth = Math.max(1, ...totals.map((total) => String(total).length));
  const timeWidth = Math.max(0, ...times.map(({ length }) => length));
  const barWidth = Math.max(MIN_BAR, width - timeWidth - countWidth - 4);
  const max = Math.max(1, ...totals);
  const lines = buckets.map(({ counts }, at) => {
    const total = totals[at] ?? 0;
    const failures = sum(Object.entries(counts).map(([level, count]) => (FAILURES.has(level) ? count : 0)));
    return `${times[at]}  ${String(total).padStart(countWidth)}  ${barOf(total, failures, barWidth / max)}`.trimEnd();
  });
  return [titleOf(buckets, sum(totals)), ...lines, ...levels(buckets)].map((line) => truncate(line, width));
}

/** Failures are drawn first, so that their bars can be compared. */
function barOf(total: number, failures: number, scale: number): string {
  const length = lengthOf(total, scale);
  const failed = Math.min(length, lengthOf(failures, scale));
  return "▒".repeat(failed) + "█".repeat(length - failed);
}

function lengthOf(count: number, scale: number): number {
  return count === 0 ? 0 : Math.max(1, Math.floor(count * scale));
}

function titleOf(buckets: readonly Bucket[], total: number): string {
  if (buckets.length === 0) return "no records";
  // The first and the last interval may be shorter than the others.
  const eachMs = Math.max(...buckets.map(({ start, end }) => Date.parse(end) - Date.parse(start)));
  const each = formatDuration(eachMs < 10_000 ? eachMs : Math.round(eachMs / 1000) * 1000);
  return `${total} record${total === 1 ? "" : "s"}, ${each} a line (UTC), ▒ error and fatal`;
}

function levels(buckets: readonly Bucket[]): string[] {
  const counts = new Map<string, number>();
  for (const bucket of buckets)
    for (const [level, count] of Object.entries(bucket.counts)) counts.set(level, (counts.get(level) ?? 0) + count);
  const sorted = [...counts].toSorted(([, a], [, b]) => b - a);
  return sorted.length === 0 ? [] : [sorted.map(([level, count]) => `${visible(level) || "-"} ${count}`).join(", ")];
}

function timeText(time: string, width: number): string {
  const whole = new Date(time).toISOString();
  return width < NARROW_COLUMNS ? whole.slice(5, 16).replace("T", " ") : whole.slice(0, 19).replace("T", " ");
}

function sum(counts: readonly number[]): number {
  return counts.reduce((all, count) => all + count, 0);
}

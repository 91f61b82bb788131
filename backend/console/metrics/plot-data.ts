// Turns series into the columns that the chart library draws, and their figures for the legend.
import type { AlignedData } from "uplot";
import type { Series } from "./prometheus.ts";

/** A time without a value follows a point if the next one is this many intervals later, so that a line has a gap there. */
const GAP_INTERVALS = 2.5;

/** All series on one time axis, null where a series has no value. */
export function alignSeries(series: readonly Series[]): [times: number[], ...values: (number | null)[][]] {
  const times = withGaps([...new Set(series.flatMap(({ points }) => points.map(([at]) => at)))].sort((a, b) => a - b));
  const indexByTime = new Map(times.map((at, index) => [at, index]));
  const columns = series.map(({ points }) => {
    const column: (number | null)[] = Array.from({ length: times.length }, () => null);
    for (const [at, value] of points) column[indexByTime.get(at) as number] = Number.isFinite(value) ? value : null;
    return column;
  });
  return [times, ...columns];
}

function withGaps(times: readonly number[]): number[] {
  const steps = times.slice(1).map((at, index) => at - (times[index] as number));
  const step = steps.reduce((min, size) => Math.min(min, size), Infinity);
  return times.flatMap((at, index) => ((steps[index] ?? 0) > step * GAP_INTERVALS ? [at, at + step] : [at]));
}

/** Each series on top of those after it, so that the first one is the outline of all. */
export function stack([times, ...columns]: ReturnType<typeof alignSeries>): AlignedData {
  const sums = Array.from({ length: times.length }, () => 0);
  const stacked = columns.toReversed().map((column) => column.map((value, at) => (sums[at] = (sums[at] as number) + (value ?? 0))));
  return [times, ...stacked.toReversed()];
}

export interface Figures {
  readonly last: number;
  readonly min: number;
  readonly max: number;
  readonly mean: number;
}

/** NaN without values. */
export function figuresOf({ points }: Pick<Series, "points">): Figures {
  const values = points.map(([, value]) => value).filter(Number.isFinite);
  if (values.length === 0) return { last: Number.NaN, min: Number.NaN, max: Number.NaN, mean: Number.NaN };
  return {
    last: values.at(-1) as number,
    min: values.reduce((a, b) => Math.min(a, b)),
    max: values.reduce((a, b) => Math.max(a, b)),
    mean: values.reduce((a, b) => a + b, 0) / values.length,
  };
}

/** `+12 %`, `−3 %`, `×6.5`; empty if there is nothing to compare with. */
export function changeText(now: number, before: number): string {
  if (!Number.isFinite(now) || !Number.isFinite(before)) return "";
  if (before === 0) return now === 0 ? "±0 %" : "new";
  const ratio = now / before;
  if (ratio >= 3) return `×${Number(ratio.toPrecision(2))}`;
  const percent = Math.round((ratio - 1) * 100);
  return percent === 0 ? "±0 %" : `${percent > 0 ? "+" : "−"}${Math.abs(percent)} %`;
}

// Computes the series of a range aggregation for each evaluation time, and the functions over a window. Invariant: values are computed in
// the order of time, as in Loki, so that the same input gives the same digits; an evaluation time without a record has no point.
import { ApiError } from "../../errors.ts";
import { MAX_QUERY_POINTS, MAX_QUERY_SERIES } from "../query-limits.ts";
import type { LabelSet, Sample } from "./entry.ts";

/** Call with ascending numbers of evaluation times. */
export interface Points {
  at(stepIndex: number): Sample[];
}

interface CountedSeries {
  readonly labels: LabelSet;
  readonly counts: Float64Array;
  readonly sums: Float64Array;
}

/** The engine returns cells in any order; sorting makes topk choose the same series among equal values each time. */
function sortByLabels<T extends { readonly labels: LabelSet }>(series: Iterable<T>): T[] {
  return [...series].sort((a, b) => (a.labels.key < b.labels.key ? -1 : 1));
}

/** The series with these labels. Throws ApiError query_too_expensive if a new one exceeds the limits of `checkSize`. */
function getOrCreate<T>(seriesByKey: Map<string, T>, { key }: LabelSet, stepCount: number, create: () => T): T {
  let series = seriesByKey.get(key);
  if (!series) {
    checkSize(seriesByKey.size + 1, stepCount);
    seriesByKey.set(key, (series = create()));
  }
  return series;
}

/** Counts per evaluation time: each cell counts from its first to its last one. */
export class CountedPoints implements Points {
  readonly #stepCount: number;
  readonly #divisor: number;
  readonly #series = new Map<string, CountedSeries>();
  #ordered: CountedSeries[] | undefined;

  constructor(stepCount: number, divisor: number) {
    this.#stepCount = stepCount;
    this.#divisor = divisor;
  }

  add(labels: LabelSet, { first, last, n, value }: Pick<PointCell, "first" | "last" | "n" | "value">): void {
    const series = getOrCreate(this.#series, labels, this.#stepCount, () => {
      const cells = this.#stepCount + 1;
      return { labels, counts: new Float64Array(cells), sums: new Float64Array(cells) };
    });
    // The numbers are integers, so subtracting at one end what was added at the other leaves no rounding error.
    series.counts[first] = (series.counts[first] as number) + n;
    series.counts[last + 1] = (series.counts[last + 1] as number) - n;
    series.sums[first] = (series.sums[first] as number) + value;
    series.sums[last + 1] = (series.sums[last + 1] as number) - value;
  }

  at(stepIndex: number): Sample[] {
    const samples: Sample[] = [];
    this.#ordered ??= sortByLabels(this.#series.values());
    for (const { labels, counts, sums } of this.#ordered) {
      if (stepIndex > 0) {
        counts[stepIndex] = (counts[stepIndex] as number) + (counts[stepIndex - 1] as number);
        sums[stepIndex] = (sums[stepIndex] as number) + (sums[stepIndex - 1] as number);
      }
      if (counts[stepIndex] !== 0) samples.push({ labels, value: (sums[stepIndex] as number) / this.#divisor });
    }
    return samples;
  }
}

interface CellSeries {
  readonly labels: LabelSet;
  readonly cells: PointCell[];
  from: number;
  to: number;
}

/** Cells of values, and functions over those of a window. All windows have the same length, so the cells of a window are adjacent. */
export class CellPoints implements Points {
  readonly #compute: (cells: readonly PointCell[]) => number;
  readonly #series = new Map<string, CellSeries>();
  #ordered: CellSeries[] | undefined;

  constructor(compute: (cells: readonly PointCell[]) => number) {
    this.#compute = compute;
  }

  add(labels: LabelSet, cell: PointCell): void {
    getOrCreate(this.#series, labels, 1, () => ({ labels, cells: [], from: 0, to: 0 })).cells.push(cell);
  }

  /** Whether a series has two cells for the same evaluation times. */
  hasDuplicates(): boolean {
    return this.#sorted().some(({ cells }) =>
      cells.some(({ first, last }, index) => first === cells[index - 1]?.first && last === cells[index - 1]?.last),
    );
  }

  at(stepIndex: number): Sample[] {
    const samples: Sample[] = [];
    for (const series of this.#sorted()) {
      const { labels, cells } = series;
      while (series.to < cells.length && (cells[series.to] as PointCell).first <= stepIndex) series.to += 1;
      while (series.from < series.to && (cells[series.from] as PointCell).last < stepIndex) series.from += 1;
      const { from, to } = series;
      if (from < to) samples.push({ labels, value: this.#compute(cells.slice(from, to)) });
    }
    return samples;
  }

  #sorted(): readonly CellSeries[] {
    if (this.#ordered) return this.#ordered;
    for (const { cells } of this.#series.values()) cells.sort((a, b) => a.first - b.first || a.last - b.last);
    return (this.#ordered = sortByLabels(this.#series.values()));
  }
}

/** Values in the order of time, and the functions over the values of a window. */
export class WindowedPoints implements Points {
  readonly #compute: (window: SeriesWindow) => number;
  readonly #window: { readonly stepNs: number; readonly rangeNs: number; readonly parameter: number };
  readonly #series = new Map<string, { labels: LabelSet; times: number[]; values: number[]; from: number; to: number }>();

  constructor(compute: (window: SeriesWindow) => number, window: { stepNs: number; rangeNs: number; parameter: number }) {
    this.#compute = compute;
    this.#window = window;
  }

  /** `timeNs`: since the first evaluation time, including the offset. */
  add(labels: LabelSet, timeNs: number, value: number): void {
    const series = getOrCreate(this.#series, labels, 1, () => ({ labels, times: [], values: [], from: 0, to: 0 }));
    series.times.push(timeNs);
    series.values.push(value);
  }

  at(stepIndex: number): Sample[] {
    const { stepNs, rangeNs, parameter } = this.#window;
    const endNs = stepIndex * stepNs;
    const samples: Sample[] = [];
    for (const series of this.#series.values()) {
      const { labels, times, values } = series;
      while (series.to < times.length && (times[series.to] as number) <= endNs) series.to += 1;
      while (series.from < series.to && (times[series.from] as number) <= endNs - rangeNs) series.from += 1;
      const { from, to } = series;
      if (from < to) samples.push({ labels, value: this.#compute({ times, values, from, to, endNs, rangeNs, parameter }) });
    }
    return samples;
  }
}

export function checkSize(series: number, stepCount: number): void {
  if (series <= MAX_QUERY_SERIES && series * stepCount <= MAX_QUERY_POINTS) return;
  const limits = `more than ${MAX_QUERY_SERIES} series, or ${MAX_QUERY_POINTS} points`;
  throw new ApiError("query_too_expensive", `this query has ${limits}: write sum by (…) around it, or a more specific selector`);
}

/** The `values` of a series that are in a window: from `from` up to but excluding `to`; at least one. */
export interface SeriesWindow {
  /** Nanoseconds since the first evaluation time. */
  readonly times: readonly number[];
  readonly values: readonly number[];
  readonly from: number;
  readonly to: number;
  readonly endNs: number;
  readonly rangeNs: number;
  /** The quantile of quantile_over_time. */
  readonly parameter: number;
}

type RangeFunction = (window: SeriesWindow) => number;

const sum: RangeFunction = ({ values, from, to }) => {
  let total = 0;
  for (let at = from; at < to; at += 1) total += values[at] as number;
  return total;
};

const perSecond =
  (work: RangeFunction): RangeFunction =>
  (window) =>
    work(window) / (window.rangeNs / 1e9);

const average: RangeFunction = ({ values, from, to }) => {
  let [mean, count] = [0, 0];
  for (let at = from; at < to; at += 1) {
    const value = values[at] as number;
    count += 1;
    const isInfinite = mean === Number.POSITIVE_INFINITY || mean === Number.NEGATIVE_INFINITY;
    // An infinite mean stays infinite, unless a value is NaN or the opposite infinity.
    if (isInfinite && (value === mean || Number.isFinite(value))) continue;
    mean += value / count - mean / count;
  }
  return mean;
};

const extreme =
  (isBetter: (value: number, best: number) => boolean): RangeFunction =>
  ({ values, from, to }) => {
    let best = values[from] as number;
    for (let at = from; at < to; at += 1) {
      const value = values[at] as number;
      if (isBetter(value, best) || Number.isNaN(best)) best = value;
    }
    return best;
  };

const variance: RangeFunction = ({ values, from, to }) => {
  let [squares, count, mean] = [0, 0, 0];
  for (let at = from; at < to; at += 1) {
    const value = values[at] as number;
    count += 1;
    const delta = value - mean;
    mean += delta / count;
    squares += delta * (value - mean);
  }
  return squares / count;
};

const quantile: RangeFunction = ({ values, from, to, parameter }) => {
  if (parameter < 0) return Number.NEGATIVE_INFINITY;
  if (parameter > 1) return Number.POSITIVE_INFINITY;
  // NaN sorts first.
  const sorted = values.slice(from, to).sort((a, b) => (Number.isNaN(a) ? -1 : Number.isNaN(b) ? 1 : a - b));
  const rank = parameter * (sorted.length - 1);
  const lower = Math.max(0, Math.floor(rank));
  const upper = Math.min(sorted.length - 1, lower + 1);
  const weight = rank - Math.floor(rank);
  return (sorted[lower] as number) * (1 - weight) + (sorted[upper] as number) * weight;
};

/** The rate of a counter: a decrease is a reset, and the slope is extrapolated to near ends of the window, as in Prometheus. */
const counterRate: RangeFunction = ({ times, values, from, to, endNs, rangeNs }) => {
  if (to - from < 2) return 0;
  const [firstValue, firstNs, lastNs] = [values[from] as number, times[from] as number, times[to - 1] as number];
  let increase = (values[to - 1] as number) - firstValue;
  for (let at = from + 1; at < to; at += 1) if ((values[at] as number) < (values[at - 1] as number)) increase += values[at - 1] as number;
  const sampled = (lastNs - firstNs) / 1e9;
  const between = sampled / (to - from - 1);
  const near = (seconds: number): number => (seconds >= between * 1.1 ? between / 2 : seconds);
  let toStart = near((firstNs - (endNs - rangeNs)) / 1e9);
  if (increase > 0 && firstValue >= 0) toStart = Math.min(toStart, sampled * (firstValue / increase));
  const toEnd = near((endNs - lastNs) / 1e9);
  return (increase * ((sampled + toStart + toEnd) / sampled)) / (rangeNs / 1e9);
};

export const RANGE_FUNCTIONS: Readonly<Record<string, RangeFunction>> = {
  // Each record counts as one.
  count_over_time: ({ from, to }) => to - from,
  rate: perSecond(sum),
  bytes_over_time: sum,
  bytes_rate: perSecond(sum),
  sum_over_time: sum,
  avg_over_time: average,
  min_over_time: extreme((value, best) => value < best),
  max_over_time: extreme((value, best) => value > best),
  stdvar_over_time: variance,
  stddev_over_time: (window) => Math.sqrt(variance(window)),
  quantile_over_time: quantile,
  first_over_time: ({ values, from }) => values[from] as number,
  last_over_time: ({ values, to }) => values[to - 1] as number,
  rate_counter: counterRate,
  absent_over_time: () => 1,
};

/** The engine's result for the records that count for the same evaluation times. */
export interface PointCell {
  readonly first: number;
  readonly last: number;
  /** Number of records. */
  readonly n: number;
  readonly value: number;
  /** Variance of the values in the cell. */
  readonly squares: number;
}

type CellFunction = (cells: readonly PointCell[], rangeNs: number) => number;

const sumOfCells: CellFunction = (cells) => cells.reduce((sum, { value }) => sum + value, 0);
const recordsOf = (cells: readonly PointCell[]): number => cells.reduce((sum, { n }) => sum + n, 0);

/** Combines cells by their means and variances. */
const varianceOfCells: CellFunction = (cells) => {
  const records = recordsOf(cells);
  const mean = cells.reduce((sum, { n, value }) => sum + (value * n) / records, 0);
  return cells.reduce((sum, { n, value, squares }) => sum + (n * (squares + (value - mean) ** 2)) / records, 0);
};

/** The functions for cells whose values the engine has unwrapped and aggregated. */
export const CELL_FUNCTIONS: Readonly<Record<string, CellFunction>> = {
  sum_over_time: sumOfCells,
  rate: (cells, rangeNs) => sumOfCells(cells, rangeNs) / (rangeNs / 1e9),
  avg_over_time: (cells, rangeNs) => sumOfCells(cells, rangeNs) / recordsOf(cells),
  min_over_time: (cells) => cells.reduce((min, { value }) => Math.min(min, value), Number.POSITIVE_INFINITY),
  max_over_time: (cells) => cells.reduce((max, { value }) => Math.max(max, value), Number.NEGATIVE_INFINITY),
  first_over_time: (cells) => (cells[0] as PointCell).value,
  last_over_time: (cells) => (cells.at(-1) as PointCell).value,
  quantile_over_time: (cells) => (cells[0] as PointCell).value,
  stdvar_over_time: varianceOfCells,
  stddev_over_time: (cells, rangeNs) => Math.sqrt(varianceOfCells(cells, rangeNs)),
};

/** Operations for which all records of a window must be in one cell. */
export const NEEDS_SINGLE_CELLS: ReadonlySet<string> = new Set(["first_over_time", "last_over_time", "quantile_over_time"]);

// The series of a range aggregation, moment by moment. Invariant: a moment without a record is no point, which is something else than zero.
import { ApiError } from "../../errors.ts";
import type { LabelSet, Sample } from "./label-set.ts";
import type { PointCell, WindowOf } from "./range-functions.ts";

/** Of all range aggregations of a query together it is what memory allows. */
export const MOST_SERIES = 20_000;
const MOST_POINTS = 5_000_000;

/** Called for one moment after the other. */
export interface Points {
  at(moment: number): Sample[];
}

interface CountedSeries {
  readonly labels: LabelSet;
  readonly counts: Float64Array;
  readonly sums: Float64Array;
}

/** The engine answers cells in any order; of equal values topk takes the same ones each time. */
function inOrder<T extends { readonly labels: LabelSet }>(series: Iterable<T>): T[] {
  return [...series].sort(({ labels: one }, { labels: other }) => (one.key < other.key ? -1 : 1));
}

/** Counts by moments: each cell counts for the moments from its first to its last. */
export class CountedPoints implements Points {
  readonly #moments: number;
  readonly #divisor: number;
  readonly #series = new Map<string, CountedSeries>();
  #ordered: CountedSeries[] | undefined;

  constructor(moments: number, divisor: number) {
    this.#moments = moments;
    this.#divisor = divisor;
  }

  add(labels: LabelSet, { first, last, n, value }: Pick<PointCell, "first" | "last" | "n" | "value">): void {
    let series = this.#series.get(labels.key);
    if (!series) {
      checkSize(this.#series.size + 1, this.#moments);
      const cells = this.#moments + 1;
      series = { labels, counts: new Float64Array(cells), sums: new Float64Array(cells) };
      this.#series.set(labels.key, series);
    }
    // Whole numbers: what is added at one end and taken away at the other leaves nothing behind.
    series.counts[first] = (series.counts[first] as number) + n;
    series.counts[last + 1] = (series.counts[last + 1] as number) - n;
    series.sums[first] = (series.sums[first] as number) + value;
    series.sums[last + 1] = (series.sums[last + 1] as number) - value;
  }

  at(moment: number): Sample[] {
    const samples: Sample[] = [];
    this.#ordered ??= inOrder(this.#series.values());
    for (const { labels, counts, sums } of this.#ordered) {
      if (moment > 0) {
        counts[moment] = (counts[moment] as number) + (counts[moment - 1] as number);
        sums[moment] = (sums[moment] as number) + (sums[moment - 1] as number);
      }
      if (counts[moment] !== 0) samples.push({ labels, value: (sums[moment] as number) / this.#divisor });
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

/** Cells of values, and what is made of those of a window. All windows have one length, so that a window's cells are side by side. */
export class CellPoints implements Points {
  readonly #make: (cells: readonly PointCell[]) => number;
  readonly #series = new Map<string, CellSeries>();
  #ordered: CellSeries[] | undefined;

  constructor(make: (cells: readonly PointCell[]) => number) {
    this.#make = make;
  }

  add(labels: LabelSet, cell: PointCell): void {
    let series = this.#series.get(labels.key);
    if (!series) {
      checkSize(this.#series.size + 1, 1);
      series = { labels, cells: [], from: 0, to: 0 };
      this.#series.set(labels.key, series);
    }
    series.cells.push(cell);
  }

  /** Whether some series has two cells for the same moments. */
  hasTwins(): boolean {
    return this.#sorted().some(({ cells }) => cells.some((cell, index) => isTwin(cell, cells[index - 1])));
  }

  at(moment: number): Sample[] {
    const samples: Sample[] = [];
    for (const series of this.#sorted()) {
      const { labels, cells } = series;
      while (series.to < cells.length && (cells[series.to] as PointCell).first <= moment) series.to += 1;
      while (series.from < series.to && (cells[series.from] as PointCell).last < moment) series.from += 1;
      const { from, to } = series;
      if (from < to) samples.push({ labels, value: this.#make(cells.slice(from, to)) });
    }
    return samples;
  }

  #sorted(): readonly CellSeries[] {
    if (this.#ordered) return this.#ordered;
    for (const { cells } of this.#series.values()) cells.sort((one, other) => one.first - other.first || one.last - other.last);
    return (this.#ordered = inOrder(this.#series.values()));
  }
}

/** Values in the order of time, and what is made of those in a window. */
export class WindowedPoints implements Points {
  readonly #make: (window: WindowOf) => number;
  readonly #window: { readonly stepNs: number; readonly rangeNs: number; readonly parameter: number };
  readonly #series = new Map<string, { labels: LabelSet; times: number[]; values: number[]; from: number; to: number }>();

  constructor(make: (window: WindowOf) => number, window: { stepNs: number; rangeNs: number; parameter: number }) {
    this.#make = make;
    this.#window = window;
  }

  /** `timeNs`: since the first moment, with the offset. */
  add(labels: LabelSet, timeNs: number, value: number): void {
    let series = this.#series.get(labels.key);
    if (!series) {
      checkSize(this.#series.size + 1, 1);
      series = { labels, times: [], values: [], from: 0, to: 0 };
      this.#series.set(labels.key, series);
    }
    series.times.push(timeNs);
    series.values.push(value);
  }

  at(moment: number): Sample[] {
    const { stepNs, rangeNs, parameter } = this.#window;
    const endNs = moment * stepNs;
    const samples: Sample[] = [];
    for (const series of this.#series.values()) {
      const { labels, times, values } = series;
      while (series.to < times.length && (times[series.to] as number) <= endNs) series.to += 1;
      while (series.from < series.to && (times[series.from] as number) <= endNs - rangeNs) series.from += 1;
      const { from, to } = series;
      if (from < to) samples.push({ labels, value: this.#make({ times, values, from, to, endNs, rangeNs, parameter }) });
    }
    return samples;
  }
}

function isTwin(cell: PointCell, before: PointCell | undefined): boolean {
  return cell.first === before?.first && cell.last === before.last;
}

export function checkSize(series: number, moments: number): void {
  if (series <= MOST_SERIES && series * moments <= MOST_POINTS) return;
  const what = `more than ${MOST_SERIES} series, or ${MOST_POINTS} points`;
  throw new ApiError("query_too_expensive", `this query has ${what}: write sum by (…) around it, or a more specific selector`);
}

// The series of a range aggregation, moment by moment. Invariant: a moment without a record is no point, which is something else than zero.
import { ApiError } from "../errors.ts";
import type { LabelSet, Sample } from "./label-set.ts";
import type { WindowOf } from "./range-functions.ts";

/** Of all range aggregations of a query together it is what memory allows. */
export const MOST_SERIES = 20_000;
const MOST_POINTS = 5_000_000;

/** Called for one moment after the other. */
export interface Points {
  at(moment: number): Sample[];
}

/** Counts by moments: each cell counts for the moments from its first to its last. */
export class CountedPoints implements Points {
  readonly #moments: number;
  readonly #divisor: number;
  readonly #series = new Map<string, { labels: LabelSet; counts: Float64Array; sums: Float64Array }>();

  constructor(moments: number, divisor: number) {
    this.#moments = moments;
    this.#divisor = divisor;
  }

  add(labels: LabelSet, { first, last, count, sum }: { first: number; last: number; count: number; sum: number }): void {
    let series = this.#series.get(labels.key);
    if (!series) {
      checkSize(this.#series.size + 1, this.#moments);
      const cells = this.#moments + 1;
      series = { labels, counts: new Float64Array(cells), sums: new Float64Array(cells) };
      this.#series.set(labels.key, series);
    }
    // Whole numbers: what is added at one end and taken away at the other leaves nothing behind.
    series.counts[first] = (series.counts[first] as number) + count;
    series.counts[last + 1] = (series.counts[last + 1] as number) - count;
    series.sums[first] = (series.sums[first] as number) + sum;
    series.sums[last + 1] = (series.sums[last + 1] as number) - sum;
  }

  at(moment: number): Sample[] {
    const samples: Sample[] = [];
    for (const { labels, counts, sums } of this.#series.values()) {
      if (moment > 0) {
        counts[moment] = (counts[moment] as number) + (counts[moment - 1] as number);
        sums[moment] = (sums[moment] as number) + (sums[moment - 1] as number);
      }
      if (counts[moment] !== 0) samples.push({ labels, value: (sums[moment] as number) / this.#divisor });
    }
    return samples;
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

export function checkSize(series: number, moments: number): void {
  if (series <= MOST_SERIES && series * moments <= MOST_POINTS) return;
  const what = `more than ${MOST_SERIES} series, or ${MOST_POINTS} points`;
  throw new ApiError("query_too_expensive", `this query has ${what}: write sum by (…) around it, or a more specific selector`);
}

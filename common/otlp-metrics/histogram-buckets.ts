// Converts OTLP histograms to the cumulative buckets of the text format. Invariants: bounds are strictly ascending; counts decrease only if
// those of the sender do; 64-bit counts stay exact; the bucket below each bucket with values ends where that one begins, because
// `histogram_quantile` interpolates from the previous bound, or from 0. Source: OpenTelemetry specification, metrics/data-model.md, "Histogram"
// and "ExponentialHistogram".
import {
  type Buckets,
  type Double,
  type ExponentialHistogramPoint,
  type HistogramPoint,
  type Int64,
  listOf,
  toCount,
  toDouble,
  toInt32,
} from "./document.ts";
import { MAX_BUCKETS } from "./otlp-metrics-limits.ts";
import { plainDecimal } from "./prometheus-names.ts";

/** A bucket except the last: the number of values at or below its bound. The caller adds `+Inf`, which is the point's count. */
export interface Bucket {
  /** End of the line, up to the value: `le="0.5"} `. */
  readonly le: string;
  readonly count: string;
}

/**
 * Undefined if the point is inconsistent: numbers of counts and bounds that do not match, bounds out of order, counts that are not
 * integers.
 */
export function explicitBuckets(point: HistogramPoint, bounds: BoundsText): Bucket[] | undefined {
  const counts = listOf(point.bucketCounts);
  if (counts.length === 0) return [];
  const numbers = listOf(point.explicitBounds);
  const texts = bounds.of(numbers);
  if (texts === undefined || counts.length !== texts.length + 1) return undefined;
  const sums = runningSums(counts);
  if (sums === undefined) return undefined;
  const buckets = texts.map((le, index) => ({ le, count: sums[index] ?? "0" }));
  // The caller adds it.
  if (toDouble(numbers.at(-1)) === Number.POSITIVE_INFINITY) buckets.pop();
  const first = toDouble(numbers[0]) ?? 0;
  const below = first >= 0 || sums[0] === "0" ? first : lowerEnd(first, toDouble(point.min));
  return below < first ? [{ le: leText(below), count: "0" }, ...buckets] : buckets;
}

/**
 * A bound below all values of the first bucket, whose bound is negative. It is a power of 2, so that a falling minimum seldom adds a
 * series. Without a minimum, it is so near the bound that quantiles are the bound itself, as in Prometheus.
 */
function lowerEnd(first: number, min = first): number {
  const nearest = first * (1 + Number.EPSILON) - Number.MIN_VALUE;
  return Math.max(-Number.MAX_VALUE, min < first ? -(2 ** (Math.floor(Math.log2(-min)) + 1)) : nearest);
}

/** Caches bounds as text while points have the same bounds, as nearly all points of a metric do. */
export class BoundsText {
  #bounds: readonly Double[] = [];
  #texts: string[] | undefined = [];

  /** Undefined unless they are ascending numbers. Some SDKs send +Inf as the last one. */
  of(bounds: readonly Double[]): string[] | undefined {
    if (!this.#isKnown(bounds)) {
      const numbers = bounds.map((bound) => toDouble(bound) ?? Number.NaN);
      const areFit = numbers.every(
        (bound, index) => bound > Number.NEGATIVE_INFINITY && (index === 0 || bound > (numbers[index - 1] ?? bound)),
      );
      this.#bounds = bounds;
      this.#texts = areFit ? numbers.map(leText) : undefined;
    }
    return this.#texts;
  }

  #isKnown(bounds: readonly Double[]): boolean {
    if (bounds.length !== this.#bounds.length) return false;
    for (let index = 0; index < bounds.length; index++) if (bounds[index] !== this.#bounds[index]) return false;
    return true;
  }
}

function leText(bound: number): string {
  return `le="${plainDecimal(bound)}"} `;
}

/** Undefined if a count is not a natural number. */
function runningSums(counts: readonly Int64[]): string[] | undefined {
  let sum = 0;
  const sums: string[] = [];
  for (const count of counts) {
    const number = Number(count);
    sum += number;
    if (!Number.isSafeInteger(sum) || !(number >= 0) || count === "") return exactRunningSums(counts);
    sums.push(String(sum));
  }
  return sums;
}

/**
 * Modulo 2^64: if a bucket of a scraped histogram has fewer values than the one before, because it is not cumulative or changed meanwhile,
 * the collector (v0.149, prometheusreceiver) sends the negative difference as an unsigned number.
 */
function exactRunningSums(counts: readonly Int64[]): string[] | undefined {
  let sum = 0n;
  const sums: string[] = [];
  for (const count of counts) {
    const digits = toCount(count);
    if (digits === undefined) return undefined;
    sum = BigInt.asUintN(64, sum + BigInt(digits));
    sums.push(String(sum));
  }
  return sums;
}

/**
 * The finest scale that is written: 4 buckets per doubling. The bounds of a coarser scale are a subset of those of a finer one, so a
 * histogram that rescales at run time keeps writing its existing series.
 */
const FINEST_SCALE = 2;

/** Coarse enough for any index: indexes are less than 2^33, so each becomes 0 or -1. */
const MAX_STEPS = 40;

/** Converts to fixed buckets, because the text format has no exponential ones. Undefined if scale, offsets or counts are not integers. */
export function exponentialBuckets(point: ExponentialHistogramPoint): Bucket[] | undefined {
  const sentScale = toInt32(point.scale);
  const [usedPositive, usedNegative] = [usedBuckets(point.positive), usedBuckets(point.negative)];
  if (sentScale === undefined || !usedPositive || !usedNegative) return undefined;
  let scale = Math.min(sentScale, FINEST_SCALE);
  const zeroCount = toCount(point.zeroCount);
  const threshold = toDouble(point.zeroThreshold ?? 0) ?? Number.NaN;
  if (zeroCount === undefined || !(threshold >= 0 && threshold < Number.POSITIVE_INFINITY)) return undefined;
  const sides = [usedPositive, usedNegative].filter(({ counts }) => counts.length > 0);
  const boundsAt = (steps: number): number => sides.reduce((sum, side) => sum + mergedRange(side, steps).length + 1, 0);
  while (boundsAt(sentScale - scale) + (zeroCount === "0" ? 0 : 2) > MAX_BUCKETS) scale -= 1;
  const positive = mergeBuckets(usedPositive, sentScale - scale);
  const negative = mergeBuckets(usedNegative, sentScale - scale);
  if (!positive || !negative) return undefined;
  const bound = (index: number): number => (index === 0 ? 1 : 2 ** (index * 2 ** -scale));
  return cumulative([
    runOf(mirrored(negative), (index) => -bound(-index)),
    zeroCount === "0" ? [] : [[-(threshold || (negative.counts.length > 0 ? NEXT_TO_ZERO : 0))], [threshold, BigInt(zeroCount)]],
    runOf(positive, bound),
  ]);
}

/** A threshold of 0 has no lower bound of its own; this is the zero threshold of Prometheus' native histograms. */
const NEXT_TO_ZERO = 2 ** -128;

/** An upper bound and the count of its bucket; without a count, the lower bound of a run. */
type Bound = readonly [bound: number, count?: bigint];

function mirrored({ offset, counts }: ExactBuckets): ExactBuckets {
  return { offset: -offset - counts.length, counts: counts.toReversed() };
}

function runOf({ offset, counts }: ExactBuckets, bound: (index: number) => number): Bound[] {
  if (counts.length === 0) return [];
  return [[Math.max(bound(offset), -Number.MAX_VALUE)], ...counts.map((count, at): Bound => [bound(offset + at + 1), count])];
}

interface UsedBuckets {
  readonly offset: number;
  readonly counts: readonly Int64[];
}

interface ExactBuckets {
  readonly offset: number;
  readonly counts: bigint[];
}

/**
 * Removes empty buckets at both ends. Senders first reserve 20 buckets, most of them empty, and fewer later. If the empty ones were
 * written, their series would end, and keep their last value above the growing ones until the store's lookback period is over. The lower
 * bound of a run does no such harm: when smaller values come, it is the bound of a bucket, and its series goes on; should it end, its last
 * value is below all others. Undefined if the offset is not a 32-bit integer.
 */
function usedBuckets(buckets: Buckets | undefined): UsedBuckets | undefined {
  const offset = toInt32(buckets?.offset);
  if (offset === undefined) return undefined;
  const counts = listOf(buckets?.bucketCounts);
  const first = counts.findIndex(isUsed);
  if (first < 0) return { offset, counts: [] };
  return { offset: offset + first, counts: counts.slice(first, counts.findLastIndex(isUsed) + 1) };
}

function isUsed(count: Int64): boolean {
  return count !== "0" && count !== 0;
}

/** The range of buckets at a scale that is lower by `steps`: computed without counts, so that many counts are summed only once. */
function mergedRange({ offset, counts }: UsedBuckets, steps: number): { width: number; offset: number; length: number } {
  const width = 2 ** Math.min(steps, MAX_STEPS);
  const first = Math.floor(offset / width);
  const length = counts.length === 0 ? 0 : Math.floor((offset + counts.length - 1) / width) - first + 1;
  return { width, offset: first, length };
}

/** Merges 2^steps adjacent buckets into one, as a lower scale requires. Undefined if a count is not a natural number. */
function mergeBuckets(buckets: UsedBuckets, steps: number): ExactBuckets | undefined {
  const { width, offset, length } = mergedRange(buckets, steps);
  // BigInt is several times slower: it is only used for sums that a double cannot represent exactly.
  const sums = new Float64Array(length);
  const exactSums = Array.from({ length }, () => 0n);
  for (let index = 0; index < buckets.counts.length; index += 1) {
    const digits = toCount(buckets.counts[index]);
    if (digits === undefined) return undefined;
    const at = Math.floor((buckets.offset + index) / width) - offset;
    const sum = (sums[at] ?? 0) + Number(digits);
    if (Number.isSafeInteger(sum)) sums[at] = sum;
    else exactSums[at] = (exactSums[at] ?? 0n) + BigInt(digits);
  }
  return { offset, counts: exactSums.map((count, at) => count + BigInt(sums[at] ?? 0)) };
}

/** Bounds too large for a double are omitted (`+Inf` includes their counts), and those too small for it become 0. */
function cumulative(runs: readonly (readonly Bound[])[]): Bucket[] {
  const buckets: Bucket[] = [];
  let sum = 0n;
  let last = Number.NEGATIVE_INFINITY;
  for (const [bound, count] of runs.flat()) {
    sum += count ?? 0n;
    if (!Number.isFinite(bound) || (count === undefined && bound <= last)) continue;
    if (bound <= last) buckets.pop();
    last = Math.max(bound, last);
    buckets.push({ le: leText(last === 0 ? 0 : last), count: String(sum) });
  }
  return buckets;
}

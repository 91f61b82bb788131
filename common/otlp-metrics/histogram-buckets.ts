// Histograms of OTLP as the cumulative buckets of the text format. Invariant: bounds ascend strictly, counts never fall, 64-bit counts stay
// exact. Source: OpenTelemetry specification, metrics/data-model.md, "Histogram" and "ExponentialHistogram".
import {
  type Buckets,
  type Double,
  type ExponentialHistogramPoint,
  type HistogramPoint,
  type Int64,
  toDigits,
  toDouble,
} from "./document.ts";
import { MAX_BUCKETS } from "./limits.ts";
import { plainDecimal } from "./prometheus-names.ts";

/** One bucket but the last: how many values are at or below its bound. `+Inf` is the point's count, added by the caller. */
export interface Bucket {
  /** The end of the line up to its value: `le="0.5"} `. */
  readonly le: string;
  readonly count: string;
}

/** Undefined when the point contradicts itself: counts and bounds that do not match, bounds out of order, counts that are not integers. */
export function explicitBuckets(point: HistogramPoint, bounds: BoundsText): Bucket[] | undefined {
  const counts = point.bucketCounts ?? [];
  if (counts.length === 0) return [];
  const texts = bounds.of(point.explicitBounds ?? []);
  if (texts === undefined || counts.length !== texts.length + 1) return undefined;
  const sums = runningSums(counts);
  return sums && texts.map((le, index) => ({ le, count: sums[index] ?? "0" }));
}

/** Bounds as text, kept while points have the same bounds, as all points of a metric nearly always do. */
export class BoundsText {
  #bounds: readonly Double[] = [];
  #texts: string[] | undefined = [];

  /** Undefined when they are not finite numbers that ascend. */
  of(bounds: readonly Double[]): string[] | undefined {
    if (!this.#isKnown(bounds)) {
      const numbers = bounds.map((bound) => toDouble(bound) ?? Number.NaN);
      const areFit = numbers.every((bound, index) => Number.isFinite(bound) && (index === 0 || bound > (numbers[index - 1] ?? bound)));
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

/** Undefined when a count is not a natural number. */
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

function exactRunningSums(counts: readonly Int64[]): string[] | undefined {
  let sum = 0n;
  const sums: string[] = [];
  for (const count of counts) {
    const digits = toDigits(count);
    if (digits === undefined || digits.startsWith("-")) return undefined;
    sum += BigInt(digits);
    sums.push(String(sum));
  }
  return sums;
}

/**
 * The finest scale that is written: 4 buckets for each doubling. The bounds of a coarser scale are among those of a finer one, so a
 * histogram that rescales while it runs keeps writing series that it has written before.
 */
const FINEST_SCALE = 2;

/** As fixed buckets, because the text format has no exponential ones. Undefined when counts are not integers. */
export function exponentialBuckets(point: ExponentialHistogramPoint): Bucket[] | undefined {
  const given = point.scale ?? 0;
  if (!Number.isInteger(given)) return undefined;
  let scale = Math.min(given, FINEST_SCALE);
  const [used, usedBelow] = [withoutEmptyEnds(point.positive), withoutEmptyEnds(point.negative)];
  let positive = coarser(used, given - scale);
  let negative = coarser(usedBelow, given - scale);
  while (positive && negative && positive.counts.length + negative.counts.length > MAX_BUCKETS) {
    scale -= 1;
    positive = coarser(used, given - scale);
    negative = coarser(usedBelow, given - scale);
  }
  const zeroCount = toDigits(point.zeroCount ?? 0);
  if (!positive || !negative || zeroCount === undefined || zeroCount.startsWith("-")) return undefined;
  const bound = (index: number): number => 2 ** (index * 2 ** -scale);
  const ascending: [number, bigint][] = [
    ...negative.counts.map((count, index): [number, bigint] => [-bound(negative.offset + index), count]).toReversed(),
    ...(zeroCount === "0" ? [] : [[toDouble(point.zeroThreshold) ?? 0, BigInt(zeroCount)] as [number, bigint]]),
    ...positive.counts.map((count, index): [number, bigint] => [bound(positive.offset + index + 1), count]),
  ];
  return cumulative(ascending);
}

interface ExactBuckets {
  readonly offset: number;
  readonly counts: bigint[];
}

/**
 * Senders give buckets on approval: 20 at first, with most of them empty, and fewer later. Written, the empty ones beyond the last used
 * would be series that end, and stand still above the growing ones for as long as the store looks back.
 */
function withoutEmptyEnds({ offset = 0, bucketCounts = [] }: Buckets = {}): Buckets {
  const first = bucketCounts.findIndex(isUsed);
  if (first < 0) return { offset, bucketCounts: [] };
  return { offset: offset + first, bucketCounts: bucketCounts.slice(first, bucketCounts.findLastIndex(isUsed) + 1) };
}

function isUsed(count: Int64): boolean {
  return toDigits(count) !== "0";
}

/** Merges 2^steps neighbours into one, as a lower scale has them. Undefined when a count is not a natural number. */
function coarser(buckets: Buckets | undefined, steps: number): ExactBuckets | undefined {
  const given = buckets?.bucketCounts ?? [];
  const from = buckets?.offset ?? 0;
  const width = 2 ** steps;
  const offset = Math.floor(from / width);
  const counts: bigint[] = [];
  for (const [index, count] of given.entries()) {
    const digits = toDigits(count);
    if (digits === undefined || digits.startsWith("-")) return undefined;
    const at = Math.floor((from + index) / width) - offset;
    while (counts.length <= at) counts.push(0n);
    counts[at] = (counts[at] ?? 0n) + BigInt(digits);
  }
  return { offset, counts };
}

/** Bounds beyond what a double holds fall away at the top (they are in +Inf) and into 0 at the bottom. */
function cumulative(ascending: readonly [number, bigint][]): Bucket[] {
  const buckets: Bucket[] = [];
  let sum = 0n;
  let last = Number.NEGATIVE_INFINITY;
  for (const [bound, count] of ascending) {
    sum += count;
    if (bound === Number.POSITIVE_INFINITY || bound === Number.NEGATIVE_INFINITY) continue;
    if (bound <= last) buckets.pop();
    last = Math.max(bound, last);
    buckets.push({ le: leText(last === 0 ? 0 : last), count: String(sum) });
  }
  return buckets;
}

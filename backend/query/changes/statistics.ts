// The statistical tests of GET /query/changes (docs/what-changed.md): each compares counts of two ranges and returns a two-sided p-value,
// corrected for counts that vary more than independent events do. Invariant: no test passes without its minimum count, so a few events
// never look like a change.

/** Share of false changes among those that are reported, at most (Benjamini and Hochberg, 1995). */
export const FALSE_DISCOVERY_RATE = 0.01;

export interface Proportion {
  readonly hits: number;
  readonly trials: number;
}

/** The two-proportion z-test with pooled variance; `dispersion` divides z², as in a quasi-binomial model. */
export function compareProportions(before: Proportion, now: Proportion, dispersion = 1): number {
  const trials = before.trials + now.trials;
  if (before.trials === 0 || now.trials === 0) return 1;
  const pooled = (before.hits + now.hits) / trials;
  const variance = pooled * (1 - pooled) * (1 / before.trials + 1 / now.trials) * dispersion;
  if (variance === 0) return 1;
  return twoSided((now.hits / now.trials - before.hits / before.trials) / Math.sqrt(variance));
}

/**
 * Compares two Poisson counts with different exposures (lengths of time × sampled shares), by the conditional test with square roots
 * (Krishnamoorthy and Thomson, 2004), which needs no normal approximation of small counts.
 */
export function compareCounts(before: number, now: number, exposureRatio: number, dispersion = 1): number {
  const z = (2 * (Math.sqrt(now + 3 / 8) - Math.sqrt((before + 3 / 8) * exposureRatio))) / Math.sqrt(1 + exposureRatio);
  return twoSided(z / Math.sqrt(dispersion));
}

/** How much more counts vary than Poisson counts: Pearson's χ² per degree of freedom, at least 1. */
export function dispersionOfCounts(counts: readonly number[]): number {
  const mean = sum(counts) / counts.length;
  if (counts.length < 2 || mean === 0) return 1;
  return Math.max(1, sum(counts.map((n) => (n - mean) ** 2 / mean)) / (counts.length - 1));
}

/** The same for shares: of points with too few trials, none is used. */
export function dispersionOfShares(points: readonly Proportion[]): number {
  const used = points.filter(({ trials }) => trials > 0);
  const share = sum(used.map(({ hits }) => hits)) / sum(used.map(({ trials }) => trials));
  if (used.length < 2 || !(share > 0 && share < 1)) return 1;
  const squares = used.map(({ hits, trials }) => (hits - trials * share) ** 2 / (trials * share * (1 - share)));
  return Math.max(1, sum(squares) / (used.length - 1));
}

/** The tests that pass with the false discovery rate (Benjamini–Hochberg), in their order. */
export function discoveries<T extends { readonly p: number }>(tests: readonly T[], rate = FALSE_DISCOVERY_RATE): T[] {
  const sorted = tests.map(({ p }) => p).toSorted((a, b) => a - b);
  const last = sorted.findLastIndex((p, at) => p <= (rate * (at + 1)) / sorted.length);
  const limit = last < 0 ? -1 : (sorted[last] as number);
  return tests.filter(({ p }) => p <= limit);
}

export function sum(numbers: Iterable<number>): number {
  let total = 0;
  for (const n of numbers) total += n;
  return total;
}

function twoSided(z: number): number {
  return errorFunctionComplement(Math.abs(z) / Math.SQRT2);
}

/** Numerical Recipes' erfc: a relative error below 1.2e-7 everywhere, so that p-values far below 1e-16 keep their order. */
function errorFunctionComplement(x: number): number {
  const t = 1 / (1 + x / 2);
  const coefficients = [
    -1.26551223, 1.00002368, 0.37409196, 0.09678418, -0.18628806, 0.27886807, -1.13520398, 1.48851587, -0.82215223, 0.17087277,
  ];
  const polynomial = coefficients.reduceRight((value, coefficient) => value * t + coefficient, 0);
  return t * Math.exp(-x * x + polynomial);
}

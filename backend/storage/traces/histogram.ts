// Histograms of durations, as the projection `minutes` stores them (migrations/008-span-summaries.sql): how a span finds its bucket, and
// how SQL reads a quantile from merged buckets. Invariant: merging adds counts only, so a quantile of any range is the one that all of
// its spans would give, at most the width of a bucket (19 %) off.
import { type Sql, sql } from "../../engines/clickhouse/sql.ts";

/** Bucket n ends at 2^(n/4) ms. */
export const BUCKETS_PER_DOUBLING = 4;
/** Shorter spans count as a microsecond. */
const LEAST_NS = 1000;

/** Exactly the expressions of the projection: the engine recognises no others. */
export const DURATION_SUM = sql`sum(toFloat64(duration_ns))`;
export const DURATION_BUCKET = sql`toInt16(ceil(log2(greatest(duration_ns, 1000) / 1000000) * 4))`;
export const DURATION_BUCKETS = sql`sumMap(map(${DURATION_BUCKET}, toUInt64(1)))`;

/** The same in JavaScript. */
export function bucketOf(durationNs: number): number {
  return Math.ceil(Math.log2(Math.max(durationNs, LEAST_NS) / 1e6) * BUCKETS_PER_DOUBLING);
}

/** The end of a bucket, in milliseconds. */
export function upperBoundMs(bucket: number): number {
  return 2 ** (bucket / BUCKETS_PER_DOUBLING);
}

/** Columns that `quantileMs` reads, from a Map that is sorted by key, as sumMap returns it. */
export function histogramColumns(buckets: Sql): Sql {
  return sql`mapKeys(${buckets}) AS keys, mapValues(${buckets}) AS counts, arrayCumSum(counts) AS ends`;
}

/** Milliseconds, within the bucket that has the rank; NULL without spans. `quantile`: 0.95, with up to three digits. */
export function quantileMs(quantile: number): Sql {
  const rank = sql`greatest(1, arraySum(counts) * ${Math.round(quantile * 1000)} / 1000)`;
  const at = sql`arrayFirstIndex(end -> end >= ${rank}, ends)`;
  const part = sql`(${rank} - (ends[${at}] - counts[${at}])) / counts[${at}]`;
  return sql`if(empty(ends), NULL, exp2((keys[${at}] - 1 + ${part}) / ${BUCKETS_PER_DOUBLING}))`;
}

// Defines the histograms of durations that the projections `minutes` (migrations/008-span-summaries.sql) and `services`
// (017-service-minutes.sql) store: which bucket a span belongs to, and how SQL reads a quantile from merged buckets. Invariant: merging
// only adds counts, so a quantile of any range equals one computed from all its spans at once, accurate to the width of a bucket (19 %).
import { Sql, sql } from "../../engines/clickhouse/sql.ts";

/** Bucket n ends at 2^(n/4) ms. */
export const BUCKETS_PER_DOUBLING = 4;
/** Shorter spans count as one microsecond. */
const MIN_NS = 1000;

/** Must equal the expressions of the projection: the engine recognises no others. */
export const DURATION_SUM = sql`sum(toFloat64(duration_ns))`;
export const DURATION_BUCKET = sql`toInt16(ceil(log2(greatest(duration_ns, 1000) / 1000000) * 4))`;
export const DURATION_BUCKETS = sql`sumMap(map(${DURATION_BUCKET}, toUInt64(1)))`;

/** The bucket of a duration, as SQL computes it. */
export function bucketOf(durationNs: number): number {
  return Math.ceil(Math.log2(Math.max(durationNs, MIN_NS) / 1e6) * BUCKETS_PER_DOUBLING);
}

export function upperBoundMs(bucket: number): number {
  return 2 ** (bucket / BUCKETS_PER_DOUBLING);
}

/** The columns that `quantileMs` reads, from a Map sorted by key, as sumMap returns it. */
export function histogramColumns(buckets: Sql): Sql {
  return sql`mapKeys(${buckets}) AS keys, mapValues(${buckets}) AS counts, arrayCumSum(counts) AS ends`;
}

/** A quantile in milliseconds, interpolated within its bucket; NULL without spans. `quantile`: 0.95, with up to three digits. */
export function quantileMs(quantile: number): Sql {
  const rank = sql`greatest(1, arraySum(counts) * ${Math.round(quantile * 1000)} / 1000)`;
  const at = sql`arrayFirstIndex(end -> end >= ${rank}, ends)`;
  const part = sql`(${rank} - (ends[${at}] - counts[${at}])) / counts[${at}]`;
  return sql`if(empty(ends), NULL, exp2((keys[${at}] - 1 + ${part}) / ${BUCKETS_PER_DOUBLING}))`;
}

/** The longest interval that can be packed: eight buckets share a number of 256 bits, and 32 bits hold the calls of an hour. */
export const MAX_PACKED_S = 3600;
const PACKED = 8;
const LOWEST = bucketOf(0);
const POSITION = sql`${DURATION_BUCKET} + ${-LOWEST}`;
const NONE = sql`CAST([], 'Array(UInt256)')`;

/** Must equal the expression of the projection: an Array(UInt256) of packed buckets. */
export function packedBuckets(condition: Sql): Sql {
  return sql`sumForEach(if(${condition}, arrayPushBack(arrayResize(${NONE}, intDiv(${POSITION}, 8)),
    bitShiftLeft(toUInt256(1), toUInt8((${POSITION}) % 8 * 32))), ${NONE}))`;
}

/** A number of 256 bits that repeats `word` every `bits`. */
function repeatWord(word: bigint, bits: number): Sql {
  const words = Array.from({ length: 256 / bits }, (_, index) => word << BigInt(index * bits));
  return sql`toUInt256(${String(words.reduce((sum, part) => sum + part))})`;
}

/**
 * The column `ms`, and the columns that it is computed from, of `calls` and an array `packed`; -1 without calls. It equals `quantileMs` but
 * suits many rows: a multiplication by ones sums up the buckets of a number, so only one number of each row is unpacked.
 */
export function packedQuantileMs(quantile: number): Sql {
  const ones = repeatWord(1n, 32);
  return sql`arrayMap(number -> toUInt32(bitShiftRight(number * ${ones}, 224)), packed) AS sums, arrayCumSum(sums) AS ends,
    greatest(1, calls * ${Math.round(quantile * 1000)} / 1000) AS rank, arrayFirstIndex(end -> end >= rank, ends) AS number_at,
    reinterpret(reinterpretAsFixedString(packed[number_at] * ${ones}), 'Array(UInt32)') AS ends_within, rank - (ends[number_at] - sums[number_at]) AS rank_within,
    arrayFirstIndex(end -> end >= rank_within, ends_within) AS at, ends_within[at - 1] AS below, (rank_within - below) / (ends_within[at] - below) AS part,
    ifNotFinite(exp2(((toInt32(number_at) - 1) * ${PACKED} + at - 2 + ${LOWEST} + part) / ${BUCKETS_PER_DOUBLING}), -1.) AS ms`;
}

/** The columns `evens` and `odds`: every second bucket of `packed`, in 64 bits each, so that sums over any range fit. */
export function unpackedHalves(aggregate: (halves: Sql) => Sql): Sql {
  const mask = repeatWord(0xffffffffn, 64);
  return sql`${aggregate(sql`arrayMap(number -> bitAnd(number, ${mask}), packed)`)} AS evens,
    ${aggregate(sql`arrayMap(number -> bitAnd(bitShiftRight(number, 32), ${mask}), packed)`)} AS odds`;
}

const wordsOf = (half: string): Sql => sql`reinterpret(reinterpretAsFixedString(${new Sql(half)}), 'Array(UInt64)')`;
/** The column `buckets` of `evens` and `odds`: a Map, as in the projection `minutes`. */
export const BUCKETS_OF_HALVES = sql`arrayFlatten(arrayMap((even, odd) -> arrayFlatten(arrayMap((one, next) -> [one, next],
  ${wordsOf("even")}, ${wordsOf("odd")})), evens, odds)) AS packed_counts,
  mapFromArrays(arrayMap(at -> toInt16(at - 1 + ${LOWEST}), arrayEnumerate(packed_counts)), packed_counts) AS buckets`;

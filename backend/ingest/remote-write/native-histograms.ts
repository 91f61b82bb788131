// Converts native histograms of remote write to classic series (`_bucket`, `_sum`, `_count`), with the same buckets as exponential
// histograms of OTLP, because the metrics engine has no others. Invariants: each histogram is stored whole or counted as refused with its
// reason; the work is bounded by MAX_HISTOGRAM_BUCKETS, whatever gaps a histogram claims to have.
// Source: prometheus/prompb/types.proto and io/prometheus/write/v2/types.proto, whose fields have the same numbers.
import { BodyError, type ExponentialHistogramPoint } from "../../../common/otlp-metrics/document.ts";
import { BoundsText, type Bucket, explicitBuckets, exponentialBuckets } from "../../../common/otlp-metrics/histogram-buckets.ts";
import { decodeMessage } from "../../../common/protobuf/decode-request.ts";
import { many, message, packed, scalar } from "../../../common/protobuf/protobuf-messages.ts";
import { BYTES } from "../../../common/protobuf/wire-reader.ts";
import type { SeriesLimits } from "../exposition/plain-lines.ts";
import { MAX_HISTOGRAM_BUCKETS, MAX_REWRITTEN_BYTES } from "../ingest-limits.ts";
import { tooManyLabels } from "./series-output.ts";
import type { WriteRequest } from "./write-request.ts";

export type Refusal =
  | "float_histogram"
  | "malformed_histogram"
  | "native_histogram_limit"
  | "before_retention"
  | "too_far_ahead"
  | "not_a_number";

/** Buckets of a histogram with custom bounds, and of the finest and coarsest exponential ones. */
const [CUSTOM_SCHEMA, MIN_SCHEMA, MAX_SCHEMA] = [-53, -4, 8];
/** The scale at which buckets are summed: exponentialBuckets writes no finer one. */
const SUMMED_SCALE = 2;
/** Doublings between the smallest and the largest double, times the buckets of one. */
const MAX_INDEX = 1100 * 2 ** SUMMED_SCALE;

const SPAN = message({ 1: scalar("sint32", "offset"), 2: scalar("uint32", "length") });
const HISTOGRAM = message({
  1: scalar("uint64", "count"),
  2: scalar("double", "floatCount"),
  3: scalar("double", "sum"),
  4: scalar("sint32", "schema"),
  5: scalar("double", "zeroThreshold"),
  6: scalar("uint64", "zeroCount"),
  7: scalar("double", "floatZeroCount"),
  8: many("negativeSpans", () => SPAN),
  9: packed("sint64", "negativeDeltas"),
  10: packed("double", "negativeCounts"),
  11: many("positiveSpans", () => SPAN),
  12: packed("sint64", "positiveDeltas"),
  13: packed("double", "positiveCounts"),
  15: scalar("int64", "timeMs"),
  16: packed("double", "bounds"),
});
/** Only histograms whose counts are not integers have these. */
const FLOAT_FIELDS = ["floatCount", "floatZeroCount", "negativeCounts", "positiveCounts"];

/** Buckets as runs of indexes, and each count as the difference to the one before. */
interface Side {
  readonly spans: readonly { readonly offset?: number; readonly length?: number }[];
  readonly deltas: readonly number[];
}

interface Sent {
  readonly count: number;
  readonly sum: number;
  readonly schema: number;
  readonly zeroThreshold: number;
  readonly zeroCount: number;
  readonly timeMs: number;
  readonly positive: Side;
  readonly negative: Side;
  readonly bounds: number[];
}

export class NativeHistograms {
  readonly #limits: Pick<SeriesLimits, "oldestMs" | "newestMs">;
  readonly #pieces: Buffer[] = [];
  #bytes = 0;
  #buckets = 0;
  #converted = 0;

  constructor(limits: Pick<SeriesLimits, "oldestMs" | "newestMs">) {
    this.#limits = limits;
  }

  get converted(): number {
    return this.#converted;
  }

  /** Converts the histograms of the current series; `refuse` is called for each that is not. Throws `batch_too_large`. */
  add(request: WriteRequest, refuse: (reason: Refusal) => void): void {
    const labels = request.labelTexts();
    const name = labels.find(([label]) => label === "__name__")?.[1] ?? "";
    const others = labels.filter(([label]) => label !== "__name__" && label !== "le");
    for (const [start, end] of request.histogramRanges()) {
      const converted = this.#convert(request.bytes.subarray(start, end));
      if (typeof converted === "string") {
        refuse(converted);
        continue;
      }
      const { buckets, sent } = converted;
      for (const bucket of buckets)
        this.#series(`${name}_bucket`, [...others, ["le", /"(.*)"/.exec(bucket.le)?.[1] ?? ""]], Number(bucket.count), sent.timeMs);
      this.#series(`${name}_bucket`, [...others, ["le", "+Inf"]], sent.count, sent.timeMs);
      this.#series(`${name}_sum`, others, sent.sum, sent.timeMs);
      this.#series(`${name}_count`, others, sent.count, sent.timeMs);
      this.#converted += 1;
    }
  }

  /** A request of version 1.0 with the classic series, not compressed. */
  finish(): Buffer {
    return Buffer.concat(this.#pieces);
  }

  #convert(bytes: Buffer): { readonly buckets: readonly Bucket[]; readonly sent: Sent } | Refusal {
    const sent = readHistogram(bytes);
    if (typeof sent === "string") return sent;
    if (sent.timeMs < this.#limits.oldestMs) return "before_retention";
    if (sent.timeMs > this.#limits.newestMs) return "too_far_ahead";
    // The end of a series: its buckets are unknown, and end with the lookback of queries.
    if (Number.isNaN(sent.sum) && !sent.count && sent.positive.deltas.length + sent.negative.deltas.length === 0) return "not_a_number";
    this.#buckets += sent.positive.deltas.length + sent.negative.deltas.length + 1;
    if (this.#buckets > MAX_HISTOGRAM_BUCKETS) return "native_histogram_limit";
    const [count, inBuckets] = [sent.count ?? 0, sent.zeroCount + valuesOf(sent.positive) + valuesOf(sent.negative)];
    // As Prometheus: values that are no number are in no bucket, and make the sum none.
    if (!(inBuckets === count || (inBuckets < count && Number.isNaN(sent.sum)))) return "malformed_histogram";
    const buckets = sent.schema === CUSTOM_SCHEMA ? customBuckets(sent) : this.#exponential(sent);
    return buckets === undefined ? "malformed_histogram" : { buckets, sent };
  }

  #exponential(sent: Sent): readonly Bucket[] | undefined {
    if (!(sent.schema >= MIN_SCHEMA && sent.schema <= MAX_SCHEMA)) return undefined;
    const [positive, negative] = [denseSide(sent.positive, sent.schema), denseSide(sent.negative, sent.schema)];
    if (!positive || !negative) return undefined;
    this.#buckets += positive.bucketCounts.length + negative.bucketCounts.length;
    const point: ExponentialHistogramPoint = {
      scale: Math.min(sent.schema, SUMMED_SCALE),
      zeroCount: sent.zeroCount,
      zeroThreshold: sent.zeroThreshold,
      positive,
      negative,
    };
    return exponentialBuckets(point);
  }

  #series(name: string, labels: readonly (readonly [string, string])[], value: number, timeMs: number): void {
    const pairs = [["__name__", name] as const, ...labels].toSorted(([a], [b]) => (a < b ? -1 : 1));
    const sample = Buffer.alloc(9, 0x09);
    sample.writeDoubleLE(value, 1);
    const parts = [
      ...pairs.map(([label, text]) => field(1, Buffer.concat([field(1, Buffer.from(label)), field(2, Buffer.from(text))]))),
      field(2, Buffer.concat([sample, Buffer.from([0x10]), varint(timeMs)])),
    ];
    const piece = field(1, Buffer.concat(parts));
    this.#bytes += piece.length;
    if (this.#bytes > MAX_REWRITTEN_BYTES) throw tooManyLabels();
    this.#pieces.push(piece);
  }
}

function readHistogram(bytes: Buffer): Sent | Refusal {
  try {
    const fields = decodeMessage(HISTOGRAM, bytes);
    if (FLOAT_FIELDS.some((name) => name in fields)) return "float_histogram";
    // NaN and integers beyond 2^53 are text.
    const number = (name: string): number => Number(fields[name] ?? 0);
    const list = <T>(name: string): T[] => (fields[name] ?? []) as T[];
    const side = (name: string): Side => ({ spans: list(`${name}Spans`), deltas: list(`${name}Deltas`) });
    return {
      count: number("count"),
      sum: number("sum"),
      schema: number("schema"),
      zeroThreshold: number("zeroThreshold"),
      zeroCount: number("zeroCount"),
      timeMs: number("timeMs"),
      positive: side("positive"),
      negative: side("negative"),
      bounds: list<unknown>("bounds").map(Number),
    };
  } catch (error) {
    if (error instanceof BodyError) return "malformed_histogram";
    throw error;
  }
}

/** Each bucket as its index and count. Undefined if spans and deltas do not match, or a count is negative. */
function bucketsOf({ spans, deltas }: Side): [index: number, count: number][] | undefined {
  const buckets: [number, number][] = [];
  let [index, count, at] = [0, 0, 0];
  for (const { offset = 0, length = 0 } of spans) {
    index += offset;
    if (length > deltas.length - at || (at > 0 && offset < 0)) return undefined;
    for (const end = at + length; at < end; at += 1) {
      count += deltas[at] ?? 0;
      if (!(count >= 0)) return undefined;
      buckets.push([index, count]);
      index += 1;
    }
  }
  return at === deltas.length ? buckets : undefined;
}

/** The number of values in its buckets; NaN if it is malformed. */
function valuesOf(side: Side): number {
  return bucketsOf(side)?.reduce((sum, [, count]) => sum + count, 0) ?? Number.NaN;
}

/** OTLP's buckets: one less in number than Prometheus', because a bucket there has the index of its lower bound. */
function denseSide(side: Side, schema: number): { offset: number; bucketCounts: number[] } | undefined {
  const width = 2 ** Math.max(0, schema - SUMMED_SCALE);
  const buckets = bucketsOf(side)?.map(([index, count]) => [Math.ceil(index / width) - 1, count] as const);
  if (!buckets || buckets.some(([index]) => Math.abs(index) > MAX_INDEX)) return undefined;
  if (buckets.length === 0) return { offset: 0, bucketCounts: [] };
  const [offset, last] = [buckets[0]?.[0] ?? 0, buckets.at(-1)?.[0] ?? 0];
  const bucketCounts = Array.from({ length: last - offset + 1 }, () => 0);
  for (const [index, count] of buckets) bucketCounts[index - offset] = (bucketCounts[index - offset] ?? 0) + count;
  return { offset, bucketCounts };
}

function customBuckets({ positive, bounds }: Sent): readonly Bucket[] | undefined {
  const buckets = bucketsOf(positive);
  if (!buckets || bounds.length > MAX_INDEX || buckets.some(([index]) => index < 0 || index > bounds.length)) return undefined;
  const bucketCounts = Array.from({ length: bounds.length + 1 }, () => 0);
  for (const [index, count] of buckets) bucketCounts[index] = count;
  return explicitBuckets({ bucketCounts, explicitBounds: bounds }, new BoundsText());
}

function field(number: number, value: Buffer): Buffer {
  return Buffer.concat([Buffer.from([(number << 3) | BYTES]), varint(value.length), value]);
}

/** Negative numbers have 64 bits. */
function varint(value: number): Buffer {
  const bytes: number[] = [];
  let rest = BigInt.asUintN(64, BigInt(value));
  for (; rest >= 0x80n; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80);
  return Buffer.from([...bytes, Number(rest)]);
}

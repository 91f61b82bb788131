// Converts native histograms of remote write to classic series (`_bucket`, `_sum`, `_count`), with the same buckets as exponential
// histograms of OTLP, because the metrics engine has no others. Invariants: each histogram is stored whole or counted as refused with its
// reason; the work is bounded by MAX_HISTOGRAM_BUCKETS, whatever gaps a histogram claims to have.
// Source: prometheus/prompb/types.proto and io/prometheus/write/v2/types.proto, whose fields have the same numbers.
import { BodyError, type ExponentialHistogramPoint } from "../../../common/otlp-metrics/document.ts";
import { BoundsText, type Bucket, explicitBuckets, exponentialBuckets } from "../../../common/otlp-metrics/histogram-buckets.ts";
import { BYTES, FIXED64, WireReader } from "../../../common/protobuf/wire-reader.ts";
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

interface Side {
  readonly spans: [offset: number, length: number][];
  readonly deltas: number[];
}

interface Sent {
  count: number | undefined;
  isFloat: boolean;
  sum: number;
  schema: number;
  zeroThreshold: number;
  zeroCount: number;
  timeMs: number;
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
      const count = sent.count ?? 0;
      for (const bucket of buckets)
        this.#series(`${name}_bucket`, [...others, ["le", /"(.*)"/.exec(bucket.le)?.[1] ?? ""]], Number(bucket.count), sent.timeMs);
      this.#series(`${name}_bucket`, [...others, ["le", "+Inf"]], count, sent.timeMs);
      this.#series(`${name}_sum`, others, sent.sum, sent.timeMs);
      this.#series(`${name}_count`, others, count, sent.timeMs);
      this.#converted += 1;
    }
  }

  /** A request of version 1.0 with the classic series, not compressed. */
  finish(): Buffer {
    return Buffer.concat(this.#pieces);
  }

  #convert(bytes: Buffer): { readonly buckets: readonly Bucket[]; readonly sent: Sent } | Refusal {
    const sent = readHistogram(bytes);
    if (!sent) return "malformed_histogram";
    if (sent.isFloat) return "float_histogram";
    if (sent.timeMs < this.#limits.oldestMs) return "before_retention";
    if (sent.timeMs > this.#limits.newestMs) return "too_far_ahead";
    // The end of a series: its buckets are unknown, and end with the lookback of queries.
    if (Number.isNaN(sent.sum) && sent.positive.deltas.length + sent.negative.deltas.length === 0) return "not_a_number";
    this.#buckets += sent.positive.deltas.length + sent.negative.deltas.length + 1;
    if (this.#buckets > MAX_HISTOGRAM_BUCKETS) return "native_histogram_limit";
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

/** Undefined if it is malformed. */
function readHistogram(bytes: Buffer): Sent | undefined {
  const reader = new WireReader(bytes);
  const sent: Sent = {
    count: undefined,
    isFloat: false,
    sum: 0,
    schema: 0,
    zeroThreshold: 0,
    zeroCount: 0,
    timeMs: 0,
    positive: { spans: [], deltas: [] },
    negative: { spans: [], deltas: [] },
    bounds: [],
  };
  try {
    reader.message(0, bytes.length, () => readField(reader, sent));
  } catch (error) {
    if (error instanceof BodyError) return undefined;
    throw error;
  }
  return sent;
}

function readField(reader: WireReader, sent: Sent): void {
  const { field: number } = reader;
  if (number === 1) sent.count = reader.integer();
  else if (number === 2 || number === 7 || number === 10 || number === 13) sent.isFloat = true;
  else if (number === 3) sent.sum = double(reader);
  else if (number === 4) sent.schema = zigzag(reader.integer());
  else if (number === 5) sent.zeroThreshold = double(reader);
  else if (number === 6) sent.zeroCount = reader.integer();
  else if (number === 8) readSpan(reader, sent.negative);
  else if (number === 9) readDeltas(reader, sent.negative.deltas);
  else if (number === 11) readSpan(reader, sent.positive);
  else if (number === 12) readDeltas(reader, sent.positive.deltas);
  else if (number === 15) sent.timeMs = reader.integer();
  else if (number === 16) readDoubles(reader, sent.bounds);
}

function double(reader: WireReader): number {
  reader.expect(FIXED64, "a number");
  return reader.double();
}

function readSpan(reader: WireReader, { spans }: Side): void {
  reader.expect(BYTES, "a span");
  let [offset, length] = [0, 0];
  reader.message(reader.start, reader.end, () => {
    if (reader.field === 1) offset = zigzag(reader.integer());
    else if (reader.field === 2) length = reader.integer();
  });
  spans.push([offset, length]);
}

/** Packed, or one by one. */
function readDeltas(reader: WireReader, deltas: number[]): void {
  if (reader.wireType !== BYTES) return void deltas.push(zigzag(reader.integer()));
  let [value, factor] = [0, 1];
  for (const byte of reader.bytes.subarray(reader.start, reader.end)) {
    value += (byte & 0x7f) * factor;
    factor *= 128;
    if (byte >= 0x80) continue;
    deltas.push(zigzag(value));
    [value, factor] = [0, 1];
  }
}

function readDoubles(reader: WireReader, numbers: number[]): void {
  if (reader.wireType !== BYTES) return void numbers.push(double(reader));
  for (let at = reader.start; at + 8 <= reader.end; at += 8) numbers.push(reader.bytes.readDoubleLE(at));
}

/** Exact up to 2^53. */
function zigzag(value: number): number {
  return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
}

/** Each bucket as its index and count. Undefined if spans and deltas do not match, or a count is negative. */
function bucketsOf({ spans, deltas }: Side): [index: number, count: number][] | undefined {
  const buckets: [number, number][] = [];
  let [index, count, at] = [0, 0, 0];
  for (const [offset, length] of spans) {
    index += offset;
    if (length > deltas.length - at) return undefined;
    for (const end = at + length; at < end; at += 1) {
      count += deltas[at] ?? 0;
      if (!(count >= 0)) return undefined;
      buckets.push([index, count]);
      index += 1;
    }
  }
  return at === deltas.length ? buckets : undefined;
}

/** OTLP's buckets: one less in number than Prometheus', because a bucket there has the index of its lower bound. */
function denseSide(side: Side, schema: number): { offset: number; bucketCounts: number[] } | undefined {
  const width = 2 ** Math.max(0, schema - SUMMED_SCALE);
  const buckets = bucketsOf(side)?.map(([index, count]) => [Math.ceil(index / width) - 1, count] as const);
  if (!buckets || buckets.some(([index]) => Math.abs(index) > MAX_INDEX)) return undefined;
  if (buckets.length === 0) return { offset: 0, bucketCounts: [] };
  const [offset, last] = [buckets[0]?.[0] ?? 0, buckets.at(-1)?.[0] ?? 0];
  if (last < offset) return undefined;
  const bucketCounts = Array.from({ length: last - offset + 1 }, () => 0);
  for (const [index, count] of buckets)
    if (index >= offset && index <= last) bucketCounts[index - offset] = (bucketCounts[index - offset] ?? 0) + count;
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

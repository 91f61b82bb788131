// Encodes remote write requests of both versions as protobuf, for tests and benchmarks.
import { bytesField, varint } from "../otlp/protobuf/encode.fixture.ts";
import { compressSnappy } from "../snappy.fixture.ts";
import type { WriteVersion } from "./write-request.ts";

export interface TestExemplar {
  readonly labels: readonly (readonly [name: string, value: string])[];
  readonly value: number;
  readonly timeMs: number;
}

export interface TestSeries {
  /** In the order in which they are sent. */
  readonly labels: readonly (readonly [name: string, value: string])[];
  readonly samples?: readonly (readonly [value: number | bigint, timeMs: number])[];
  /** A number: so many empty ones. */
  readonly exemplars?: number | readonly TestExemplar[];
  /** A number: so many empty ones. */
  readonly histograms?: number | readonly Buffer[];
}

export function encodeWrite(series: readonly TestSeries[], version: WriteVersion = 1): Buffer {
  return version === 1 ? Buffer.concat(series.map((one) => bytesField(1, encodeSeries(one)))) : encodeSecond(series);
}

export function writeBody(series: readonly TestSeries[], version: WriteVersion = 1): Buffer<ArrayBuffer> {
  return compressSnappy(encodeWrite(series, version));
}

function encodeSeries({ labels, samples = [], exemplars = 0, histograms = 0 }: TestSeries): Buffer {
  return Buffer.concat([
    encodePairs(labels),
    ...samples.map((sample) => bytesField(2, encodeSample(sample))),
    ...encodeExemplars(exemplars, encodePairs).map((exemplar) => bytesField(3, exemplar)),
    ...encodeHistograms(histograms).map((histogram) => bytesField(4, histogram)),
  ]);
}

function encodeSecond(series: readonly TestSeries[]): Buffer {
  const exemplarLabels = series.flatMap(({ exemplars }) =>
    (Array.isArray(exemplars) ? (exemplars as TestExemplar[]) : []).map(({ labels }) => labels),
  );
  const symbols = [...new Set(["", ...[...series.map(({ labels }) => labels), ...exemplarLabels].flat(2)])];
  const references = (labels: TestSeries["labels"]): Buffer =>
    bytesField(1, Buffer.concat(labels.flat().map((text) => varint(BigInt(symbols.indexOf(text))))));
  const encoded = series.map(({ labels, samples = [], exemplars = 0, histograms = 0 }) =>
    bytesField(
      5,
      Buffer.concat([
        references(labels),
        ...samples.map((sample) => bytesField(2, encodeSample(sample))),
        ...encodeHistograms(histograms).map((histogram) => bytesField(3, histogram)),
        ...encodeExemplars(exemplars, references).map((exemplar) => bytesField(4, exemplar)),
        bytesField(5, Buffer.from([0x08, 1])),
      ]),
    ),
  );
  return Buffer.concat([...symbols.map((symbol) => bytesField(4, Buffer.from(symbol))), ...encoded]);
}

function encodePairs(labels: TestSeries["labels"]): Buffer {
  const pairs = labels.map(([name, value]) => Buffer.concat([bytesField(1, Buffer.from(name)), bytesField(2, Buffer.from(value))]));
  return Buffer.concat(pairs.map((pair) => bytesField(1, pair)));
}

function encodeExemplars(
  exemplars: NonNullable<TestSeries["exemplars"]>,
  encodeLabels: (labels: TestSeries["labels"]) => Buffer,
): Buffer[] {
  if (typeof exemplars === "number") return Array.from({ length: exemplars }, () => Buffer.alloc(0));
  return exemplars.map(({ labels, value, timeMs }) => {
    const bytes = Buffer.alloc(9, 0x11);
    bytes.writeDoubleLE(value, 1);
    return Buffer.concat([encodeLabels(labels), bytes, Buffer.from([0x18]), varint(BigInt.asUintN(64, BigInt(timeMs)))]);
  });
}

function encodeHistograms(histograms: NonNullable<TestSeries["histograms"]>): readonly Buffer[] {
  return typeof histograms === "number" ? Array.from({ length: histograms }, () => Buffer.from([0x08, 1])) : histograms;
}

export interface TestHistogram {
  readonly schema: number;
  readonly timeMs: number;
  readonly sum: number;
  readonly zeroCount?: number;
  readonly zeroThreshold?: number;
  /** Counts by index of the bucket. */
  readonly positive?: ReadonlyMap<number, number>;
  readonly negative?: ReadonlyMap<number, number>;
  readonly bounds?: readonly number[];
}

/** The message Histogram, which has the same fields in both versions. */
export function encodeHistogram({ schema, timeMs, sum, zeroCount = 0, zeroThreshold = 0, bounds = [], ...sides }: TestHistogram): Buffer {
  const [positive, negative] = [sides.positive ?? new Map<number, number>(), sides.negative ?? new Map<number, number>()];
  const count = [...positive.values(), ...negative.values()].reduce((total, n) => total + n, zeroCount);
  return Buffer.concat([
    numberField(1, count),
    doubleField(3, sum),
    numberField(4, zigzag(schema)),
    doubleField(5, zeroThreshold),
    numberField(6, zeroCount),
    ...encodeSide(negative, 8),
    ...encodeSide(positive, 11),
    numberField(15, timeMs),
    ...(bounds.length > 0 ? [bytesField(16, Buffer.concat(bounds.map((bound) => doubleField(1, bound).subarray(1))))] : []),
  ]);
}

/** A span for each bucket, and the differences of the counts. */
function encodeSide(buckets: ReadonlyMap<number, number>, spans: number): Buffer[] {
  const sorted = [...buckets].toSorted(([a], [b]) => a - b);
  if (sorted.length === 0) return [];
  const offsets = sorted.map(([index], at) => index - (at === 0 ? 0 : (sorted[at - 1]?.[0] ?? 0) + 1));
  const deltas = sorted.map(([, n], at) => n - (sorted[at - 1]?.[1] ?? 0));
  return [
    ...offsets.map((offset) => bytesField(spans, Buffer.concat([numberField(1, zigzag(offset)), numberField(2, 1)]))),
    bytesField(spans + 1, Buffer.concat(deltas.map((delta) => varint(BigInt(zigzag(delta)))))),
  ];
}

const zigzag = (value: number): number => (value < 0 ? -2 * value - 1 : 2 * value);
const numberField = (field: number, value: number): Buffer => Buffer.concat([varint(BigInt(field << 3)), varint(BigInt(value))]);

function doubleField(field: number, value: number): Buffer {
  const bytes = Buffer.alloc(9, (field << 3) | 1);
  bytes.writeDoubleLE(value, 1);
  return bytes;
}

/** A bigint gives the bits of a value. */
function encodeSample([value, timeMs]: readonly [number | bigint, number]): Buffer {
  const bytes = Buffer.alloc(9, 0x09);
  if (typeof value === "bigint") bytes.writeBigUInt64LE(value, 1);
  else bytes.writeDoubleLE(value, 1);
  return Buffer.concat([bytes, Buffer.from([0x10]), varint(BigInt.asUintN(64, BigInt(timeMs)))]);
}

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
  readonly histograms?: number;
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
    ...Array.from({ length: histograms }, () => bytesField(4, Buffer.from([0x08, 1]))),
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
        ...Array.from({ length: histograms }, () => bytesField(3, Buffer.from([0x08, 1]))),
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

/** A bigint gives the bits of a value. */
function encodeSample([value, timeMs]: readonly [number | bigint, number]): Buffer {
  const bytes = Buffer.alloc(9, 0x09);
  if (typeof value === "bigint") bytes.writeBigUInt64LE(value, 1);
  else bytes.writeDoubleLE(value, 1);
  return Buffer.concat([bytes, Buffer.from([0x10]), varint(BigInt.asUintN(64, BigInt(timeMs)))]);
}

// Encodes remote write requests of both versions as protobuf, for tests and benchmarks.
import { bytesField, varint } from "../otlp/protobuf/encode.fixture.ts";
import { compressSnappy } from "../snappy.fixture.ts";
import type { WriteVersion } from "./write-request.ts";

export interface TestSeries {
  /** In the order in which they are sent. */
  readonly labels: readonly (readonly [name: string, value: string])[];
  readonly samples?: readonly (readonly [value: number | bigint, timeMs: number])[];
  readonly exemplars?: number;
  readonly histograms?: number;
}

export function encodeWrite(series: readonly TestSeries[], version: WriteVersion = 1): Buffer {
  return version === 1 ? Buffer.concat(series.map((one) => bytesField(1, encodeSeries(one)))) : encodeSecond(series);
}

export function writeBody(series: readonly TestSeries[], version: WriteVersion = 1): Buffer<ArrayBuffer> {
  return compressSnappy(encodeWrite(series, version));
}

function encodeSeries({ labels, samples = [], exemplars = 0, histograms = 0 }: TestSeries): Buffer {
  const pairs = labels.map(([name, value]) => Buffer.concat([bytesField(1, Buffer.from(name)), bytesField(2, Buffer.from(value))]));
  return Buffer.concat([
    ...pairs.map((pair) => bytesField(1, pair)),
    ...samples.map((sample) => bytesField(2, encodeSample(sample))),
    ...Array.from({ length: exemplars }, () => bytesField(3, Buffer.alloc(0))),
    ...Array.from({ length: histograms }, () => bytesField(4, Buffer.from([0x08, 1]))),
  ]);
}

function encodeSecond(series: readonly TestSeries[]): Buffer {
  const symbols = [...new Set(["", ...series.flatMap(({ labels }) => labels.flat())])];
  const encoded = series.map(({ labels, samples = [], exemplars = 0, histograms = 0 }) =>
    bytesField(
      5,
      Buffer.concat([
        bytesField(1, Buffer.concat(labels.flat().map((text) => varint(BigInt(symbols.indexOf(text)))))),
        ...samples.map((sample) => bytesField(2, encodeSample(sample))),
        ...Array.from({ length: histograms }, () => bytesField(3, Buffer.from([0x08, 1]))),
        ...Array.from({ length: exemplars }, () => bytesField(4, Buffer.alloc(0))),
        bytesField(5, Buffer.from([0x08, 1])),
      ]),
    ),
  );
  return Buffer.concat([...symbols.map((symbol) => bytesField(4, Buffer.from(symbol))), ...encoded]);
}

/** A bigint gives the bits of a value. */
function encodeSample([value, timeMs]: readonly [number | bigint, number]): Buffer {
  const bytes = Buffer.alloc(9, 0x09);
  if (typeof value === "bigint") bytes.writeBigUInt64LE(value, 1);
  else bytes.writeDoubleLE(value, 1);
  return Buffer.concat([bytes, Buffer.from([0x10]), varint(BigInt.asUintN(64, BigInt(timeMs)))]);
}

// Writes responses of Loki's HTTP API as JSON: streams, vectors, matrices and scalars. Invariants: timestamps of entries are strings in
// nanoseconds; timestamps of samples are numbers in seconds; sample values are strings.
import { Buffer } from "node:buffer";
import { type Entry, LabelSet, type Series } from "./entry.ts";
import type { Steps } from "./parameters.ts";

export function jsonOf(answer: unknown): Buffer {
  return Buffer.from(JSON.stringify(answer));
}

/** Wraps data in the envelope that Loki uses for most responses. */
export function dataOf(data: unknown): Buffer {
  return jsonOf({ status: "success", data });
}

/** Formats a number as Go does, without an exponent. */
export function valueText(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "+Inf" : "-Inf";
  if (Object.is(value, -0)) return "-0";
  const text = String(value);
  if (!text.includes("e")) return text;
  if (Math.abs(value) >= 1) return BigInt(value).toString();
  const [digits = "", power = "0"] = text.split("e");
  const [whole = "", fraction = ""] = digits.replace("-", "").split(".");
  return `${value < 0 ? "-" : ""}0.${"0".repeat(-Number(power) - 1)}${whole}${fraction}`;
}

export function seconds(ns: bigint): number {
  return Number(ns / 1_000_000n) / 1000;
}

export function encodeResult(resultType: string, result: unknown, more: object = {}, warnings: readonly string[] = []): Buffer {
  const data = { resultType, result, ...more, stats: {} };
  return jsonOf({ status: "success", ...(warnings.length > 0 && { warnings }), data });
}

export function scalarAnswer(value: number, steps: Steps): Buffer {
  return encodeResult("scalar", [seconds(steps.start), valueText(value)]);
}

/** Keeps the order of `series`: that of the query if it uses sort or topk, otherwise by labels. */
export function vectorAnswer(series: readonly Series[], steps: Steps): Buffer {
  return encodeResult(
    "vector",
    series.map(({ labels, points }) => ({
      metric: labels.toObject(),
      value: [seconds(steps.start), valueText(points[0]?.[1] ?? Number.NaN)],
    })),
  );
}

export function matrixAnswer(series: readonly Series[], { start, step }: Steps): Buffer {
  const timeOf = (stepIndex: number): number => seconds(start + step * BigInt(stepIndex));
  const sorted = [...series].sort((a, b) => (a.labels.key < b.labels.key ? -1 : 1));
  return encodeResult(
    "matrix",
    sorted.map(({ labels, points }) => ({
      metric: labels.toObject(),
      values: points.map(([stepIndex, value]) => [timeOf(stepIndex), valueText(value)]),
    })),
  );
}

type Value = [ns: string, line: string, categories?: { structuredMetadata?: Record<string, string>; parsed?: Record<string, string> }];

export interface Streams {
  readonly add: (entry: Entry) => void;
  readonly result: () => { readonly stream: Record<string, string>; readonly values: readonly Value[] }[];
  /** Approximate size of the response in bytes. */
  readonly bytes: number;
}

/** `categorize`: returns labels that do not belong to the stream with each entry. */
export function collectStreams(categorize: boolean): Streams {
  const streams = new Map<string, { labels: LabelSet; values: Value[] }>();
  let bytes = 0;
  return {
    add: (entry) => {
      const labels = [...entry.labels()];
      const streamLabels = labels.flatMap(([name, value, category]) =>
        !categorize || category === "stream" ? [[name, value] as const] : [],
      );
      const set = new LabelSet(streamLabels);
      const stream = streams.get(set.key) ?? { labels: set, values: [] };
      if (stream.values.length === 0) bytes += set.key.length;
      streams.set(set.key, stream);
      const value: Value = [String(entry.timeNs), entry.line];
      if (categorize) value.push(categoriesOf(labels));
      bytes += entry.line.length + 50 + (categorize ? JSON.stringify(value[2]).length : 0);
      stream.values.push(value);
    },
    result: () =>
      [...streams.values()]
        .sort((a, b) => (a.labels.key < b.labels.key ? -1 : 1))
        .map(({ labels, values }) => ({ stream: labels.toObject(), values })),
    get bytes() {
      return bytes;
    },
  };
}

function categoriesOf(labels: readonly (readonly [string, string, string])[]): NonNullable<Value[2]> {
  const labelsIn = (wanted: string): Record<string, string> =>
    Object.fromEntries(labels.flatMap(([name, value, category]) => (category === wanted ? [[name, value]] : [])));
  const [structuredMetadata, parsed] = [labelsIn("metadata"), labelsIn("parsed")];
  return { ...(Object.keys(structuredMetadata).length > 0 && { structuredMetadata }), ...(Object.keys(parsed).length > 0 && { parsed }) };
}

export function streamsAnswer(streams: Streams, categorize: boolean, warnings: readonly string[]): Buffer {
  return encodeResult("streams", streams.result(), categorize ? { encodingFlags: ["categorize-labels"] } : {}, warnings);
}

// Writes the JSON of Loki's HTTP API: streams of entries, vectors, matrices, scalars. Invariant: times of entries are strings of
// nanoseconds, values are strings of numbers, times of values are numbers of seconds.
import { Buffer } from "node:buffer";
import { type Entry, LabelSet, type Series } from "./entry.ts";
import type { Steps } from "./parameters.ts";

export function jsonOf(answer: unknown): Buffer {
  return Buffer.from(JSON.stringify(answer));
}

/** The envelope that Loki uses for most of its responses. */
export function dataOf(data: unknown): Buffer {
  return jsonOf({ status: "success", data });
}

/** Without an exponent, as Go prints numbers. */
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

function seconds(ns: bigint): number {
  return Number(ns / 1_000_000n) / 1000;
}

function enveloped(resultType: string, result: unknown, more: object = {}, warnings: readonly string[] = []): Buffer {
  const data = { resultType, result, ...more, stats: {} };
  return Buffer.from(JSON.stringify({ status: "success", ...(warnings.length > 0 && { warnings }), data }));
}

export function scalarAnswer(value: number, steps: Steps): Buffer {
  return enveloped("scalar", [seconds(steps.start), valueText(value)]);
}

/** In the order of the query if it uses sort or topk, otherwise by labels. */
export function vectorAnswer(series: readonly Series[], steps: Steps): Buffer {
  return enveloped(
    "vector",
    series.map(({ labels, points }) => ({
      metric: labels.toObject(),
      value: [seconds(steps.start), valueText(points[0]?.[1] ?? Number.NaN)],
    })),
  );
}

export function matrixAnswer(series: readonly Series[], { start, step }: Steps): Buffer {
  const at = (moment: number): number => seconds(start + step * BigInt(moment));
  const sorted = [...series].sort((one, other) => (one.labels.key < other.labels.key ? -1 : 1));
  return enveloped(
    "matrix",
    sorted.map(({ labels, points }) => ({
      metric: labels.toObject(),
      values: points.map(([moment, value]) => [at(moment), valueText(value)]),
    })),
  );
}

type Value = [ns: string, line: string, categories?: { structuredMetadata?: Record<string, string>; parsed?: Record<string, string> }];

export interface Streams {
  readonly add: (entry: Entry) => void;
  readonly result: () => { readonly stream: Record<string, string>; readonly values: readonly Value[] }[];
  /** Approximate size of the response. */
  readonly bytes: number;
}

/** `categorize`: labels that do not belong to the stream are returned with their entry. */
export function collectStreams(categorize: boolean): Streams {
  const streams = new Map<string, { labels: LabelSet; values: Value[] }>();
  let bytes = 0;
  return {
    add: (entry) => {
      const labels = [...entry.labels()];
      const ofStream = labels.flatMap(([name, value, category]) => (!categorize || category === "stream" ? [[name, value] as const] : []));
      const set = new LabelSet(ofStream);
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
        .sort((one, other) => (one.labels.key < other.labels.key ? -1 : 1))
        .map(({ labels, values }) => ({ stream: labels.toObject(), values })),
    get bytes() {
      return bytes;
    },
  };
}

function categoriesOf(labels: readonly (readonly [string, string, string])[]): NonNullable<Value[2]> {
  const of = (wanted: string): Record<string, string> =>
    Object.fromEntries(labels.flatMap(([name, value, category]) => (category === wanted ? [[name, value]] : [])));
  const [structuredMetadata, parsed] = [of("metadata"), of("parsed")];
  return { ...(Object.keys(structuredMetadata).length > 0 && { structuredMetadata }), ...(Object.keys(parsed).length > 0 && { parsed }) };
}

export function streamsAnswer(streams: Streams, categorize: boolean, warnings: readonly string[]): Buffer {
  return enveloped("streams", streams.result(), categorize ? { encodingFlags: ["categorize-labels"] } : {}, warnings);
}

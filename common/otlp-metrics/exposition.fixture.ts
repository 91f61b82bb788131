// Metrics as the collector sends them, and the converter's output, for the tests of this folder.
import { MetricsConverter } from "./converter.ts";
import type { AnyValue, KeyValue, Metric } from "./document.ts";
import type { DropReason } from "./series-writer.ts";

export const TIME = "1763714400123456789";
export const LARGE = 32 * 1024 * 1024;

export function attributes(values: Record<string, string | AnyValue>): KeyValue[] {
  return Object.entries(values).map(([key, value]) => ({ key, value: typeof value === "string" ? { stringValue: value } : value }));
}

export function convert(metrics: Metric[], resource: Record<string, string | AnyValue> = {}) {
  const dropped: Partial<Record<DropReason, number>> = {};
  const converter = new MetricsConverter((reason, points) => (dropped[reason] = (dropped[reason] ?? 0) + points));
  const document = {
    resourceMetrics: [{ resource: { attributes: attributes(resource) }, scopeMetrics: [{ scope: { name: "s" }, metrics }] }],
  };
  const text = Buffer.concat([...converter.convert(Buffer.from(JSON.stringify(document)), LARGE)]).toString("utf8");
  return { lines: text.split("\n").slice(0, -1), dropped };
}

export function gauge(name: string, labels: Record<string, string | AnyValue> = {}): Metric {
  return { name, gauge: { dataPoints: [{ attributes: attributes(labels), timeUnixNano: TIME, asInt: "1" }] } };
}

export function labelled(labels: Record<string, string>) {
  return { attributes: attributes(labels), timeUnixNano: TIME, asInt: "1" };
}

export function many(prefix: string, count: number): Record<string, string> {
  return Object.fromEntries(Array.from({ length: count }, (_, index) => [`${prefix}${index}`, "1"]));
}

export function histogram(point: object): Metric {
  return { name: "h", unit: "s", histogram: { aggregationTemporality: 2, dataPoints: [{ timeUnixNano: TIME, ...point }] } };
}

export function exponential(point: object): Metric {
  return { name: "e", exponentialHistogram: { aggregationTemporality: 2, dataPoints: [{ timeUnixNano: TIME, ...point }] } };
}

/** Maps le to the count, for the single point of an exponential histogram. */
export function exponentialBounds(point: object): Record<string, number> {
  const matches = convert([exponential(point)]).lines.map((line) => /^e_bucket\{le="(.*)"\} (\S+)/.exec(line));
  return Object.fromEntries(matches.flatMap((match) => (match ? [[match[1] ?? "", Number(match[2])]] : [])));
}

/** Lines without values and times. */
export function series(metrics: Metric[], resource: Record<string, string | AnyValue> = {}): string[] {
  return convert(metrics, resource).lines.map((line) => line.replace(/ \S+ \d+$/, ""));
}

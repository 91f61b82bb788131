// The Prometheus HTTP API of the backend, as far as the console asks it.
import type { Range } from "../state/time.ts";
import type { Series } from "./chart.tsx";
import { call } from "../state/api.ts";

export const PROMETHEUS = "/query/prometheus/api/v1";
const POINTS = 240;
const LEAST_STEP_S = 5;

type Labels = Readonly<Record<string, string>>;

interface Answer<T> {
  readonly data: T;
}

interface Matrix {
  readonly resultType: "matrix";
  readonly result: readonly { readonly metric: Labels; readonly values: readonly (readonly [number, string])[] }[];
}

export interface Instant {
  readonly labels: Labels;
  readonly value: string;
}

type Vector =
  | { readonly resultType: "vector"; readonly result: readonly { readonly metric: Labels; readonly value: readonly [number, string] }[] }
  | { readonly resultType: "scalar" | "string"; readonly result: readonly [number, string] };

/** The step of a range: some 240 points, a whole number of seconds. */
export function stepOf({ fromMs, toMs }: Range): number {
  return Math.max(LEAST_STEP_S, Math.ceil((toMs - fromMs) / 1000 / POINTS));
}

export async function queryRange(query: string, range: Range, signal: AbortSignal): Promise<Series[]> {
  const step = stepOf(range);
  // On multiples of the step: the same range asked again is drawn from the same points.
  const [start, end] = [Math.floor(range.fromMs / 1000 / step) * step, Math.ceil(range.toMs / 1000 / step) * step];
  const asked: [string, string][] = [
    ["query", query],
    ["start", String(start)],
    ["end", String(end)],
    ["step", String(step)],
  ];
  const { data } = await call<Answer<Matrix>>(`${PROMETHEUS}/query_range`, { query: asked, signal });
  const apart = toldApart(data.result.map(({ metric }) => metric));
  return data.result.map(({ metric, values }, at) => ({
    name: seriesName(metric),
    short: apart[at] ?? "",
    points: values.map(([at, value]) => [at, Number(value)] as const),
  }));
}

export async function queryInstant(query: string, atMs: number, signal: AbortSignal): Promise<Instant[]> {
  const asked: [string, string][] = [
    ["query", query],
    ["time", String(Math.round(atMs / 1000))],
  ];
  const { data } = await call<Answer<Vector>>(`${PROMETHEUS}/query`, { query: asked, signal });
  if (data.resultType !== "vector") return [{ labels: {}, value: data.result[1] }];
  return data.result.map(({ metric, value }) => ({ labels: metric, value: value[1] }));
}

/** Of several series, what of each is not the same in all: `{state="used"}`. Of one, its whole name. */
export function toldApart(all: readonly Labels[]): string[] {
  const [first = {}] = all;
  const isCommon = (label: string): boolean => all.every((labels) => labels[label] === first[label]);
  return all.map((labels) => {
    const own = Object.entries(labels).filter(([label]) => !isCommon(label));
    return seriesName(own.length > 0 ? Object.fromEntries(own) : labels);
  });
}

/** `up{job="a"}`, as it is written in PromQL. */
export function seriesName(metric: Labels): string {
  const { __name__: name = "", ...labels } = metric;
  const inside = Object.entries(labels).map(([label, value]) => `${label}=${JSON.stringify(value)}`);
  return inside.length > 0 || !name ? `${name}{${inside.join(", ")}}` : name;
}

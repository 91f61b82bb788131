// Client for the parts of the backend's Prometheus HTTP API that the console uses, and for metric queries of Loki's API, whose responses
// have the same form.
import type { Range } from "../state/time.ts";
import { explainSyntax } from "../../client/query-syntax.ts";
import { ApiFailure, call, type Query } from "../state/api.ts";

export const PROMETHEUS = "/query/prometheus/api/v1";
export const LOKI = "/query/loki/loki/api/v1";
const POINTS = 240;
const MIN_STEP_S = 5;
const NO_LABELS = "{}";

export type Labels = Readonly<Record<string, string>>;

export interface Series {
  readonly name: string;
  /** The labels that distinguish it from the other series of a chart. */
  readonly short: string;
  /** Unix seconds → value. */
  readonly points: readonly (readonly [number, number])[];
  /** The custom property of its colour, if its name does not decide it. */
  readonly colour?: string;
  /** The short name of the series that this one is compared with, such as the values of an earlier range. */
  readonly earlierOf?: string;
}

export interface LabelledSeries extends Series {
  readonly labels: Labels;
}

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

/** The step of a range: a whole number of seconds, for about 240 points. */
export function stepOf({ fromMs, toMs }: Range): number {
  return Math.max(MIN_STEP_S, Math.ceil((toMs - fromMs) / 1000 / POINTS));
}

/** `step`: seconds between points. */
export async function queryRange(
  query: string,
  range: Range,
  signal: AbortSignal,
  base = PROMETHEUS,
  step = stepOf(range),
): Promise<LabelledSeries[]> {
  // On multiples of the step, so that a repeated request for a range returns the same points.
  const [start, end] = [Math.floor(range.fromMs / 1000 / step) * step, Math.ceil(range.toMs / 1000 / step) * step];
  const { data } = await queryEngine<Matrix>(`${base}/query_range`, { query, start, end, step }, signal);
  const shortNames = differingNames(data.result.map(({ metric }) => metric));
  // Series without labels are named after their expression.
  const named = (name: string): string => (name === NO_LABELS ? query : name);
  return data.result.map(({ metric, values }, at) => ({
    name: named(seriesName(metric)),
    labels: metric,
    short: named(shortNames[at] ?? ""),
    points: values.map(([at, value]) => [at, Number(value)] as const),
  }));
}

export async function queryInstant(query: string, atMs: number, signal: AbortSignal, base = PROMETHEUS): Promise<Instant[]> {
  const { data } = await queryEngine<Vector>(`${base}/query`, { query, time: Math.round(atMs / 1000) }, signal);
  if (data.resultType !== "vector") return [{ labels: {}, value: data.result[1] }];
  return data.result.map(({ metric, value }) => ({ labels: metric, value: value[1] }));
}

/** Throws an Error. For an invalid expression, its message shows where the error is. */
async function queryEngine<T>(path: string, parameters: Query & { readonly query: string }, signal: AbortSignal): Promise<Answer<T>> {
  try {
    return await call<Answer<T>>(path, { query: parameters, signal });
  } catch (error) {
    if (path.startsWith(PROMETHEUS) && error instanceof ApiFailure && error.status === 400)
      throw new Error(explainSyntax(parameters.query, error.message), { cause: error });
    throw error;
  }
}

/**
 * Names of series by the labels in which they differ, such as `{state="used", node="a"}`; only the value, if they differ in one label. A
 * single series has its full name.
 */
export function differingNames(all: readonly Labels[]): string[] {
  const [first = {}] = all;
  const isCommon = (label: string): boolean => all.every((labels) => labels[label] === first[label]);
  const differing = all.map((labels) => Object.entries(labels).filter(([label]) => !isCommon(label)));
  const [only] = differing[0]?.[0] ?? [];
  const isOneLabel = only !== undefined && only !== "__name__" && differing.every((pairs) => pairs.length === 1 && pairs[0]?.[0] === only);
  return differing.map((pairs, at) => {
    if (isOneLabel) return pairs[0]?.[1] || '""';
    return seriesName(pairs.length > 0 ? Object.fromEntries(pairs) : (all[at] ?? {}));
  });
}

/** `up{job="a"}`, as it is written in PromQL. Without `org_id`, which is the same in all series of the user. */
export function seriesName(metric: Labels): string {
  const { __name__: name = "", org_id: _org, ...labels } = metric;
  const inside = Object.entries(labels).map(([label, value]) => `${label}=${JSON.stringify(value)}`);
  return inside.length > 0 || !name ? `${name}{${inside.join(", ")}}` : name;
}

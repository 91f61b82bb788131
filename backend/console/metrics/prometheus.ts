// The Prometheus HTTP API of the backend, as far as the console asks it.
import type { Range } from "../state/time.ts";
import type { Series } from "./chart.tsx";
import { ApiFailure, call } from "../state/api.ts";

export const PROMETHEUS = "/query/prometheus/api/v1";
const POINTS = 240;
const LEAST_STEP_S = 5;

export type Labels = Readonly<Record<string, string>>;

/** With its labels, for legends. */
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

/** The step of a range: some 240 points, a whole number of seconds. */
export function stepOf({ fromMs, toMs }: Range): number {
  return Math.max(LEAST_STEP_S, Math.ceil((toMs - fromMs) / 1000 / POINTS));
}

export async function queryRange(query: string, range: Range, signal: AbortSignal): Promise<LabelledSeries[]> {
  const step = stepOf(range);
  // On multiples of the step: the same range asked again is drawn from the same points.
  const [start, end] = [Math.floor(range.fromMs / 1000 / step) * step, Math.ceil(range.toMs / 1000 / step) * step];
  const asked: [string, string][] = [
    ["query", query],
    ["start", String(start)],
    ["end", String(end)],
    ["step", String(step)],
  ];
  const { data } = await askEngine<Matrix>(query, "query_range", asked, signal);
  const apart = differingNames(data.result.map(({ metric }) => metric));
  return data.result.map(({ metric, values }, at) => ({
    name: seriesName(metric),
    labels: metric,
    short: apart[at] ?? "",
    points: values.map(([at, value]) => [at, Number(value)] as const),
  }));
}

export async function queryInstant(query: string, atMs: number, signal: AbortSignal): Promise<Instant[]> {
  const asked: [string, string][] = [
    ["query", query],
    ["time", String(Math.round(atMs / 1000))],
  ];
  const { data } = await askEngine<Vector>(query, "query", asked, signal);
  if (data.resultType !== "vector") return [{ labels: {}, value: data.result[1] }];
  return data.result.map(({ metric, value }) => ({ labels: metric, value: value[1] }));
}

/** Throws an Error that says where the expression is wrong, if it is. */
async function askEngine<T>(query: string, path: string, asked: [string, string][], signal: AbortSignal): Promise<Answer<T>> {
  try {
    return await call<Answer<T>>(`${PROMETHEUS}/${path}`, { query: asked, signal });
  } catch (error) {
    if (error instanceof ApiFailure && error.status === 400) throw new Error(explainSyntax(query, error.message), { cause: error });
    throw error;
  }
}

/** Names of series by the labels in which they differ, such as `{state="used"}`. A single series has its whole name. */
export function differingNames(all: readonly Labels[]): string[] {
  const [first = {}] = all;
  const isCommon = (label: string): boolean => all.every((labels) => labels[label] === first[label]);
  return all.map((labels) => {
    const own = Object.entries(labels).filter(([label]) => !isCommon(label));
    return seriesName(own.length > 0 ? Object.fromEntries(own) : labels);
  });
}

/** `up{job="a"}`, as it is written in PromQL. Without `org_id`, which is the same in all series of the user. */
export function seriesName(metric: Labels): string {
  const { __name__: name = "", org_id: _org, ...labels } = metric;
  const inside = Object.entries(labels).map(([label, value]) => `${label}=${JSON.stringify(value)}`);
  return inside.length > 0 || !name ? `${name}{${inside.join(", ")}}` : name;
}

const CLOSING: Readonly<Record<string, string>> = { "(": ")", "[": "]", "{": "}" };

/** The engine's message for an expression that it cannot parse, or what is missing if brackets or quotes do not match. */
export function explainSyntax(query: string, message: string): string {
  const open: { char: string; column: number }[] = [];
  for (let at = 0; at < query.length; at++) {
    const char = query[at] ?? "";
    if (`"'\``.includes(char)) {
      const end = closingQuote(query, at);
      if (end === undefined) return `the ${char} at column ${at + 1} is not closed`;
      at = end;
    } else if (char in CLOSING) open.push({ char, column: at + 1 });
    else if (")]}".includes(char)) {
      const last = open.pop();
      if (!last) return `the ${char} at column ${at + 1} closes nothing`;
      if (CLOSING[last.char] !== char) return `the ${last.char} at column ${last.column} is closed by the ${char} at column ${at + 1}`;
    }
  }
  const last = open.at(-1);
  if (last) return `a ${CLOSING[last.char]} is missing at the end, for the ${last.char} at column ${last.column}`;
  return message.replace(/unexpected token ""/, "the expression ends too early");
}

function closingQuote(query: string, start: number): number | undefined {
  for (let at = start + 1; at < query.length; at++) {
    if (query[at] === "\\" && query[start] !== "`") at++;
    else if (query[at] === query[start]) return at;
  }
  return undefined;
}

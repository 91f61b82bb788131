// Calculates the figures of a service level objective: good and all events of its window, error budget, burn rates and history. Invariants:
// calls are read from the summaries of spans, so late spans count at once; a changed objective applies to the whole window; whole minutes.
import { type QueryOptions, UNLIMITED } from "../admission/query-queue.ts";
import { ApiError } from "../errors.ts";
import type { MetricsStore } from "../storage/metrics/metric-store.ts";
import type { SpanStore } from "../storage/traces/span-store.ts";
import { storeError } from "./rule-check.ts";
import { budgetOf, eventQueries, lastBucketOf, type Slo, type SloWindow } from "./slo.ts";

export interface SloStores {
  readonly spans: Pick<SpanStore, "events">;
  readonly metrics: Pick<MetricsStore, "query">;
}

/** Whole minutes in seconds since 1970; the end is exclusive. */
interface SloRange {
  readonly startS: number;
  readonly endS: number;
  readonly stepS: number;
}

interface EventPoint {
  readonly startS: number;
  readonly endS: number;
  readonly good: number;
  readonly total: number;
}

const [MINUTE_S, HOUR_S, DAY_S] = [60, 3600, 86_400];
const STEP_S: Readonly<Record<SloWindow, number>> = {
  "7d": 2 * HOUR_S,
  "28d": 8 * HOUR_S,
  "30d": 8 * HOUR_S,
  "90d": DAY_S,
  month: 8 * HOUR_S,
};

export function windowAt(window: SloWindow, nowMs: number): SloRange {
  const endS = Math.floor(nowMs / 1000 / MINUTE_S) * MINUTE_S;
  const end = new Date(endS * 1000);
  const startS = window === "month" ? Date.UTC(end.getUTCFullYear(), end.getUTCMonth()) / 1000 : endS - Number.parseInt(window, 10) * DAY_S;
  return { startS, endS, stepS: STEP_S[window] };
}

/** Good and all events by point, oldest first, without gaps; the last point may be shorter. Throws ApiError as the stores do. */
export async function readEvents(stores: SloStores, slo: Slo, range: SloRange, options: QueryOptions = UNLIMITED): Promise<EventPoint[]> {
  const { startS, endS, stepS } = range;
  const count = Math.ceil((endS - startS) / stepS);
  const points = Array.from({ length: count }, (_, at) => ({
    startS: startS + at * stepS,
    endS: Math.min(endS, startS + (at + 1) * stepS),
    good: 0,
    total: 0,
  }));
  if (count === 0) return points;
  const calls = slo.indicator.availability ?? slo.indicator.latency;
  return calls ? await readCalls(stores, slo, { range, points, options }) : await readSeries(stores, slo, { points, options });
}

interface Question {
  readonly points: { readonly startS: number; readonly endS: number; good: number; total: number }[];
  readonly options: QueryOptions;
}

async function readCalls(stores: SloStores, slo: Slo, { range, points, options }: Question & { range: SloRange }): Promise<EventPoint[]> {
  const counted = await stores.spans.events(slo.orgId, { ...range, ...callsOf(slo) }, options);
  const activeMinutes = points.map(() => 0);
  for (const { point, good, total, minutes } of counted) {
    Object.assign(points[point] ?? {}, { good, total });
    activeMinutes[point] = minutes;
  }
  if (slo.no_traffic === "bad")
    points.forEach((point, at) => {
      const minutes = Math.max(0, point.endS - Math.max(point.startS, idleFromS(slo))) / MINUTE_S;
      point.total += Math.max(0, minutes - (activeMinutes[at] ?? 0));
    });
  return points;
}

export function callsOf(slo: Slo) {
  const { availability, latency } = slo.indicator;
  const { service, operation } = availability ?? latency ?? { service: "" };
  return {
    service,
    operation,
    lastBucket: latency && lastBucketOf(latency.below),
    minutesFromS: slo.no_traffic === "bad" ? idleFromS(slo) : undefined,
  };
}

/** The first minute that can be bad because it has no events: before, the objective did not exist. */
export function idleFromS({ definedAt }: Slo): number {
  return Math.ceil(definedAt.getTime() / 1000 / MINUTE_S) * MINUTE_S;
}

async function readSeries({ metrics }: SloStores, slo: Slo, { points, options }: Question): Promise<EventPoint[]> {
  const last = points.at(-1) as (typeof points)[number];
  const stepS = (points[0]?.endS ?? 0) - (points[0]?.startS ?? 0);
  const isCut = last.endS - last.startS < stepS;
  const whole = isCut ? points.slice(0, -1) : points;
  const read = async (part: Question["points"], widthS: number): Promise<void> => {
    if (part.length === 0) return;
    const byEnd = new Map(part.map((point) => [point.endS, point]));
    for (const [event, query] of Object.entries(eventQueries(slo, `${widthS}s`)))
      for (const [endS, value] of await queryValues(metrics, slo.orgId, { query, part, widthS, options }))
        Object.assign(byEnd.get(endS) ?? {}, { [event]: Math.max(0, value) });
  };
  await read(whole, stepS);
  if (isCut) await read([last], last.endS - last.startS);
  // Metrics that are sampled at different times can differ by an event.
  for (const point of points) point.good = Math.min(point.good, point.total);
  return points;
}

async function queryValues(
  metrics: Pick<MetricsStore, "query">,
  orgId: string,
  { query, part, widthS, options }: { query: string; part: Question["points"]; widthS: number; options: QueryOptions },
): Promise<[seconds: number, value: number][]> {
  const [start, end] = [part[0]?.endS ?? 0, part.at(-1)?.endS ?? 0].map(String) as [string, string];
  // Late samples would stay invisible in cached results.
  const params = new URLSearchParams({ query, start, end, step: `${widthS}s`, nocache: "1", timeout: "10s" });
  const answer = await metrics.query(orgId, "query_range", params, options).catch((error: unknown) => {
    throw storeError(error, "the metrics store, which has the events, cannot be reached: try again");
  });
  const { data, error } = JSON.parse(answer.body.toString("utf8")) as {
    data?: { result: { values: [number, string][] }[] };
    error?: string;
  };
  if (!data) throw new ApiError("invalid_parameter", `the expression of the objective fails: ${(error ?? "").slice(0, 300)}`);
  return data.result.flatMap(({ values }) => values.map(([seconds, value]): [number, number] => [seconds, Number(value)]));
}

export function sumEvents(points: readonly EventPoint[]): { readonly good: number; readonly total: number } {
  return { good: points.reduce((sum, { good }) => sum + good, 0), total: points.reduce((sum, { total }) => sum + total, 0) };
}

/** The share of good events; null without events. */
export function sliOf({ good, total }: { readonly good: number; readonly total: number }): number | null {
  return total === 0 ? null : good / total;
}

/** The unused part of the error budget: 1 without bad events, below 0 if more is used than there is. */
export function budgetRemaining(slo: Slo, { good, total }: { readonly good: number; readonly total: number }): number {
  return total === 0 ? 1 : 1 - (total - good) / (budgetOf(slo) * total);
}

/** How many times faster than the objective allows the budget is used. */
export function burnRateOf(slo: Slo, { good, total }: { readonly good: number; readonly total: number }): number {
  return total === 0 ? 0 : (total - good) / total / budgetOf(slo);
}

/**
 * Seconds until the budget is used up at this burn rate, with the traffic of the window; null if that never happens: a rolling window
 * forgets bad events as fast as new ones come at a rate of 1, and a month ends.
 */
export function exhaustedInS(slo: Slo, remaining: number, burnRate: number, nowMs: number): number | null {
  if (remaining <= 0) return 0;
  const { endS } = windowAt(slo.window, nowMs);
  const now = new Date(endS * 1000);
  const monthEndS = Date.UTC(now.getUTCFullYear(), now.getUTCMonth() + 1) / 1000;
  const lengthS = slo.window === "month" ? monthEndS - windowAt("month", nowMs).startS : Number.parseInt(slo.window, 10) * DAY_S;
  if (burnRate <= (slo.window === "month" ? 0 : 1)) return null;
  const seconds = Math.round((remaining * lengthS) / burnRate);
  return slo.window === "month" && endS + seconds >= monthEndS ? null : seconds;
}

/** The response of GET /query/slos/{id}, without the objective. */
export async function reportOf(stores: SloStores, slo: Slo, nowMs: number, options: QueryOptions = UNLIMITED) {
  const range = windowAt(slo.window, nowMs);
  const recentRange = { startS: range.endS - 3 * DAY_S, endS: range.endS, stepS: HOUR_S };
  const [points, recent] = await Promise.all([readEvents(stores, slo, range, options), readEvents(stores, slo, recentRange, options)]);
  const sum = sumEvents(points);
  const burnRates = Object.fromEntries(
    Object.entries({ "1h": 1, "6h": 6, "3d": 72 }).map(([name, hours]) => [name, burnRateOf(slo, sumEvents(recent.slice(-hours)))]),
  );
  const remaining = budgetRemaining(slo, sum);
  let bad = 0;
  const history = points.map(({ startS, endS, good, total }) => {
    bad += total - good;
    const point = {
      good,
      total,
      sli: sliOf({ good, total }),
      budget_remaining: budgetRemaining(slo, { good: sum.total - bad, total: sum.total }),
    };
    return { start: timeText(startS), end: timeText(endS), ...point };
  });
  return {
    range: { start: timeText(range.startS), end: timeText(range.endS) },
    ...sum,
    sli: sliOf(sum),
    budget_remaining: remaining,
    allowed_bad: budgetOf(slo) * sum.total,
    burn_rates: burnRates,
    exhausted_in_s: exhaustedInS(slo, remaining, burnRates["1h"] ?? 0, nowMs),
    history,
  };
}

function timeText(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}

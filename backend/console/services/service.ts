// Reads services from GET /query/services, and decides which of them got worse.
import type { ApiResponses } from "../../client/api.ts";
import { call } from "../state/api.ts";

export type Service = ApiResponses["GET /query/services"][number];
export type Point = ApiResponses["GET /query/services/{service}/timeseries"][number];
export type Operation = ApiResponses["GET /query/services/{service}/operations"][number];
export type ServiceFigures = Pick<Service, "calls" | "error_ratio" | "p95_ms">;

/** Minimum changes that count: the factor of p95, and the difference in the share of errors. */
export const WORSE_LATENCY = 1.5;
const WORSE_ERRORS = 0.01;
/** With fewer calls, changes are not significant. */
const MIN_CALLS = 10;
/** Standard errors by which shares of errors differ; by chance, 1 of 700 comparisons does. */
const SIGNIFICANT = 3;

/** `points`: number of points per series; 1 if only the figures are used. */
export async function readServices(fromMs: number, toMs: number, signal: AbortSignal, points = 30): Promise<Service[]> {
  return await call<Service[]>("/query/services", {
    query: { start: new Date(fromMs).toISOString(), end: new Date(toMs).toISOString(), points },
    signal,
  });
}

/** How much worse the service is than before; 0 if it is not, or if there were too few calls for a comparison. */
export function worseBy(now: ServiceFigures, before: ServiceFigures | undefined): number {
  if (now.calls < MIN_CALLS || before === undefined || before.calls < MIN_CALLS) return 0;
  const errors = now.error_ratio - before.error_ratio;
  const latency = before.p95_ms && now.p95_ms ? now.p95_ms / before.p95_ms : 1;
  return (errors >= WORSE_ERRORS && isSignificant(now, before) ? errors * 10 : 0) + (latency >= WORSE_LATENCY ? Math.log2(latency) : 0);
}

/** The test of two proportions with their pooled variance. */
function isSignificant(now: ServiceFigures, before: ServiceFigures): boolean {
  const share = (now.error_ratio * now.calls + before.error_ratio * before.calls) / (now.calls + before.calls);
  return now.error_ratio - before.error_ratio >= SIGNIFICANT * Math.sqrt(share * (1 - share) * (1 / now.calls + 1 / before.calls));
}

const errorsOf = ({ calls, error_ratio: ratio }: ServiceFigures): number => (calls < MIN_CALLS ? 0 : ratio);

/** Services that got worse, the worst first; then those with the most errors, then those with the most calls. */
export function worstFirst<T extends ServiceFigures & { readonly service: string }>(
  now: readonly T[],
  before: readonly T[],
): (T & { readonly worse: number })[] {
  const earlier = new Map(before.map((service) => [service.service, service]));
  return now
    .map((service) => ({ ...service, worse: worseBy(service, earlier.get(service.service)) }))
    .toSorted((a, b) => b.worse - a.worse || errorsOf(b) - errorsOf(a) || b.calls - a.calls || a.service.localeCompare(b.service));
}

/** `1.2/s`, `3.4/min`. */
export function rateText(perSecond: number): string {
  if (perSecond === 0) return "0";
  if (perSecond >= 1) return `${Number(perSecond.toPrecision(3)).toLocaleString("en")}/s`;
  return `${Number((perSecond * 60).toPrecision(2))}/min`;
}

export function shareText(ratio: number): string {
  return ratio === 0 ? "0 %" : ratio < 0.001 ? "< 0.1 %" : `${Number((ratio * 100).toPrecision(2))} %`;
}

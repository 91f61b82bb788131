// Finds services and operations whose rate, errors or latency moved, from calls by interval of two ranges. Invariant: a service is
// reported once for each of the three figures, with the operation that moved most; a change that a called service explains ranks below it.
import { TimeSlices } from "../../admission/time-slices.ts";
import type { OperationPoints } from "../../storage/traces/operation-points.ts";
import { BUCKETS_PER_DOUBLING, upperBoundMs } from "../../storage/traces/span-histogram.ts";
import { type Change, type Comparison, evidenceOf, figure, linkTo, POINTS, scoreOfRatio, WINDOWS, wholeOf, windowOf } from "./change.ts";
import { compareCounts, compareProportions, discoveries, dispersionOfCounts, dispersionOfShares, sum } from "./statistics.ts";

export interface Call {
  readonly client: string;
  readonly server: string;
}

const MIN_CALLS = 20;
/** In a window of the range, which can be a quarter of it. */
const MIN_CALLS_NOW = 10;
const MIN_ERRORS = 5;
/** Errors must be more than this share of the calls in addition to the share before, and 1.5 times as frequent. */
const MIN_ERROR_SHARE = 0.01;
const MIN_ERROR_RATIO = 1.5;
/** A quantile is accurate to 19 %, so smaller differences may be none. */
const MIN_LATENCY_RATIO = 1.5;
const MIN_LATENCY_MS = 5;
const MIN_RATE_RATIO = 2;
/** A rate that changed by this factor is a problem, not a notice. */
const PROBLEM_RATE_RATIO = 3;
/** How much the score of a change falls if a called service changed too. */
const EXPLAINED = 20;

/** Calls, errors and buckets of durations by point. */
class Series {
  readonly calls = new Float64Array(POINTS);
  readonly errors = new Float64Array(POINTS);
  readonly buckets = Array.from({ length: POINTS }, () => new Map<number, number>());

  /** Adds the points from `first` on. */
  constructor(operations: readonly OperationPoints[], first: number) {
    for (const [point, calls, errors, keys, counts] of operations.flatMap(({ points }) => points)) {
      const at = point - first;
      const buckets = this.buckets[at];
      if (!buckets) continue;
      this.calls[at] = (this.calls[at] ?? 0) + calls;
      this.errors[at] = (this.errors[at] ?? 0) + errors;
      keys.forEach((bucket, key) => buckets.set(bucket, (buckets.get(bucket) ?? 0) + (counts[key] ?? 0)));
    }
  }

  last(points: number): { calls: number; errors: number } {
    return { calls: sum(this.calls.slice(-points)), errors: sum(this.errors.slice(-points)) };
  }

  durations(points: number): Map<number, number> {
    const durations = new Map<number, number>();
    for (const buckets of this.buckets.slice(-points))
      for (const [bucket, n] of buckets) durations.set(bucket, (durations.get(bucket) ?? 0) + n);
    return durations;
  }
}

interface Pair {
  readonly service: string;
  readonly operation?: string | undefined;
  readonly kind: string;
  readonly before: Series;
  readonly now: Series;
}

type RedKind = "errors" | "latency" | "rate";

interface Test {
  readonly kind: RedKind;
  readonly pair: Pair;
  readonly points: number;
  readonly p: number;
  readonly before: number;
  readonly now: number;
}

/**
 * `entry`: spans that enter a service; `client`: its calls of others. Returns at most one change for each service and figure. In slices,
 * because the durations of many operations take seconds.
 */
export async function findRedChanges(
  { entry, client }: Readonly<Record<"entry" | "client", readonly OperationPoints[]>>,
  calls: readonly Call[],
  comparison: Comparison,
): Promise<Change[]> {
  const slices = new TimeSlices();
  const services = [...Map.groupBy(entry, ({ service }) => service).values()];
  const pairs = [
    ...(await slices.map(services, (operations) => ({ ...newPair(operations), operation: undefined }))),
    ...(await slices.map([...entry, ...client], (operation) => newPair([operation]))),
  ];
  const tests = await slices.map(pairs, (pair) => [...errorTests(pair), ...latencyTests(pair), ...rateTests(pair)]);
  const found = discoveries(tests.flat()).filter(isLarge);
  const ofService = Map.groupBy(found, ({ kind, pair }) => `${kind} ${pair.service}`);
  const changes = [...ofService.values()].map((tests) => describe(tests, comparison));
  return changes.map((change) => lowerIfExplained(change, changes, calls));
}

function newPair(operations: readonly OperationPoints[]): Pair {
  const { service, operation, kind } = operations[0] as OperationPoints;
  return { service, operation, kind, before: new Series(operations, 0), now: new Series(operations, POINTS) };
}

function errorTests(pair: Pair): Test[] {
  const before = pair.before.last(POINTS);
  const shares = [...pair.before.calls].map((trials, at) => ({ hits: pair.before.errors[at] ?? 0, trials }));
  const dispersion = dispersionOfShares(shares);
  return WINDOWS.flatMap((points): Test[] => {
    const now = pair.now.last(points);
    if (before.calls < MIN_CALLS || now.calls < MIN_CALLS_NOW || Math.max(before.errors, now.errors) < MIN_ERRORS) return [];
    const p = compareProportions({ hits: before.errors, trials: before.calls }, { hits: now.errors, trials: now.calls }, dispersion);
    return [{ kind: "errors", pair, points, p, before: before.errors / before.calls, now: now.errors / now.calls }];
  });
}

/** Compares the share of calls above the 95th percentile of before, which needs no assumption about the distribution of durations. */
function latencyTests(pair: Pair): Test[] {
  const { calls } = pair.before.last(POINTS);
  if (calls < MIN_CALLS) return [];
  const before = pair.before.durations(POINTS);
  const limit = quantileBucket(before, 0.95);
  const slowOf = (durations: ReadonlyMap<number, number>): number =>
    sum([...durations].filter(([bucket]) => bucket > limit).map(([, n]) => n));
  return WINDOWS.flatMap((points): Test[] => {
    const { calls: callsNow } = pair.now.last(points);
    if (callsNow < MIN_CALLS_NOW) return [];
    const now = pair.now.durations(points);
    const p = compareProportions({ hits: slowOf(before), trials: calls }, { hits: slowOf(now), trials: callsNow });
    return [{ kind: "latency", pair, points, p, before: quantileMs(before, 0.95), now: quantileMs(now, 0.95) }];
  });
}

function rateTests(pair: Pair): Test[] {
  const before = pair.before.last(POINTS).calls;
  const dispersion = dispersionOfCounts([...pair.before.calls]);
  return WINDOWS.flatMap((points): Test[] => {
    const now = pair.now.last(points).calls;
    const expected = (before * points) / POINTS;
    if (Math.max(now, expected) < MIN_CALLS) return [];
    const p = compareCounts(before, now, points / POINTS, dispersion);
    return [{ kind: "rate", pair, points, p, before: before / POINTS, now: now / points }];
  });
}

function isLarge({ kind, before, now, points, pair }: Test): boolean {
  if (kind === "errors") return isMoreErrors(before, now) || isMoreErrors(now, before);
  if (kind === "latency") return Math.abs(now - before) >= MIN_LATENCY_MS && ratioOf(before, now) >= MIN_LATENCY_RATIO;
  // A client span's rate follows the rate of the service.
  return pair.kind !== "CLIENT" && ratioOf(before, now) >= MIN_RATE_RATIO && Math.max(before, now) * points >= MIN_CALLS;
}

function isMoreErrors(less: number, more: number): boolean {
  return more - less >= MIN_ERROR_SHARE && more >= MIN_ERROR_RATIO * less;
}

/** How many times as large the larger value is. */
function ratioOf(a: number, b: number): number {
  const [least, most] = [Math.min(a, b), Math.max(a, b)];
  return least === 0 ? Number.POSITIVE_INFINITY : most / least;
}

/** Describes the tests of one service and figure: by those of the whole service, if it moved as a whole, otherwise by its operation. */
function describe(tests: readonly Test[], comparison: Comparison): Change {
  const chosen = tests.toSorted((a, b) => scoreOf(b) - scoreOf(a))[0] as Test;
  const { kind, pair, before, now, p, points } = chosen;
  const { service, operation } = pair;
  const isClient = pair.kind === "CLIENT";
  const subject = operation === undefined ? service : `${service}: ${isClient ? "call " : ""}${operation}`;
  const window = windowOf(comparison, points);
  const query = { service, operation, ...(kind === "errors" && { error: "true" }) };
  const path = `/query/services/${encodeURIComponent(service)}/timeseries`;
  const shown = isClient ? { kind: "client", operation } : { operation };
  return {
    kind,
    severity: isProblem(chosen) ? "problem" : "notice",
    score: scoreOf(chosen),
    subject,
    title: titleOf(chosen, subject, comparison),
    service,
    operation,
    before: kind === "rate" ? perSecond(before, comparison) : before,
    now: kind === "rate" ? perSecond(now, comparison) : now,
    unit: { errors: "share of calls", latency: "ms", rate: "calls/s" }[kind],
    since_ms: window.startMs,
    p,
    evidence: evidenceOf(path, wholeOf(comparison), shown),
    link: kind === "rate" ? linkTo("services", {}, comparison.now, service) : linkTo("traces", query, window),
  };
}

function titleOf({ kind, before, now }: Test, subject: string, comparison: Comparison): string {
  const direction = now > before ? "rose" : "fell";
  if (kind === "errors") return `errors of ${subject} ${direction} from ${figure(before * 100)} % to ${figure(now * 100)} % of calls`;
  if (kind === "latency") return `latency of ${subject} ${direction}: p95 from ${figure(before)} ms to ${figure(now)} ms`;
  return `calls of ${subject} ${direction} from ${figure(perSecond(before, comparison))} to ${figure(perSecond(now, comparison))} per second`;
}

function perSecond(callsPerPoint: number, { now }: Comparison): number {
  return (callsPerPoint * POINTS * 1000) / (now.endMs - now.startMs);
}

function isProblem({ kind, before, now }: Test): boolean {
  return kind === "rate" ? ratioOf(before, now) >= PROBLEM_RATE_RATIO : now > before;
}

function scoreOf(test: Test): number {
  const { kind, before, now, pair } = test;
  const isWhole = pair.operation === undefined ? 0.5 : 0;
  if (!isProblem(test)) return scoreOfRatio(ratioOf(before, now), 20, 35) + isWhole;
  // An error of a call is nearer to the cause than that of the caller.
  const isCall = pair.kind === "CLIENT" ? 2 : 0;
  if (kind === "errors") return 70 + 20 * Math.min(1, (now - before) * 2) + isWhole + isCall;
  if (kind === "latency") return scoreOfRatio(now / before, 62, 88) + isWhole + isCall;
  return now < before ? scoreOfRatio(ratioOf(before, now), 60, 88) + isWhole : scoreOfRatio(ratioOf(before, now), 55, 80) + isWhole;
}

/** Errors and latency of a service that calls another with the same problem follow from it. */
function lowerIfExplained(change: Change, changes: readonly Change[], calls: readonly Call[]): Change {
  if (change.severity !== "problem") return change;
  const called = new Set(calls.filter(({ client, server }) => client === change.service && server !== client).map(({ server }) => server));
  const cause = changes.find(({ service = "", severity, kind }) => called.has(service) && severity === "problem" && kind !== "rate");
  if (!cause || (change.kind === "rate" && cause.kind !== "errors")) return change;
  return { ...change, score: change.score - EXPLAINED, title: `${change.title}; it calls ${cause.service}, which changed too` };
}

function quantileBucket(durations: ReadonlyMap<number, number>, quantile: number): number {
  const sorted = [...durations].toSorted(([a], [b]) => a - b);
  const rank = quantile * sum(sorted.map(([, n]) => n));
  let seen = 0;
  for (const [bucket, n] of sorted) if ((seen += n) >= rank) return bucket;
  return Number.NEGATIVE_INFINITY;
}

/** Interpolated within its bucket, as the service routes do. */
function quantileMs(durations: ReadonlyMap<number, number>, quantile: number): number {
  const bucket = quantileBucket(durations, quantile);
  const below = sum([...durations].filter(([at]) => at < bucket).map(([, n]) => n));
  const part = (quantile * sum([...durations.values()]) - below) / (durations.get(bucket) ?? 1);
  return upperBoundMs(bucket) * 2 ** ((part - 1) / BUCKETS_PER_DOUBLING);
}

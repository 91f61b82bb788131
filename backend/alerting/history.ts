// Reads when a rule was pending or firing, from the ALERTS series that the evaluator writes. Invariants: the query is restricted to the
// organisation like every other; the engine thins out the samples, so that reading them does not delay other requests.
import type { LabelLimits } from "../admission/limited-labels.ts";
import { ApiError } from "../errors.ts";
import { objectSchema, TIME_SCHEMA } from "../http/schemas.ts";
import type { MetricsStore } from "../storage/metrics/metric-store.ts";
import { MAX_HISTORY_POINTS, MAX_HISTORY_SAMPLES } from "./alerting-limits.ts";
import { storeError } from "./rule-check.ts";

export const PERIOD_SCHEMA = objectSchema({
  state: { type: "string", enum: ["pending", "firing"] },
  start: TIME_SCHEMA,
  end: TIME_SCHEMA,
  labels: { type: "object", additionalProperties: { type: "string" } },
});

export interface HistoryQuery {
  readonly orgId: string;
  readonly ruleId: string;
  readonly startMs: number;
  readonly endMs: number;
  readonly limit: number;
  /** Interval between evaluations. */
  readonly intervalMs: number;
  /** Only instances that a reader with these limits may see. */
  readonly labelLimits: LabelLimits | undefined;
}

const MIN_POINTS = 20;
/** Labels that the server sets, not the rule or the series. */
const SERVER_LABELS = new Set(["__name__", "alertgroup", "alertname", "alertstate", "org_id", "rule_id"]);

interface Series {
  readonly metric: Readonly<Record<string, string>>;
  /** Set for a range query. */
  readonly values: readonly (readonly [seconds: number, value: string])[];
  /** Set for an instant query. */
  readonly value?: readonly [seconds: number, value: string];
}

/** Newest first. Throws ApiError `unavailable` if the metrics store is unavailable. */
export async function alertHistory(metrics: Pick<MetricsStore, "query">, query: HistoryQuery) {
  const { orgId, labelLimits, ruleId, startMs, endMs, limit, intervalMs } = query;
  const alerts = `ALERTS{rule_id="${ruleId}",alertstate=~"pending|firing"}`;
  const window = `[${Math.max(1, Math.ceil((endMs - startMs) / 1000))}s]`;
  const atEnd = { time: String(endMs / 1000) };
  const fetchSeries = (endpoint: "query" | "query_range", params: Record<string, string>) =>
    querySeries(metrics, { orgId, labelLimits }, endpoint, params);

  const readNumber = async (expression: string): Promise<number> =>
    Number((await fetchSeries("query", { query: expression, ...atEnd }))[0]?.value?.[1] ?? 0);
  const isExact = (await readNumber(`sum(count_over_time(${alerts}${window}))`)) <= MAX_HISTORY_SAMPLES;
  const points = isExact
    ? 0
    : Math.min(MAX_HISTORY_POINTS, Math.floor(MAX_HISTORY_SAMPLES / (await readNumber(`count(last_over_time(${alerts}${window}))`))));
  if (!isExact && points < MIN_POINTS)
    throw new ApiError("invalid_parameter", `start: more than ${MAX_HISTORY_SAMPLES / MIN_POINTS} instances: request a shorter time`);
  const stepS = Math.max(1, Math.ceil(intervalMs / 1000), isExact ? 0 : Math.ceil((endMs - startMs) / 1000 / points));
  const range = { query: alerts, start: String(startMs / 1000), end: String(endMs / 1000), step: `${stepS}s` };
  const seriesList = isExact
    ? await fetchSeries("query", { query: `${alerts}${window}`, ...atEnd })
    : await fetchSeries("query_range", range);
  const periods = seriesList.flatMap((series) => findPeriods(series, stepS));
  return periods.sort((a, b) => b.start.localeCompare(a.start) || b.end.localeCompare(a.end)).slice(0, limit);
}

async function querySeries(
  metrics: Pick<MetricsStore, "query">,
  { orgId, labelLimits }: Pick<HistoryQuery, "orgId" | "labelLimits">,
  endpoint: "query" | "query_range",
  params: Record<string, string>,
): Promise<readonly Series[]> {
  const answer = await metrics
    .query(orgId, endpoint, new URLSearchParams({ ...params, timeout: "10s" }), { labelLimits })
    .catch((error: unknown) => {
      throw storeError(error, "the metrics store, which keeps the history, cannot be reached: try again");
    });
  const found = (JSON.parse(answer.body.toString("utf8")) as { data?: { result?: readonly Series[] } }).data?.result;
  if (!found) throw new ApiError("internal", "the history cannot be read", { cause: new Error(answer.body.toString("utf8", 0, 500)) });
  return found;
}

/** The periods of one instance in one state. Samples with at most one missing between them form one period. */
function findPeriods({ metric, values }: Series, stepS: number) {
  const spans: { from: number; to: number }[] = [];
  for (const [seconds] of values) {
    const last = spans.at(-1);
    if (last && seconds - last.to <= stepS * 2.5) last.to = seconds;
    else spans.push({ from: seconds, to: seconds });
  }
  const labels = Object.fromEntries(Object.entries(metric).filter(([name]) => !SERVER_LABELS.has(name)));
  const state = metric["alertstate"] === "firing" ? "firing" : "pending";
  return spans.map(({ from, to }) => ({ state, start: formatTime(from), end: formatTime(to), labels }));
}

function formatTime(seconds: number): string {
  return new Date(seconds * 1000).toISOString();
}

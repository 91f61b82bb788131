// Why the evaluation of a rule failed, for its organisation. Invariant: no text of the evaluator is passed on, because it contains addresses
// and may contain names of other organisations; it only selects one of the reasons here.

/** In this order: the first match wins. The phrases are those of vmalert and of VictoriaMetrics. */
const REASONS: readonly (readonly [phrase: RegExp, reason: string])[] = [
  [
    /metrics with the same labelset|duplicate output timeseries/,
    "several series have the same labels: aggregate them, or keep the label that differs",
  ],
  [/exec exceeded limit of \d+/, "the expression matches more series than the rule may have alerts: aggregate, or narrow its selectors"],
  [/duplicate time series on the/, "several series of one side of an operator match: match on more labels, or aggregate that side"],
  [
    /timeout exceeded (?:during|before|while)|-search\.maxQueryDuration|context deadline exceeded|Client\.Timeout/,
    "the expression takes too long: narrow its selectors or its range",
  ],
  [
    /number of matching timeseries exceeds|cannot select more than|-search\.max(?:Series|Samples|UniqueTimeseries|PointsPerTimeseries)/,
    "the expression matches too many series: narrow its selectors",
  ],
  [/-search\.maxMemoryPerQuery|not enough memory/, "the expression needs too much memory: narrow its selectors or its range"],
  [/too long query/, "the expression is longer than the metrics store accepts (-search.maxQueryLen)"],
  [/vmstorage/, "the metrics store is incomplete: a storage node does not answer"],
  [/-search\.maxConcurrentRequests|response code 429/, "the metrics store is overloaded"],
  [/response code (?:401|403)\b/, "the metrics store refuses the evaluator: the operator must check its password"],
  [/response code 4\d\d\b/, "the metrics store refuses the expression"],
  [/error getting response from|response code 5\d\d\b|connection refused|EOF/, "the metrics store is unavailable"],
];

/** `annotations` are those of the rule. */
export function describeEvaluationError(lastError: string, annotations: Readonly<Record<string, string>>): string {
  if (lastError.includes("failed to expand annotation templates")) {
    const failed = Object.keys(annotations).filter((name) => lastError.includes(`(key: "${name}", value: `));
    return `annotation ${failed.join(", ")}: a formatter cannot format a value, so the value is shown as it is`;
  }
  const reason = REASONS.find(([phrase]) => phrase.test(lastError))?.[1] ?? "the evaluator's log has the reason";
  return `the last evaluation failed: ${reason}`;
}

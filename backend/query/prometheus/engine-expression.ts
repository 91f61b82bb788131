// Rewrites a PromQL expression so that the engine returns what Prometheus would: functions get the engine's names, and results lose metric
// names that the engine keeps but Prometheus drops. Invariants: the time is proportional to the length of the expression; an expression that
// selects several metrics by pattern keeps their names, because series that differ only in the name would become equal.
import { TOKENS } from "./exemplar-selectors.ts";
import { endOfCall } from "./scalar-results.ts";

const ENGINE_NAMES: Readonly<Record<string, string>> = { double_exponential_smoothing: "holt_winters" };
/** Functions whose results keep the metric name in VictoriaMetrics but not in Prometheus. */
const KEEPING_NAMES =
  /^(?:(?:avg|max|min|quantile)_over_time|predict_linear|holt_winters|double_exponential_smoothing|ceil|floor|round|clamp(?:_min|_max)?)$/;

export function engineExpression(expression: string): string {
  const renamed = expression.replaceAll(TOKENS, (token) => (Object.hasOwn(ENGINE_NAMES, token) && ENGINE_NAMES[token]) || token);
  // The line break ends a comment at the end of the expression.
  return keepsName(expression) ? `label_del(${renamed}\n, "__name__")` : renamed;
}

/** Whether the whole expression is one call of such a function. */
function keepsName(expression: string): boolean {
  const tokens = [...expression.matchAll(TOKENS)].map(([token]) => token).filter((token) => !token.startsWith("#"));
  if (!KEEPING_NAMES.test(tokens[0] ?? "") || tokens[1] !== "(" || endOfCall(tokens, 1) !== tokens.length - 1) return false;
  return !tokens.some((token, at) => token === "__name__" || (token === "{" && ["(", ","].includes(tokens[at - 1] ?? "")));
}

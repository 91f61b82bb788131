// Defines a rule in the form of the alerting API.
import type { ApiBodies, ApiResponses } from "../../client/api.ts";

export const RULES = "/alerting/rules";

export type LogCondition = NonNullable<ApiBodies["POST /alerting/rules"]["logs"]>;

/** `expr`: PromQL; for a log rule, its condition as text. A new rule has no `id`. */
export type Rule = ApiBodies["POST /alerting/rules"] & {
  readonly id?: string;
  readonly expr: string;
  /** The rule is generated for this service level objective, and cannot be changed alone. */
  readonly slo_id?: string;
};

export type RuleStatus = ApiResponses["GET /alerting/rules/{id}/status"];
export type RuleWithStatus = Rule & { readonly status: RuleStatus | undefined };

export const NEW_RULE: Rule = { name: "", expr: "", for: "5m", severity: "warning", enabled: true, labels: {}, annotations: {} };

/** A new rule for the expression or the log query that the address contains. */
export function newRule(query: URLSearchParams): Rule {
  const [expr, logs] = [query.get("expr"), query.get("logs")];
  if (logs === null) return { ...NEW_RULE, expr: withComparison(expr ?? "") };
  return { ...NEW_RULE, for: "0s", logs: { filter: { query: logs }, window: "5m", operator: ">", threshold: 10, by: [] } };
}

/** A chart draws a value, but a rule needs a comparison, whose threshold the form draws and lets the user drag. */
function withComparison(expr: string): string {
  const outside = expr.replaceAll(/"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'/g, "").replaceAll(/\{[^{}]*\}/g, "");
  if (outside.trim() === "" || /[<>]|[=!]=|\babsent/.test(outside)) return expr;
  return `${/\b(and|or|unless)\b/i.test(outside) ? `(${expr})` : expr} > 0`;
}

export type LogFilter = NonNullable<LogCondition["filter"]>;

export function otherFilters(filter: LogFilter = {}): string {
  return Object.entries(filter)
    .filter(([name]) => name !== "query")
    .map(([name, value]) => `${name}=${[value].flat().join(",")}`)
    .join(" ");
}

/** A filter with another query. Filters without a field stay as they are. */
export function withQuery({ query: _query, ...others }: LogFilter = {}, typed: string): LogFilter {
  return { ...others, ...(typed.trim() !== "" && { query: typed.trim() }) };
}

/** `key=value` lines, as users type them. */
export function formatPairs(pairs: Readonly<Record<string, string>> = {}): string {
  return Object.entries(pairs)
    .map(([name, value]) => `${name}=${value}`)
    .join("\n");
}

/** Throws an Error whose message is shown to the user. */
export function parsePairs(text: string): Record<string, string> {
  return Object.fromEntries(
    splitLines(text).map((line) => {
      const at = line.indexOf("=");
      if (at < 1) throw new Error(`"${line.slice(0, 40)}" is no name=value`);
      return [line.slice(0, at).trim(), line.slice(at + 1)];
    }),
  );
}

export function splitLines(text: string): string[] {
  return text.split("\n").filter((line) => line.trim() !== "");
}

/** Splits an expression before its last comparison with a number: a preview draws the left side and the threshold. */
export function splitComparison(expr: string): { left: string; threshold: number } | undefined {
  const [, left, number] = /^([\s\S]+?)\s*(?:>=|<=|==|!=|>|<)\s*(-?[\d.]+(?:e[+-]?\d+)?)\s*$/i.exec(expr.trim()) ?? [];
  return left === undefined || !Number.isFinite(Number(number)) ? undefined : { left, threshold: Number(number) };
}

/** An expression that splitComparison splits, with another number. */
export function withThreshold(expr: string, threshold: number): string {
  const at = Math.max(...["<", ">", "="].map((operator) => expr.lastIndexOf(operator)));
  return `${expr.slice(0, at + 1)} ${threshold}`;
}

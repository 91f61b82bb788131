// Finds the selectors of a PromQL expression, as Prometheus' query_exemplars does. Invariant: the text is read once, and a selector that
// cannot be parsed is skipped, because it might select other series than the caller meant.
import type { ExemplarSelector, LabelMatcher } from "../../storage/traces/exemplars.ts";

/** Accepts any text. Unterminated strings extend to the end, so that no character is read twice. */
export const TOKENS = /"(?:[^"\\]|\\[^])*"?|'(?:[^'\\]|\\[^])*'?|`[^`]*`?|#[^\n]*|\[[^\]]*\]?|[=!]~|[=!<>]=|[\p{L}_:.\d]+|[^\s]/gu;
const OPERATORS: ReadonlySet<string> = new Set(["=", "!=", "=~", "!~"]);
/** Keywords that are followed by a list of labels in parentheses. */
const BEFORE_LABELS: ReadonlySet<string> = new Set(["by", "without", "on", "ignoring", "group_left", "group_right"]);
const KEYWORDS: ReadonlySet<string> = new Set([...BEFORE_LABELS, "and", "or", "unless", "offset", "bool", "atan2", "inf", "nan"]);
/** Matches names, but neither numbers nor durations. */
const NAME = /^[\p{L}_:]/u;

/** All selectors; the name of a series becomes a matcher of `__name__`. */
export function selectorsOf(expression: string): ExemplarSelector[] {
  const tokens = [...expression.matchAll(TOKENS)].map(([token]) => token).filter((token) => !token.startsWith("#"));
  const selectors: ExemplarSelector[] = [];
  for (let at = 0; at < tokens.length; at += 1) {
    const token = tokens[at] as string;
    if (BEFORE_LABELS.has(token.toLowerCase()) && tokens[at + 1] === "(") {
      const close = tokens.indexOf(")", at);
      if (close === -1) break;
      at = close;
      continue;
    }
    const named = isMetricName(token, tokens[at + 1] ?? "") ? [{ label: "__name__", operator: "=", value: token } as const] : [];
    const open = at + named.length;
    if (tokens[open] !== "{") {
      if (named.length > 0) selectors.push(named);
      continue;
    }
    const close = tokens.indexOf("}", open);
    if (close === -1) break;
    const matchers = matchersOf(tokens.slice(open + 1, close));
    if (matchers && named.length + matchers.length > 0) selectors.push([...named, ...matchers]);
    at = close;
  }
  return selectors;
}

/** False for functions and aggregations: a parenthesis or the labels of the aggregation follow them. */
function isMetricName(token: string, next: string): boolean {
  return NAME.test(token) && next !== "(" && !KEYWORDS.has(token.toLowerCase()) && !BEFORE_LABELS.has(next.toLowerCase());
}

/** Undefined if the tokens are not a list of matchers. */
function matchersOf(tokens: readonly string[]): LabelMatcher[] | undefined {
  const matchers: LabelMatcher[] = [];
  for (let at = 0; at < tokens.length; at += 4) {
    const [label = "", operator = "", quoted = "", comma = ","] = tokens.slice(at, at + 4);
    if (!OPERATORS.has(operator) || !/^["'`]/.test(quoted) || comma !== ",") return undefined;
    matchers.push({ label, operator: operator as LabelMatcher["operator"], value: unquoted(quoted) });
  }
  return matchers;
}

/** The text of a PromQL literal. */
export function unquoted(quoted: string): string {
  const text = quoted.slice(1, -1);
  if (quoted.startsWith("`")) return text;
  return text.replaceAll(/\\([^])/g, (_, character: string) => ({ n: "\n", t: "\t" })[character] ?? character);
}

// Finds the selectors of one series in a PromQL expression, as Prometheus' query_exemplars does with every series of an expression. Invariant:
// the text is read once, and a selector that cannot be read is left out, because it would select other series than the caller meant.
import type { ExemplarSelector, LabelMatcher } from "../../storage/traces/exemplars.ts";

/** Unterminated strings reach to the end, so that no character is looked at twice. */
const TOKENS = /"(?:[^"\\]|\\[^])*"?|'(?:[^'\\]|\\[^])*'?|`[^`]*`?|#[^\n]*|[=!]~|!=|[\p{L}_:.\d]+|[^\s]/gu;
const OPERATORS: ReadonlySet<string> = new Set(["=", "!=", "=~", "!~"]);

/** Selectors of the series `name`, with or without braces, or with `__name__` within them. */
export function selectorsOf(expression: string, name: string): ExemplarSelector[] {
  const tokens = [...expression.matchAll(TOKENS)].map(([token]) => token).filter((token) => !token.startsWith("#"));
  const selectors: ExemplarSelector[] = [];
  for (let at = 0; at < tokens.length; at += 1) {
    const isNamed = tokens[at] === name;
    const open = isNamed ? at + 1 : at;
    if (tokens[open] !== "{") {
      if (isNamed) selectors.push([]);
      continue;
    }
    const close = tokens.indexOf("}", open);
    if (close === -1) break;
    const matchers = matchersOf(tokens.slice(open + 1, close));
    const selectsName = ({ label, operator, value }: LabelMatcher): boolean => label === "__name__" && operator === "=" && value === name;
    if (matchers && (isNamed || matchers.some(selectsName))) selectors.push(matchers);
    at = close;
  }
  return selectors;
}

/** Undefined where the tokens are no list of matchers. */
function matchersOf(tokens: readonly string[]): LabelMatcher[] | undefined {
  const matchers: LabelMatcher[] = [];
  for (let at = 0; at < tokens.length; at += 4) {
    const [label = "", operator = "", quoted = "", comma = ","] = tokens.slice(at, at + 4);
    if (!OPERATORS.has(operator) || !/^["'`]/.test(quoted) || comma !== ",") return undefined;
    matchers.push({ label, operator: operator as LabelMatcher["operator"], value: unquoted(quoted) });
  }
  return matchers;
}

/** The text of a literal of PromQL. */
export function unquoted(quoted: string): string {
  const text = quoted.slice(1, -1);
  if (quoted.startsWith("`")) return text;
  return text.replaceAll(/\\([^])/g, (_, character: string) => ({ n: "\n", t: "\t" })[character] ?? character);
}

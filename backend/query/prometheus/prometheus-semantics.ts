// Makes the results of the engine equal to those of Prometheus. Converts results to the types `scalar` and `string`, which the engine does
// not have: it returns a vector for a number, and rejects a string. Rewrites an expression so that functions get the engine's names, and
// results lose metric names that the engine keeps but Prometheus drops. Invariants: a result gets one of these types only if the expression
// certainly has it; the time is proportional to the length of the expression; an expression that selects several metrics by pattern keeps
// their names, because series that differ only in the name would become equal.
import { timeOf } from "../../storage/metrics/query-cost.ts";
import { TOKENS, unquoted } from "./exemplar-selectors.ts";

const STRING = /^\s*("(?:[^"\\]|\\[^])*"|'(?:[^'\\]|\\[^])*'|`[^`]*`)\s*$/;
const COMPARISONS: ReadonlySet<string> = new Set(["==", "!=", ">=", "<=", ">", "<"]);
const ARITHMETIC: ReadonlySet<string> = new Set(["+", "-", "*", "/", "%", "^", "(", ")"]);
const NUMBER = /^(?:\.?\d.*|inf|nan|bool)$/i;
const FUNCTIONS: ReadonlySet<string> = new Set(["time", "pi"]);

/** The response to an instant query that consists of a quoted text; undefined for every other expression. */
export function answerString(params: URLSearchParams): Buffer | undefined {
  const [, quoted] = STRING.exec(params.get("query") ?? "") ?? [];
  if (quoted === undefined) return undefined;
  return answerOf("string", [timeOf("time", params, Date.now()) / 1000, unquoted(quoted)]);
}

/** Whether a valid expression consists only of numbers, time(), pi() and scalar(…). */
export function isScalar(expression: string): boolean {
  const tokens = [...expression.matchAll(TOKENS)].map(([token]) => token.toLowerCase()).filter((token) => !token.startsWith("#"));
  for (let at = 0; at < tokens.length; at += 1) {
    const token = tokens[at] ?? "";
    const isCall = tokens[at + 1] === "(";
    if (token === "scalar" && isCall) at = endOfCall(tokens, at + 1);
    else if (
      COMPARISONS.has(token)
        ? tokens[at + 1] !== "bool"
        : !ARITHMETIC.has(token) && !NUMBER.test(token) && !(isCall && FUNCTIONS.has(token))
    )
      return false;
  }
  return tokens.length > 0;
}

/** The position of the parenthesis that closes the one at `open`. */
function endOfCall(tokens: readonly string[], open: number): number {
  for (let at = open, depth = 0; at < tokens.length; at += 1) {
    if (tokens[at] === "(") depth += 1;
    else if (tokens[at] === ")" && --depth === 0) return at;
  }
  return tokens.length;
}

/** The engine's vector with one sample as a scalar; without a sample, NaN, as scalar() of Prometheus. */
export function toScalar(vector: Buffer, params: URLSearchParams): Buffer {
  const { data } = JSON.parse(vector.toString("utf8")) as { data: { result: readonly { value: [time: number, value: string] }[] } };
  return answerOf("scalar", data.result[0]?.value ?? [timeOf("time", params, Date.now()) / 1000, "NaN"]);
}

function answerOf(resultType: "scalar" | "string", result: [time: number, value: string]): Buffer {
  return Buffer.from(JSON.stringify({ status: "success", data: { resultType, result } }));
}

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

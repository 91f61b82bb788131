// Converts results to the types `scalar` and `string`, which the engine does not have: it returns a vector for a number, and rejects a
// text. Invariant: only an expression that cannot be anything else gets one of these types; every other result stays as the engine wrote
// it.
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
export function endOfCall(tokens: readonly string[], open: number): number {
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

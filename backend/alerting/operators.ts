// The operators of expressions, and how tightly each binds. Invariant: as in the engine (metricsql v0.87, binary_op.go).
import type { Token } from "../engines/victoria-metrics/expression-tokens.ts";

/** From loosest to tightest; only `^` groups to the right. */
const PRIORITY: ReadonlyMap<string, number> = new Map(
  [
    ["default"],
    ["if", "ifnot"],
    ["or"],
    ["and", "unless"],
    ["==", "!=", "<", ">", "<=", ">="],
    ["+", "-"],
    ["*", "/", "%", "atan2"],
    ["^"],
  ].flatMap((ops, priority) => ops.map((op) => [op, priority] as const)),
);
export const COMPARISONS = new Set(["==", "!=", "<", ">", "<=", ">="]);
export const SET_OPERATORS = new Set(["and", "or", "unless"]);

export function isOperator({ kind, text }: Token): boolean {
  return kind !== "text" && PRIORITY.has(text.toLowerCase());
}

export function bindsTighter(op: string, than: string): boolean {
  const difference = (PRIORITY.get(op) ?? 0) - (PRIORITY.get(than) ?? 0);
  return difference > 0 || (difference === 0 && op === "^");
}

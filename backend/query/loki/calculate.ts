// Arithmetic and comparisons of two numbers, as Loki has them. Invariant: what cannot be divided is not a number, never an infinity.

const OPERATIONS: Readonly<Record<string, (left: number, right: number) => number>> = {
  "+": (left, right) => left + right,
  "-": (left, right) => left - right,
  "*": (left, right) => left * right,
  "/": (left, right) => (right === 0 ? Number.NaN : left / right),
  "%": (left, right) => (right === 0 ? Number.NaN : left % right),
  "^": power,
  "==": (left, right) => Number(left === right),
  "!=": (left, right) => Number(left !== right),
  ">": (left, right) => Number(left > right),
  ">=": (left, right) => Number(left >= right),
  "<": (left, right) => Number(left < right),
  "<=": (left, right) => Number(left <= right),
};

const COMPARISONS = new Set(["==", "!=", ">", ">=", "<", "<="]);

/** False of and, or, unless, which are of sets. */
export function isCalculable(operator: string): boolean {
  return Object.hasOwn(OPERATIONS, operator);
}

export function isComparison(operator: string): boolean {
  return COMPARISONS.has(operator);
}

export function calculate(operator: string, left: number, right: number): number {
  return (OPERATIONS[operator] as (left: number, right: number) => number)(left, right);
}

/** Go and JavaScript differ in these two. */
function power(base: number, exponent: number): number {
  if (base === 1) return 1;
  if (base === -1 && !Number.isFinite(exponent) && !Number.isNaN(exponent)) return 1;
  return base ** exponent;
}

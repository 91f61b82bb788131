// Decides what the value axis of a chart shows. Invariant: a quantity that starts at nothing, such as memory, CPU or a rate, is drawn from
// zero, so that the height of a line is in proportion to its value; counts have only whole ticks.
import type { Unit } from "./unit.ts";

export interface AxisProps {
  readonly unit: Unit | undefined;
  /** The ends that the reader has chosen. */
  readonly min?: number | undefined;
  readonly max?: number | undefined;
  readonly isWhole: boolean;
}

/** Steps between labels of bytes, so that these are round in KiB, MiB and GiB. */
const BINARY_STEPS = Array.from({ length: 64 }, (_, at) => 2 ** at);
const WHOLE_STEPS = Array.from({ length: 16 }, (_, at) => [1, 2, 5].map((step) => step * 10 ** at)).flat();
/** Values without a unit start at zero if this share of the axis, or less, would be empty below them. */
const MAX_EMPTY_SHARE = 0.7;
const HEADROOM = 1.08;

export function valueRange(low: number, high: number, { unit, min, max, isWhole }: AxisProps): [number, number] {
  const isFromZero = low >= 0 && (isWhole || (unit !== undefined && unit !== "short") || low <= high * MAX_EMPTY_SHARE);
  const spread = Math.max(high - low, Math.abs(high) * 0.01);
  let [bottom, top] = [isFromZero ? 0 : low - spread * 0.1, isFromZero ? high * HEADROOM : high + spread * 0.1];
  if (low >= 0 && high === 0) [bottom, top] = [0, 1];
  if (isWhole) top = Math.max(1, Math.ceil(top));
  // A share above 100 % is possible only if a value is.
  const whole = unit === "percent" ? 100 : unit === "percentunit" ? 1 : Infinity;
  if (high <= whole) top = Math.min(top, whole);
  [bottom, top] = [min ?? bottom, max ?? top];
  return top > bottom ? [bottom, top] : [bottom, bottom + 1];
}

/** Distances between ticks; undefined: any round number. */
export function tickSteps({ unit, isWhole }: AxisProps): number[] | undefined {
  if (unit === "bytes" || unit === "Bps") return BINARY_STEPS;
  return isWhole ? WHOLE_STEPS : undefined;
}

/** Whether the values count things, or are states: whole numbers without a unit. */
export function isWhole(values: Iterable<number>, unit: Unit | undefined): boolean {
  if (unit !== undefined && unit !== "short") return false;
  for (const value of values) if (Number.isFinite(value) && !Number.isInteger(value)) return false;
  return true;
}

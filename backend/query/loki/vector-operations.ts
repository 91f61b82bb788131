// Computes arithmetic, aggregations and binary operations over the series of one evaluation time, as Loki does and in the order of the
// series. Invariant: a division by zero is NaN, never an infinity.
import { LabelSet, NO_LABELS, type Sample } from "./entry.ts";
import { wrongQuery } from "./grammar.ts";
import type { BinaryOperation, Grouping, VectorMatching } from "./syntax.ts";

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

/** False for the set operators and, or, unless. */
export function isCalculable(operator: string): boolean {
  return Object.hasOwn(OPERATIONS, operator);
}

export function isComparison(operator: string): boolean {
  return COMPARISONS.has(operator);
}

export function calculate(operator: string, left: number, right: number): number {
  return (OPERATIONS[operator] as (left: number, right: number) => number)(left, right);
}

/** Go and JavaScript differ for these two cases. */
function power(base: number, exponent: number): number {
  if (base === 1) return 1;
  if (base === -1 && !Number.isFinite(exponent) && !Number.isNaN(exponent)) return 1;
  return base ** exponent;
}

export interface Aggregation {
  readonly operation: string;
  readonly grouping: Grouping | undefined;
  readonly parameter: number | undefined;
}

/** Caches results, because the same labels occur for each evaluation time. */
export function memoize<T>(work: (labels: LabelSet) => T): (labels: LabelSet) => T {
  const results = new Map<string, T>();
  return (labels) => {
    let result = results.get(labels.key);
    if (result === undefined) results.set(labels.key, (result = work(labels)));
    return result;
  };
}

/** `group`: returns the labels of the group to which labels belong. */
export function aggregate(
  { operation, parameter = 0 }: Aggregation,
  group: (labels: LabelSet) => LabelSet,
  vector: readonly Sample[],
): Sample[] {
  const groups = new Map<string, { labels: LabelSet; samples: Sample[] }>();
  for (const sample of vector) {
    const labels = group(sample.labels);
    const members = groups.get(labels.key) ?? { labels, samples: [] };
    groups.set(labels.key, members);
    members.samples.push(sample);
  }
  return [...groups.values()].flatMap(({ labels, samples }) => {
    if (operation === "topk" || operation === "sort_desc")
      return rankSamples(samples, true, operation === "topk" ? parameter : samples.length);
    if (operation === "bottomk" || operation === "sort")
      return rankSamples(samples, false, operation === "bottomk" ? parameter : samples.length);
    return [{ labels, value: (AGGREGATIONS[operation] as (values: number[]) => number)(samples.map(({ value }) => value)) }];
  });
}

export function groupLabels(labels: LabelSet, grouping: Grouping | undefined): LabelSet {
  if (!grouping) return NO_LABELS;
  return grouping.without ? labels.drop(grouping.labels) : labels.keep(grouping.labels);
}

/** NaN is ranked last. */
function rankSamples(samples: readonly Sample[], descends: boolean, count: number): Sample[] {
  const sign = descends ? -1 : 1;
  const order = (a: Sample, b: Sample): number => {
    if (Number.isNaN(a.value) || Number.isNaN(b.value)) return Number(Number.isNaN(a.value)) - Number(Number.isNaN(b.value));
    return sign * (a.value - b.value);
  };
  return [...samples].sort(order).slice(0, count);
}

function mean(values: readonly number[]): number {
  let average = values[0] as number;
  for (const [index, value] of values.entries()) {
    if (index === 0) continue;
    const isInfinite = average === Number.POSITIVE_INFINITY || average === Number.NEGATIVE_INFINITY;
    if (isInfinite && (value === average || Number.isFinite(value))) continue;
    average += (value - average) / (index + 1);
  }
  return average;
}

function variance(values: readonly number[]): number {
  let [average, squares] = [values[0] as number, 0];
  for (const [index, value] of values.entries()) {
    if (index === 0) continue;
    const delta = value - average;
    average += delta / (index + 1);
    squares += delta * (value - average);
  }
  return squares / values.length;
}

const AGGREGATIONS: Readonly<Record<string, (values: number[]) => number>> = {
  sum: (values) => values.reduce((sum, value) => sum + value),
  avg: mean,
  count: (values) => values.length,
  max: (values) => values.reduce((best, value) => (best < value || Number.isNaN(best) ? value : best)),
  min: (values) => values.reduce((best, value) => (best > value || Number.isNaN(best) ? value : best)),
  stdvar: variance,
  stddev: (values) => Math.sqrt(variance(values)),
};

type Operation = Pick<BinaryOperation, "operator" | "returnsBool" | "matching">;

/** Combines a number with each series of the other side. */
export function withNumber({ operator, returnsBool }: Operation, number: number, vector: readonly Sample[], isLeft: boolean): Sample[] {
  return vector.flatMap(({ labels, value }) => {
    const result = isLeft ? calculate(operator, number, value) : calculate(operator, value, number);
    if (!isComparison(operator) || returnsBool) return [{ labels, value: result }];
    return result === 1 ? [{ labels, value }] : [];
  });
}

export function combine(
  operation: Operation,
  keyOfLabels: (labels: LabelSet) => string,
  left: readonly Sample[],
  right: readonly Sample[],
): Sample[] {
  const { operator } = operation;
  const keyOf = ({ labels }: Sample): string => keyOfLabels(labels);
  if (isCalculable(operator)) return calculatePairs(operation, left, right, keyOf);
  const [leftKeys, rightKeys] = [new Set(left.map(keyOf)), new Set(right.map(keyOf))];
  if (operator === "and") return left.filter((sample) => rightKeys.has(keyOf(sample)));
  if (operator === "unless") return left.filter((sample) => !rightKeys.has(keyOf(sample)));
  return [...left, ...right.filter((sample) => !leftKeys.has(keyOf(sample)))];
}

/** The labels that both sides must have in common. */
export function matchingKey(labels: LabelSet, matching: VectorMatching | undefined): string {
  if (!matching) return labels.key;
  return (matching.on ? labels.keep(matching.labels) : labels.drop(matching.labels)).key;
}

function calculatePairs(
  operation: Operation,
  left: readonly Sample[],
  right: readonly Sample[],
  keyOf: (sample: Sample) => string,
): Sample[] {
  const { operator, returnsBool, matching } = operation;
  const isSwapped = matching?.group?.side === "right";
  const [many, one] = isSwapped ? [right, left] : [left, right];
  const partners = new Map<string, Sample>();
  for (const sample of one) {
    const key = keyOf(sample);
    if (partners.has(key)) {
      const reason = "many-to-many matching not allowed: matching labels must be unique on one side";
      throw wrongQuery(`found duplicate series on the ${isSwapped ? "left" : "right"} hand-side;${reason}`);
    }
    partners.set(key, sample);
  }
  const resultKeys = new Set<string>();
  return many.flatMap((sample) => {
    const key = keyOf(sample);
    const partner = partners.get(key);
    if (!partner) return [];
    const labels = resultLabels(sample.labels, partner.labels, matching);
    const resultKey = matching?.group ? `${key} ${labels.key}` : key;
    if (resultKeys.has(resultKey))
      throw wrongQuery(
        `multiple matches for labels: ${matching?.group ? "grouping labels must ensure unique matches" : "many-to-one matching must be explicit (group_left/group_right)"}`,
      );
    resultKeys.add(resultKey);
    const [leftValue, rightValue] = isSwapped ? [partner.value, sample.value] : [sample.value, partner.value];
    const value = calculate(operator, leftValue, rightValue);
    if (!isComparison(operator) || returnsBool) return [{ labels, value }];
    return value === 1 ? [{ labels, value: leftValue }] : [];
  });
}

function resultLabels(many: LabelSet, one: LabelSet, matching: VectorMatching | undefined): LabelSet {
  if (!matching) return many;
  if (matching.group) return matching.group.include.reduce((labels, name) => labels.with(name, one.get(name)), many);
  return matching.on ? many.keep(matching.labels) : many.drop(matching.labels);
}

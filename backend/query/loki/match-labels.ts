// Matchers and label filters, asked of a record's labels. Invariant: what a filter cannot compare passes and is an error, as in Loki.
import type { Entry } from "./entry.ts";
import { convert } from "./literals.ts";
import { anchored, compiled, plainValues } from "./regex.ts";
import type { CompareOperator, LabelFilter, Matcher } from "./syntax.ts";

export type ValueTest = (value: string) => boolean;

const MOST_REMEMBERED = 10_000;

export function valueTest({ operator, value }: Matcher): ValueTest {
  if (operator === "=") return (given) => given === value;
  if (operator === "!=") return (given) => given !== value;
  const matches = expressionTest(value);
  return operator === "=~" ? matches : (given) => !matches(given);
}

function expressionTest(text: string): ValueTest {
  const values = plainValues(text);
  if (values) {
    const set = new Set(values);
    return (given) => set.has(given);
  }
  const pattern = compiled(anchored(text));
  const known = new Map<string, boolean>();
  return (given) => {
    let matches = known.get(given);
    if (matches === undefined) {
      matches = pattern.test(given);
      if (known.size < MOST_REMEMBERED && given.length < 256) known.set(given, matches);
    }
    return matches;
  };
}

const COMPARE: Readonly<Record<CompareOperator, (one: number, other: number) => boolean>> = {
  "==": (one, other) => one === other,
  "!=": (one, other) => one !== other,
  ">": (one, other) => one > other,
  ">=": (one, other) => one >= other,
  "<": (one, other) => one < other,
  "<=": (one, other) => one <= other,
};

export type EntryTest = (entry: Entry) => boolean;

export function filterTest(filter: LabelFilter): EntryTest {
  if (filter.kind === "match") {
    const test = valueTest(filter.matcher);
    const { name } = filter.matcher;
    return (entry) => test(entry.valueOf(name));
  }
  if (filter.kind === "compare") {
    const { name, value, conversion } = filter;
    const compare = COMPARE[filter.operator];
    return (entry) => {
      const text = entry.get(name);
      if (text === undefined) return false;
      const number = convert(text, conversion);
      if (number !== undefined) return compare(number, value);
      if (!entry.error) entry.fail("LabelFilterErr", `cannot read ${JSON.stringify(text.slice(0, 100))} as a ${conversion}`);
      return true;
    };
  }
  const [left, right] = [filterTest(filter.left), filterTest(filter.right)];
  if (filter.kind === "or") return (entry) => left(entry) || right(entry);
  // Both are asked, because each may find an error.
  return (entry) => {
    const passes = left(entry);
    return right(entry) && passes;
  };
}

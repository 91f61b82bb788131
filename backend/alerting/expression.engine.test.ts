import * as fc from "fast-check";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { startTestEngine, type TestEngine } from "../../test/fixtures/metrics-engine.ts";
import { refusalOf } from "../engines/victoria-metrics/expression-guard.ts";
import { analyseExpression, findExpressionProblem } from "./expression.ts";

describe("accepted expressions", () => {
  test.each([
    "up == 0",
    "rate(errors_total[5m]) > 1",
    'sum by (job) (rate(errors_total{code=~"5.."}[5m])) / sum by (job) (rate(requests_total[5m])) > 0.05',
    "sum(a) by (x) limit 5 >= 1",
    "1 < up",
    "-a > -b",
    "a > 1 > 2",
    "a > 1 and b < 2 or c == 3 unless d != 4",
    "((a > 1) and (absent(b)))",
    "a > on(x) group_left(y) b",
    "a > ignoring(x) b and on() c > 2",
    'absent(up{job="a"})',
    "absent_over_time(up[5m])",
    "ABSENT(up)",
    "a AND b > 1 > 2 or x == 2".replace("a AND", "a > 0 AND"),
    "time() - last_seen_seconds > 3600",
    "a offset 5m > a @ end()",
    "# a comment with > and (\n up == 0 # and one at the end",
    '{__name__=~".+", x="a > b or ("} > 0',
    "a.b:c\\-d > 1",
    "größe > 1",
    "(a > 1) keep_metric_names",
    "and > 1",
    "bool == 1",
    "max by (x) (up == 0)",
    "sum(a > 1 or b < 2) by (x) limit 3",
    "COUNT without (pod) (max by (x) (kube_pod_status == 1) and absent(y))",
    "topk(5, rate(errors_total[5m]) > 1)",
    'count_values("v", up == 0)',
    "max by (x) (a == 1) unless on(x) min(b > 2)",
  ])("%s", (expression) => {
    expect(findExpressionProblem(expression)).toBeUndefined();
  });
});

describe("rejected expressions", () => {
  test.each([
    ["up", /must be a comparison/],
    ["up > bool 0", /bool/],
    ["a > 1 and b", /not a value/],
    ["a > 1 or rate(b[5m])", /not rate\(\)/],
    ["a > 1 unless b > bool 2", /bool/],
    ["(a > 1) + 0", /not `\+`/],
    ["(a > 1) offset 5m", /not a value/],
    ["a > 1 if b > 2", /not `if`/],
    ["a > 1 default b > 2", /not `default`/],
    ["(a > 1, b > 2)", /not a value/],
    ["sum(a)", /not a value/],
    ["sum(a > bool 1)", /bool/],
    ["sum(a > 1, b > 2)", /not sum\(\)/],
    ["sum()", /not sum\(\)/],
    ["max(a > 1) + 1", /not `\+`/],
    ["topk(a > 1)", /not topk\(\)/],
    ["topk(a > 1, b)", /not a value/],
    ["abs(a > 1)", /not abs\(\)/],
    ["max(a > 1)[5m]", /not a value/],
    ["-(a > 1)", /not a value/],
    ["absent(up) + 1", /not `\+`/],
    ["WITH (x = up) x > 1", /WITH/],
    ["sum(with (x = up) x) > 1", /WITH/],
    ["up >", /ends too early/],
    ["(up > 1", /ends too early/],
    ["up > 1)", /does not expect/],
    ['up{a="b > 1', /cannot read/],
    ["up > 1 ; drop", /cannot read/],
    ["", /ends too early/],
    ["# only a comment", /ends too early/],
    [`${"(".repeat(500)}up > 1${")".repeat(500)}`, /nested/],
    [`${"-".repeat(400)}1 > 1`, /nested/],
    [`up{x=~"y"} > ${"abs(".repeat(200)}1${")".repeat(200)}`, /nested/],
    [`${"1^".repeat(4999)}1`, /^has more than 500 operators/],
  ])("%s", (expression, reason) => {
    expect(findExpressionProblem(expression)).toMatch(reason);
  });
});

describe("ten thousand characters take work in proportion to their number", () => {
  const shapes: Record<string, string> = {
    "operators to the right": `1${"^1".repeat(499)}`,
    "operators to the left": `1${"+1".repeat(499)}`,
    "every priority in turn": `a${" or a and a > a + a * a ^ a".repeat(80)}`,
    "too many operators": "1^".repeat(5000),
    brackets: "(".repeat(10_000),
    "brackets of an argument": `abs${"(".repeat(9990)}`,
    signs: "-".repeat(10_000),
    "short operands": "a ".repeat(5000),
    "a list": `(${"a,".repeat(4999)})`,
    "aggregations in one another": "max(".repeat(2500),
    "labels to group by": `sum by (${"a,".repeat(4000)}) (a > 1)`,
    rollups: `a${"[1]".repeat(3333)} > 1`,
    offsets: `a${" offset 1".repeat(1000)} > 1`,
    "one name": "a".repeat(10_000),
    "one number": "1".repeat(10_000),
    "one string": `"${"x".repeat(9998)}"`,
    "a string without an end": `"${'\\"'.repeat(4999)}`,
    spaces: " ".repeat(10_000),
    comments: "#\n".repeat(5000),
    backslashes: "\\".repeat(10_000),
  };
  test.each(Object.entries(shapes))("%s", (_name, expression) => {
    expect(analyseExpression(expression).steps).toBeLessThan(30 * 10_000);
  });

  test("twice the operators take twice the work", () => {
    const steps = (operators: number): number => analyseExpression(`1${"^1".repeat(operators)} > 1`).steps;
    expect(steps(400)).toBeLessThan(2.1 * steps(200));
  });
});

describe("compared with the engine's own parser", () => {
  let engine: TestEngine;
  beforeAll(async () => {
    engine = await startTestEngine();
  });
  afterAll(async () => {
    await engine?.[Symbol.asyncDispose]();
  });

  /** The engine's reading of an expression, with parentheses around every operand that is an operation; undefined if it refuses it. */
  async function canonical(expression: string): Promise<string | undefined> {
    const form = new URLSearchParams({ query: expression, format: "json" });
    const answer = await fetch(`${engine.queryUrl}/expand-with-exprs?${form.toString()}`);
    const body = (await answer.json()) as { status: string; expr?: string };
    return body.status === "success" ? body.expr : undefined;
  }

  test("precedence, grouping and modifiers are parsed like in the engine", async () => {
    let refused = 0;
    await fc.assert(
      fc.asyncProperty(expressions, async (expression) => {
        const text = await canonical(expression);
        if (text === undefined) refused += 1;
        const isAlerting = findExpressionProblem(expression) === undefined;
        expect([expression, text, isAlerting]).toEqual([expression, text, text === undefined ? isAlerting : canAlert(text)]);
      }),
      { numRuns: 1000 },
    );
    expect(refused).toBeLessThan(200);
  });

  test("any tokens that the engine accepts are evaluated as the engine parses them, or rejected", async () => {
    let taken = 0;
    await fc.assert(
      fc.asyncProperty(soups, async (expression) => {
        // It is kept from the engine, which it would end.
        if (refusalOf(expression) !== undefined) return;
        const text = await canonical(expression);
        if (text === undefined) return;
        taken += 1;
        expect([expression, text, findExpressionProblem(expression) !== undefined || canAlert(text, folded)]).toEqual([
          expression,
          text,
          true,
        ]);
      }),
      { numRuns: 4000 },
    );
    expect(taken).toBeGreaterThan(50);
  });
});

// ── an independent reading of the engine's canonical text: at depth 0 it has at most one operator ─────────────────────────────────

const OPERATOR = /^ (==|!=|>=|<=|>|<|and|or|unless|if|ifnot|default|atan2|\+|-|\*|\/|%|\^)(bool)? /;

/** What the engine makes of a comparison of constants. */
const folded = /^(?:[\d.e+]+|NaN)$/;

function canAlert(text: string, leaf = /^$/): boolean {
  if (leaf.test(text)) return true;
  const inner = text.replace(/\) keep_metric_names$/, ")");
  if (inner.startsWith("(") && closing(inner, 0) === inner.length - 1 && !hasTopComma(inner.slice(1, -1)))
    return canAlert(inner.slice(1, -1), leaf);
  const found = topOperator(inner);
  if (!found) {
    const call = inner.replace(/ (?:by|without) ?\([^)]*\)$/, "");
    const whole = closing(call, call.indexOf("(")) === call.length - 1;
    const aggregated = /^(?:sum|max)\((.*)\)$/is.exec(call)?.[1];
    if (whole && aggregated !== undefined) return !hasTopComma(aggregated) && canAlert(aggregated, leaf);
    return /^absent(?:_over_time)?\(/i.test(inner) && whole;
  }
  const { operator, bool, left, right } = found;
  if (["and", "or", "unless"].includes(operator))
    return canAlert(left, leaf) && canAlert(right.replace(/^(?:on|ignoring)\([^)]*\) /, ""), leaf);
  return ["==", "!=", ">", "<", ">=", "<="].includes(operator) && !bool;
}

function topOperator(text: string): { operator: string; bool: boolean; left: string; right: string } | undefined {
  for (let at = 0; at < text.length; at++) {
    const end = skipped(text, at);
    if (end > at) at = end;
    const match = OPERATOR.exec(text.slice(at));
    if (match) {
      return { operator: match[1] ?? "", bool: match[2] !== undefined, left: text.slice(0, at), right: text.slice(at + match[0].length) };
    }
  }
  return undefined;
}

function hasTopComma(text: string): boolean {
  for (let at = 0; at < text.length; at++) {
    at = skipped(text, at);
    if (text[at] === ",") return true;
  }
  return false;
}

/** The position after what opens here: a string or a bracket; `at` if nothing does. */
function skipped(text: string, at: number): number {
  if (text[at] === '"') return at + (/^"(?:[^"\\]|\\.)*"/.exec(text.slice(at))?.[0].length ?? 1);
  return "([{".includes(text[at] ?? " ") ? closing(text, at) + 1 : at;
}

function closing(text: string, open: number): number {
  let depth = 0;
  for (let at = open; at < text.length; at++) {
    if (text[at] === '"') at = skipped(text, at) - 1;
    else if ("([{".includes(text[at] ?? " ")) depth += 1;
    else if (")]}".includes(text[at] ?? " ") && --depth === 0) return at;
  }
  return text.length;
}

// ── expressions ────────────────────────────────────────────────────────────────────────────────────────────────────────────────────

const selector = fc.constantFrom("a", "b:c", 'up{x="y"}', '{x="> 1 or ("}', "and", "größe", "on_x", "m offset 5m", "m @ end()");
const rangeFunction = fc.constantFrom("rate", "absent_over_time", "max_over_time", "Absent_Over_Time").map((name) => `${name}(m[5m])`);
const comparison = fc.constantFrom("==", "!=", ">", "<", ">=", "<=", "== bool", "> bool", "> on(x)", "< ignoring(x) group_left(y)");
const other = fc.constantFrom(..."and or unless + - * / % ^ if ifnot default atan2 AND Or".split(" "), "and on(x)", "or on()");

const { expression: expressions } = fc.letrec<{ expression: string; operand: string }>((tie) => ({
  operand: fc.oneof(
    { depthSize: "small" },
    { arbitrary: selector, weight: 4 },
    { arbitrary: rangeFunction, weight: 1 },
    {
      arbitrary: fc.tuple(fc.constantFrom("absent", "sum", "abs", "sum by (x) ", "Max"), tie("expression")).map(([f, e]) => `${f}(${e})`),
      weight: 2,
    },
    { arbitrary: tie("expression").map((e) => `(${e})`), weight: 3 },
    { arbitrary: tie("operand").map((e) => `-${e}`), weight: 1 },
    { arbitrary: fc.tuple(tie("operand"), tie("operand")).map(([l, r]) => `(${l} > ${r}) keep_metric_names`), weight: 1 },
    { arbitrary: tie("expression").map((e) => `(${e}) offset 1m`), weight: 1 },
    { arbitrary: fc.tuple(tie("expression"), tie("expression")).map(([l, r]) => `(${l}, ${r})`), weight: 1 },
  ),
  expression: fc
    .tuple(tie("operand"), fc.array(fc.tuple(fc.oneof(comparison, comparison, other), tie("operand")), { maxLength: 3 }))
    .map(([first, rest]) => [first, ...rest.flat()].join(" ")),
}));

const soups = fc
  .array(
    fc.constantFrom(
      ...'a b and or unless bool on ( ) (a) {x="y"} [5m] > < == - + ^ by sum absent offset 5m 1or 1 0x1e 1e3 @ ,'.split(" "),
      ...`"s" '>' # keep_metric_names if default limit \\and with`.split(" "),
    ),
    { minLength: 1, maxLength: 8 },
  )
  .map((tokens) => tokens.join(" "));

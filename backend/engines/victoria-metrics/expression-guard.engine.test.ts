// Expressions that the guard allows never crash the real engine. If one does, add it to expression-guard.test.ts.
import * as fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startTestEngine, type TestEngine } from "../../../test/fixtures/metrics-engine.ts";
import { refusalOf } from "./expression-guard.ts";

const NAMES =
  "a up http.rate bool on ignoring group_left prefix fill by without offset limit default or and inf nan start ru ttf max sum é".split(" ");
const STRINGS = ['"s"', '""', "'a b'", '"bool"', '"inf"', '"sum"', '"\\""', "`x`", '"__name__"'];
const name = fc.constantFrom(...NAMES);
const number = fc.constantFrom("1", "0", "5m", "1e5", ".5", "0x1f", "1Mi", "inf", "1i", "1e400", "9999999999999999999", "$__interval");
const text = fc.constantFrom(...STRINGS);
const filter = fc.oneof(
  fc.tuple(fc.oneof(name, text, fc.constant("__name__")), fc.constantFrom("=", "!=", "=~", "!~"), text).map((parts) => parts.join("")),
  text,
);
const braces = fc.array(fc.tuple(filter, fc.constantFrom(",", " or ")), { maxLength: 3 }).map((filters) => {
  const inner = filters.map(([one, then], at) => one + (at + 1 < filters.length ? then : "")).join("");
  return `{${inner}}`;
});
const labels = fc.array(fc.oneof(name, text), { maxLength: 2 }).map((list) => `(${list.join(",")})`);
const operator = fc.constantFrom(..."+ - * / ^ == > <= and or unless if default atan2".split(" "));
const modifiers = fc.tuple(
  fc.constantFrom("", "", "bool "),
  fc.oneof(
    fc.constant(""),
    labels.map((list) => `on${list} `),
    fc.tuple(labels, labels).map(([on, left]) => `ignoring${on} group_left${left} `),
  ),
);

const { expression } = fc.letrec<{ expression: string }>((tie) => ({
  expression: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    name,
    fc.tuple(name, braces).map((parts) => parts.join("")),
    braces,
    number,
    text,
    fc.tuple(tie("expression"), operator, modifiers, tie("expression")).map(([l, op, [bool, on], r]) => `${l} ${op} ${bool}${on}${r}`),
    tie("expression").map((inner) => `(${inner})`),
    fc.tuple(fc.constantFrom("-", "+"), tie("expression")).map((parts) => parts.join(" ")),
    fc.tuple(tie("expression"), number).map(([inner, window]) => `${inner}[${window}]`),
    fc.tuple(tie("expression"), number).map(([inner, by]) => `${inner} offset ${by}`),
    fc.tuple(tie("expression"), fc.oneof(number, tie("expression"))).map((parts) => parts.join(" @ ")),
    tie("expression").map((inner) => `${inner} keep_metric_names`),
    fc
      .tuple(
        fc.constantFrom("sum", "max", "rate", "label_set", "ru", "alias", "on", "union", "limit_offset", "label_join"),
        fc.array(tie("expression"), { maxLength: 2 }),
      )
      .chain(([call, list]) =>
        fc.constantFrom("", " by (a)", " without (on) limit 5", " keep_metric_names").map((end) => `${call}(${list.join(", ")})${end}`),
      ),
  ),
}));

let engine: TestEngine;
beforeAll(async () => {
  engine = await startTestEngine();
});
afterAll(async () => {
  await engine?.[Symbol.asyncDispose]();
});

async function ask(query: string): Promise<number> {
  const answer = await fetch(`${engine.queryUrl}/api/v1/query`, { method: "POST", body: new URLSearchParams({ query, timeout: "1s" }) });
  await answer.arrayBuffer();
  return answer.status;
}

/** A word in one of the spellings that the engine takes. */
const spelled = (...words: string[]) =>
  fc.tuple(fc.constantFrom(...words), fc.boolean()).map(([word, up]) => (up ? word.toUpperCase() : word));
const group = fc.tuple(spelled("on", "ignoring"), fc.constantFrom("()", "(x)", '(x, "y z")')).map((parts) => parts.join(""));
const join = fc.tuple(spelled("group_left", "group_right"), fc.constantFrom("", "()", "(y)")).map((parts) => parts.join(""));
const plainSelector = fc.constantFrom(
  "a",
  '{"b"}',
  '{"http.x", x="y"}',
  'c{x="y" or or="z"}',
  '{__name__=~"a.*"}',
  "sum",
  'count{by="on"}',
);
const operand = fc.oneof(
  plainSelector,
  plainSelector.map((selector) => `(${selector})`),
  fc.tuple(spelled("sum", "max", "count"), plainSelector).map(([name, selector]) => `${name}(${selector})`),
  fc
    .tuple(spelled("sum"), spelled("by", "without"), plainSelector)
    .map(([name, by, selector]) => `${name} ${by} (x) (${selector}) limit 2`),
  fc.tuple(spelled("sum"), plainSelector).map(([name, selector]) => `${name} ${selector}`),
  fc.tuple(fc.constantFrom("", " by (x) "), plainSelector).map(([by, selector]) => `count_values${by}("v", ${selector})`),
  fc.tuple(plainSelector, spelled("offset")).map(([selector, offset]) => `${selector} ${offset} 5m`),
  fc.tuple(plainSelector, fc.constantFrom("start()", "end()", "1600000000")).map(([selector, at]) => `${selector} @ ${at}`),
);
const operation = fc
  .tuple(
    operand,
    fc.oneof(spelled("and", "or", "unless", "atan2", "default", "if", "ifnot"), fc.constantFrom("+", "-", "*", ">", "==")),
    fc.oneof(fc.constant(""), spelled("bool")),
    fc.oneof(
      fc.constant(""),
      group,
      fc.tuple(group, join).map((parts) => parts.join(" ")),
    ),
    operand,
    fc.oneof(fc.constant(""), spelled("keep_metric_names")),
  )
  .map(([left, op, bool, on, right, keep]) => `(${[left, op, bool, on, right].join(" ")}) ${keep}`);

test("accepts what the engine accepts, whatever keyword precedes the braces, or rejects it for a known reason", async () => {
  let taken = 0;
  await fc.assert(
    fc.asyncProperty(fc.oneof(plainSelector, operand, operation), async (query) => {
      const reason = refusalOf(query);
      // A metric with the name of an aggregation next to an operator ends the engine.
      if (/^does not take "(?:sum|count)" next to /.test(reason ?? "")) return;
      const status = await ask(query);
      if (status === 200) taken += 1;
      expect(status === 200 ? reason : undefined, query).toBeUndefined();
    }),
    { numRuns: 3000, seed: 43 },
  );
  expect(taken).toBeGreaterThan(500);
});

test("a selector of a metric with the name of a keyword means that metric if it is the whole expression", async () => {
  const words =
    "bool on ignoring group_left group_right prefix fill by without offset keep_metric_names limit with default if or and".split(" ");
  const now = Date.now();
  const lines = words.map((word) => `${word}{a="b"} 1 ${now}\n`);
  await fetch(`${engine.writeUrl}/api/v1/import/prometheus`, { method: "POST", body: lines.join("") });
  await engine.flush();
  for (const word of words) {
    for (const query of [`${word}{a="b"}`, `{"${word}"}`, `{"${word}", a="b"}`, `{__name__=~"${word}"}`, word]) {
      expect(refusalOf(query), query).toBeUndefined();
      const answer = await fetch(`${engine.queryUrl}/api/v1/query`, {
        method: "POST",
        body: new URLSearchParams({ query, time: String(now / 1000) }),
      });
      const { data } = (await answer.json()) as { data?: { result: { metric: Record<string, string> }[] } };
      expect(data?.result[0]?.metric["__name__"], query).toBe(word);
    }
  }
});

test("the longest labels that an expression may build do not end the engine", async () => {
  const line = `a{x="${"y".repeat(4096)}"} 1 ${Date.now()}\n`;
  await fetch(`${engine.writeUrl}/api/v1/import/prometheus`, { method: "POST", body: line });
  await engine.flush();
  for (const labels of ['label_join(a, "z", "-"' + ', "x"'.repeat(15) + ")", `label_replace(a, "z", "${"$1".repeat(15)}", "x", "(.*)")`]) {
    expect(refusalOf(labels)).toBeUndefined();
    expect(await ask(`sum by (z) (${labels})`)).toBe(200);
  }
});

test("no accepted expression crashes the engine", async () => {
  let asked = 0;
  await fc.assert(
    fc.asyncProperty(expression, async (query) => {
      if (refusalOf(query) !== undefined) return;
      asked += 1;
      await ask(query);
    }),
    { numRuns: 4000, endOnFailure: true },
  );
  expect(asked).toBeGreaterThan(500);
});

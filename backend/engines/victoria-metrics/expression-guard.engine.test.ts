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
        fc.constantFrom("sum", "max", "rate", "label_set", "ru", "alias", "on", "union", "limit_offset"),
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

test("no expression that passes ends the engine", async () => {
  let asked = 0;
  await fc.assert(
    fc.asyncProperty(expression, async (query) => {
      if (refusalOf(query) !== undefined) return;
      asked += 1;
      const answer = await fetch(`${engine.queryUrl}/api/v1/query`, {
        method: "POST",
        body: new URLSearchParams({ query, timeout: "1s" }),
      });
      await answer.arrayBuffer();
    }),
    { numRuns: 4000, endOnFailure: true },
  );
  expect(asked).toBeGreaterThan(500);
});

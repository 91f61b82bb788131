import { expect, test } from "vitest";
import { explainSyntax, differingNames } from "./prometheus.ts";

test.each([
  [[], []],
  [[{ __name__: "up", job: "a" }], ['up{job="a"}']],
  [
    [
      { __name__: "memory", org: "o", state: "used" },
      { __name__: "memory", org: "o", state: "free" },
    ],
    ['{state="used"}', '{state="free"}'],
  ],
  [
    [{ __name__: "memory", state: "used" }, { __name__: "load" }],
    ['memory{state="used"}', "load"],
  ],
  // Only one has the label, so the other is named by all of its labels.
  [
    [
      { __name__: "x", a: "1" },
      { __name__: "x", a: "1", b: "2" },
    ],
    ['x{a="1"}', '{b="2"}'],
  ],
])("%j are distinguished by %j", (labels, names) => {
  expect(differingNames(labels as Record<string, string>[])).toEqual(names);
});

test.each([
  ["sum(up", "a ) is missing at the end, for the ( at column 4"],
  ["sum(rate(up[5m))", "the [ at column 12 is closed by the ) at column 15"],
  ["sum up)", "the ) at column 7 closes nothing"],
  ['up{job="(a}', 'the " at column 8 is not closed'],
  ["sum(", "a ) is missing at the end, for the ( at column 4"],
  ["up +", "parse error: the expression ends too early"],
])("%s is explained as: %s", (query, words) => {
  expect(explainSyntax(query, 'parse error: unexpected token ""')).toBe(words);
});

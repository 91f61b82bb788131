import { expect, test } from "vitest";
import { toldApart } from "./prometheus.ts";

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
  // Only one has the label: the other is told by all that it has.
  [
    [
      { __name__: "x", a: "1" },
      { __name__: "x", a: "1", b: "2" },
    ],
    ['x{a="1"}', '{b="2"}'],
  ],
])("%j are told apart by %j", (labels, names) => {
  expect(toldApart(labels as Record<string, string>[])).toEqual(names);
});

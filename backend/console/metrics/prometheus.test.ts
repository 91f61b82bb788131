import { expect, test } from "vitest";
import { differingNames } from "./prometheus.ts";

test.each([
  [[], []],
  [[{ __name__: "up", job: "a" }], ['up{job="a"}']],
  [
    [
      { __name__: "memory", org: "o", state: "used" },
      { __name__: "memory", org: "o", state: "free" },
    ],
    ["used", "free"],
  ],
  [
    [
      { __name__: "memory", state: "used", node: "a" },
      { __name__: "memory", state: "free", node: "b" },
    ],
    ['{state="used", node="a"}', '{state="free", node="b"}'],
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

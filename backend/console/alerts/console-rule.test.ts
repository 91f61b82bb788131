import { expect, test } from "vitest";
import { newRule, splitComparison, withThreshold } from "./console-rule.ts";

test.each([
  ["memory_bytes > 150", 200, "memory_bytes > 200"],
  ["a - b >= -1.5e3 ", 0.25, "a - b >= 0.25"],
])("%s with the threshold %d is %s", (expr, threshold, expected) => {
  expect(withThreshold(expr, threshold)).toBe(expected);
  expect(splitComparison(expected)?.threshold).toBe(threshold);
});

test.each([
  ["sum(rate(errors_total[5m]))", "sum(rate(errors_total[5m])) > 0"],
  ['load{host=~"a>b"}', 'load{host=~"a>b"} > 0'],
  ["a or b", "(a or b) > 0"],
  ["load > 5", "load > 5"],
  ["absent(up)", "absent(up)"],
  ["", ""],
])("the chart of %s becomes the rule %s", (expr, expected) => {
  expect(newRule(new URLSearchParams({ expr })).expr).toBe(expected);
});

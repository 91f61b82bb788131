import { expect, test } from "vitest";
import { splitComparison, withThreshold } from "./console-rule.ts";

test.each([
  ["memory_bytes > 150", 200, "memory_bytes > 200"],
  ["a - b >= -1.5e3 ", 0.25, "a - b >= 0.25"],
])("%s with the threshold %d is %s", (expr, threshold, expected) => {
  expect(withThreshold(expr, threshold)).toBe(expected);
  expect(splitComparison(expected)?.threshold).toBe(threshold);
});

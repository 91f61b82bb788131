import { expect, test } from "vitest";
import { moved, resized } from "./layout.ts";

test.each([
  [0, 2, ["b", "c", "a"]],
  [2, 0, ["c", "a", "b"]],
  [0, -1, ["a", "b", "c"]],
  [2, 3, ["a", "b", "c"]],
])("the item at %d moved to %d", (from, to, expected) => {
  expect(moved(["a", "b", "c"], from, to)).toEqual(expected);
});

test("a panel is never smaller than its frame nor wider than the grid", () => {
  const panel = { kind: "timeseries", width: 6 } as const;
  expect(resized(panel, 1.4, -1)).toEqual({ width: 7, height: 6 });
  expect(resized(panel, -20, -20)).toEqual({ width: 2, height: 2 });
  expect(resized({ ...panel, height: 20 }, 20, 20)).toEqual({ width: 12, height: 24 });
});

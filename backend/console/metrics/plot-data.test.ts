import { expect, test } from "vitest";
import { alignSeries, changeText, figuresOf, stack } from "./plot-data.ts";

const series = (name: string, points: readonly (readonly [number, number])[]) => ({ name, short: name, points });

test("series with different times share one axis, and a missing interval is a gap", () => {
  const a = series("a", [
    [10, 1],
    [20, 2],
    [60, 3],
  ]);
  const b = series("b", [[20, Number.NaN]]);
  expect(alignSeries([a, b])).toEqual([
    [10, 20, 30, 60],
    [1, 2, null, 3],
    [null, null, null, null],
  ]);
});

test("a stack ends at the sum, and a missing value adds nothing", () => {
  expect(
    stack([
      [1, 2],
      [1, null],
      [2, 5],
    ]),
  ).toEqual([
    [1, 2],
    [3, 5],
    [2, 5],
  ]);
});

test("the figures of a series leave out missing values", () => {
  const points = [
    [1, 4],
    [2, Number.NaN],
    [3, 2],
  ] as const;
  expect(figuresOf({ points })).toEqual({ last: 2, min: 2, max: 4, mean: 3 });
  expect(figuresOf({ points: [] }).last).toBeNaN();
});

test.each([
  [112, 100, "+12 %"],
  [97, 100, "−3 %"],
  [650, 100, "×6.5"],
  [0, 0, "±0 %"],
  [5, 0, "new"],
  [Number.NaN, 1, ""],
])("the change to %d from %d is shown as %j", (now, before, words) => {
  expect(changeText(now, before)).toBe(words);
});

import { expect, test } from "vitest";
import { isWhole, tickSteps, valueRange } from "./axis.ts";

const plain = { unit: undefined, isWhole: false } as const;

test.each([
  ["memory starts at zero", 900, 1000, { ...plain, unit: "bytes" }, [0, 1080]],
  ["a rate starts at zero", 95, 100, { ...plain, unit: "reqps" }, [0, 108]],
  ["values without a unit that are far from zero do not", 990, 1000, plain, [989, 1001]],
  ["values without a unit near zero do", 2.5, 10, plain, [0, 10.8]],
  ["negative values have room below", -1.5, 1, plain, [-1.75, 1.25]],
  ["zeros only have a scale up to one", 0, 0, plain, [0, 1]],
  ["a count ends at a whole number", 0, 2, { ...plain, isWhole: true }, [0, 3]],
  ["a share ends at 100 %", 0.2, 0.98, { ...plain, unit: "percentunit" }, [0, 1]],
  ["a share above 100 % is visible", 0.2, 1.5, { ...plain, unit: "percentunit" }, [0, 1.62]],
  ["chosen ends are kept", 3, 5, { ...plain, min: 2, max: 8 }, [2, 8]],
  ["chosen ends in the wrong order do not break the chart", 3, 5, { ...plain, min: 8, max: 2 }, [8, 9]],
] as const)("%s", (_, low, high, axis, expected) => {
  const [bottom, top] = valueRange(low, high, axis);
  expect([bottom, top].map((end) => Number(end.toPrecision(6)))).toEqual(expected);
});

test("counts have whole ticks, bytes binary ones", () => {
  expect(tickSteps({ ...plain, isWhole: true })?.every(Number.isInteger)).toBe(true);
  expect(tickSteps({ ...plain, unit: "bytes" })?.slice(9, 12)).toEqual([512, 1024, 2048]);
  expect(tickSteps(plain)).toBe(undefined);
});

test.each([
  [[0, 2, Number.NaN], undefined, true],
  [[0, 2.5], undefined, false],
  [[1024, 2048], "bytes", false],
] as const)("%j with the unit %s are counts: %s", (values, unit, expected) => {
  expect(isWhole(values, unit)).toBe(expected);
});

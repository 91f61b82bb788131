import { expect, test } from "vitest";
import { countTicks, durationTicks, timeTicks } from "./ticks.ts";

const at = (text: string): number => Date.parse(text);
const HOUR = 3_600_000;

test.each([
  ["an hour", "2026-11-22T10:03:00Z", "2026-11-22T11:03:00Z", 0, ["10:10", "10:20", "10:30", "10:40", "10:50", "11:00"]],
  ["a day in a zone of half an hour", "2026-11-22T00:00:00Z", "2026-11-23T00:00:00Z", 5.5 * HOUR, ["00:30", "06:30", "12:30", "18:30"]],
])("the time axis of %s has ticks at round times", (_, from, to, offset, expected) => {
  const ticks = timeTicks(at(from), at(to), 8, offset);
  const shown = ticks.map((ms) => new Date(ms).toISOString().slice(11, 16));
  expect(shown.filter((_tick, index) => shown.length < 8 || index % 2 === 0)).toEqual(expected);
  expect(ticks.length).toBeLessThanOrEqual(9);
});

test.each([
  [1, false, [0, 1]],
  [7, false, [0, 5]],
  [104, false, [0, 50, 100]],
  [1200, true, [1, 10, 100, 1000]],
  [0, true, [1]],
])("counts up to %d (logarithmic: %s) have the ticks %j", (max, isLogarithmic, expected) => {
  expect(countTicks(max, isLogarithmic)).toEqual(expected);
});

test.each([
  [0.5, 5000, [1, 10, 100, 1000]],
  [10, 40, [10, 20]],
])("durations from %d to %d ms have the ticks %j", (low, high, expected) => {
  expect(durationTicks(low, high)).toEqual(expected);
});

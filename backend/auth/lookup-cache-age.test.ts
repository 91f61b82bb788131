import { expect, test } from "vitest";
import { ageClock } from "./lookup-cache.ts";

test.each([
  ["a second passes", 1_000, 1_000, 1_000],
  ["the machine is suspended, which stops the monotonic clock", 60_000, 0, 60_000],
  ["the clock is set back while a second passes", -3_600_000, 1_000, 3_602_000],
  ["the clock is set back by as much as has passed", 0, 3_000, 6_000],
  ["the clock is set ahead while a second passes", 3_600_000, 1_000, 3_600_000],
])("%s", (_, wallMs, steadyMs, olderMs) => {
  let [wall, steady] = [1_700_000_000_000, 5_000];
  const clock = ageClock(
    () => wall,
    () => steady,
  );
  const before = clock();
  wall += wallMs;
  steady += steadyMs;
  expect(clock() - before).toBe(olderMs);
  // The clock continues from there.
  wall += 500;
  steady += 500;
  expect(clock() - before).toBe(olderMs + 500);
});

test("frequent reads do not add up", () => {
  let [wall, steady] = [1_700_000_000_000, 5_000];
  const clock = ageClock(
    () => Math.floor(wall),
    () => steady,
  );
  const before = clock();
  for (let step = 0; step < 100_000; step += 1) {
    wall += 0.1;
    steady += 0.1;
    clock();
  }
  expect(clock() - before).toBeLessThan(10_010);
});

import { expect, test } from "vitest";
import { TimeSlices } from "./time-slices.ts";

test("long work yields every 10 ms, and counts only its own time", async () => {
  let nowMs = 0;
  const slices = new TimeSlices(() => nowMs);
  const order: string[] = [];
  const others = (): void => {
    nowMs += 1000;
    order.push("others");
  };
  const results = await slices.map([1, 2, 3, 4, 5], (item) => {
    nowMs += 6;
    order.push(`item ${item}`);
    if (item === 1 || item === 3) setImmediate(others);
    return item * 2;
  });
  expect(results).toEqual([2, 4, 6, 8, 10]);
  expect(order).toEqual(["item 1", "item 2", "others", "item 3", "item 4", "others", "item 5"]);
  expect(slices.busyMs).toBe(30);
});

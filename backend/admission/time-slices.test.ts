import { expect, test } from "vitest";
import { runFor } from "./request-owner.ts";
import { TimeSlices } from "./time-slices.ts";

test("long work yields every 5 ms, and counts only its own time", async () => {
  let nowMs = 0;
  const slices = new TimeSlices({ nowMs: () => nowMs });
  const order: string[] = [];
  const others = (): void => {
    nowMs += 1000;
    order.push("others");
  };
  const results = await slices.map([1, 2, 3, 4, 5], (item) => {
    nowMs += 3;
    order.push(`item ${item}`);
    if (item === 1 || item === 3) setImmediate(others);
    return item * 2;
  });
  expect(results).toEqual([2, 4, 6, 8, 10]);
  expect(order).toEqual(["item 1", "item 2", "others", "item 3", "item 4", "others", "item 5"]);
  expect(slices.busyMs).toBe(15);
});

test("many divided works have one slice in each turn of the event loop, and their owners alternate", async () => {
  const order: string[] = [];
  const divided = async (owner: string): Promise<void> => {
    let nowMs = 0;
    await new TimeSlices({ nowMs: () => (nowMs += 10) }).map([1, 2, 3], () => order.push(owner));
  };
  const busy = Array.from({ length: 20 }, () => runFor("busy", () => divided("busy")));
  await runFor("idle", () => divided("idle"));
  expect(order.length).toBeLessThan(12);
  await Promise.all(busy);
  expect(order).toHaveLength(63);
});

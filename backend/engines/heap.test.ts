import { getHeapSpaceStatistics } from "node:v8";
import { expect, test } from "vitest";
import { freeHeap } from "./heap.ts";

const MIB = 1024 * 1024;

test("what the young generation has grown to is given back, and what is held stays", () => {
  const held: { at: number }[] = [];
  for (let at = 0; young() < 8 * MIB; at += 1) held.push({ at });
  freeHeap();
  expect(young()).toBeLessThanOrEqual(4 * MIB);
  expect(held.every((one, at) => one.at === at)).toBe(true);
});

function young(): number {
  return getHeapSpaceStatistics().find(({ space_name }) => space_name === "new_space")?.physical_space_size ?? 0;
}

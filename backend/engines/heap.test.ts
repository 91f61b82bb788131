import { getHeapSpaceStatistics } from "node:v8";
import { expect, test, vi } from "vitest";
import { freeHeapWhenIdle } from "./heap.ts";

const MIB = 1024 * 1024;

test("an idle thread returns the memory of its young generation after its start and after a load, and keeps what is in use", async () => {
  freeHeapWhenIdle({ firstMs: 20, everyMs: 20, minIntervalMs: 0, minBytes: 4 * MIB });
  const isFreed = () => vi.waitFor(() => expect(young()).toBeLessThanOrEqual(4 * MIB), { timeout: 5000 });
  for (const _load of ["start", "later"]) {
    const used: { at: number }[] = [];
    for (let at = 0; young() < 8 * MIB; at += 1) used.push({ at });
    await isFreed();
    expect(used.every((entry, at) => entry.at === at)).toBe(true);
  }
});

function young(): number {
  return getHeapSpaceStatistics().find(({ space_name }) => space_name === "new_space")?.physical_space_size ?? 0;
}

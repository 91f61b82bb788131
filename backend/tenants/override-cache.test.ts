import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { OverrideCache } from "./override-cache.ts";

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test("after a pause, the first use gets the values of the last seconds; while they cannot be read, the last known ones", async () => {
  let stored = 1;
  let isAway = false;
  const readAll = async (): Promise<ReadonlyMap<string, number>> => {
    if (isAway) throw new Error("away");
    return new Map([["acme", stored]]);
  };
  const cache = new OverrideCache({ defaults: 0, readAll });
  await cache.refresh();
  const refreshing = cache.refreshPeriodically();
  expect([cache.of("acme"), cache.of("other")]).toEqual([1, 0]);
  stored = 2;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(cache.of("acme")).toBe(2);
  isAway = true;
  stored = 3;
  await vi.advanceTimersByTimeAsync(60_000);
  expect(cache.of("acme")).toBe(2);
  isAway = false;
  await vi.advanceTimersByTimeAsync(5_000);
  expect(cache.of("acme")).toBe(3);
  await refreshing[Symbol.asyncDispose]();
});

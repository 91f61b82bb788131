import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { RecentBodies } from "./recent-bodies.ts";

const WINDOW_MS = 600_000;

function hashOf(index: number): bigint {
  return createHash("sha256").update(String(index)).digest().readBigUInt64LE();
}

test("knows a body for the whole window, and forgets it a quarter of it later", () => {
  for (const startMs of [0, 1, 149_999, 150_000, 4_000_000]) {
    let nowMs = 0;
    const bodies = new RecentBodies(WINDOW_MS, () => nowMs);
    const known = (ageMs: number): boolean => {
      nowMs = startMs + ageMs;
      return bodies.has("one", 7n);
    };
    nowMs = startMs;
    bodies.add("one", 7n);
    expect([0, 1, 150_000, 599_999, 600_000, 750_001].map(known), `from ${startMs}`).toEqual([true, true, true, true, true, false]);
  }
});

test("forgets a body after a long time without requests", () => {
  let nowMs = 0;
  const bodies = new RecentBodies(WINDOW_MS, () => nowMs);
  bodies.add("one", 7n);
  nowMs = 100 * WINDOW_MS;
  expect(bodies.has("one", 7n)).toBe(false);
});

test("knows a body for its sender only, whatever the hash", () => {
  const bodies = new RecentBodies(WINDOW_MS);
  const largest = 2n ** 64n - 1n;
  for (const hash of [1n, largest]) bodies.add("one", hash);
  expect([bodies.has("one", 1n), bodies.has("one", largest), bodies.has("one", 2n), bodies.has("two", 1n)]).toEqual([
    true,
    true,
    false,
    false,
  ]);
});

test("never knows the hash 0, so that such a body is stored", () => {
  const bodies = new RecentBodies(WINDOW_MS);
  bodies.add("one", 0n);
  expect(bodies.has("one", 0n)).toBe(false);
});

test("knows all of 200,000 bodies of one sender, and no other", () => {
  const bodies = new RecentBodies(WINDOW_MS);
  const hashes = Array.from({ length: 200_000 }, (_, index) => hashOf(index));
  for (const hash of hashes) bodies.add("one", hash);
  expect(hashes.filter((hash) => !bodies.has("one", hash))).toEqual([]);
  const others = Array.from({ length: 10_000 }, (_, index) => hashOf(-1 - index));
  expect(others.filter((hash) => bodies.has("one", hash))).toEqual([]);
});

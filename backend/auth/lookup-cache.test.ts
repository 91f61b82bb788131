// What is known while the database is away, and what is never remembered. How often rows are asked for: enrolment/key-cache.engine.test.ts.
import { beforeEach, describe, expect, test } from "vitest";
import { LOOKUP_CACHE_MS, LookupCache } from "./lookup-cache.ts";

describe("a cache of looked-up rows", () => {
  let nowMs: number;
  let rows: Map<string, string>;
  let isAway: boolean;
  let lookups: number;
  let cache: LookupCache<string>;

  beforeEach(() => {
    [nowMs, rows, isAway, lookups] = [1_000_000, new Map([["id", "row"]]), false, 0];
    cache = new LookupCache(
      async (id) => {
        lookups += 1;
        if (isAway) throw new Error("away");
        return rows.get(id);
      },
      () => nowMs,
    );
  });

  test("goes on with what it knows while the database is away, and no longer than its bound", async () => {
    expect(await cache.find("id")).toBe("row");
    isAway = true;
    nowMs += LOOKUP_CACHE_MS - 1;
    expect(cache.find("id")).toBe("row");
    nowMs += 1;
    await expect(cache.find("id")).rejects.toThrow("away");
    isAway = false;
    expect(await cache.find("id")).toBe("row");
  });

  test("remembers no failure: the next request asks again", async () => {
    isAway = true;
    await expect(cache.find("id")).rejects.toThrow("away");
    isAway = false;
    expect(await cache.find("id")).toBe("row");
    expect(lookups).toBe(2);
  });

  test("finds a row that came while its id was remembered as unknown, a second later", async () => {
    expect(await cache.find("new")).toBeUndefined();
    rows.set("new", "made meanwhile");
    expect(await cache.find("new")).toBeUndefined();
    nowMs += 1_000;
    expect(await cache.find("new")).toBe("made meanwhile");
  });

  test("refuses a removed row from the bound on, in a replica that was told nothing", async () => {
    expect(await cache.find("id")).toBe("row");
    rows.delete("id");
    nowMs += LOOKUP_CACHE_MS;
    expect(await cache.find("id")).toBeUndefined();
  });
});

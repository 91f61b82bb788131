// How often the cache requests rows, what it returns while the database is unavailable, and what it never caches. With real databases:
// tenants/enrolment/many-keys.engine.test.ts.
import { beforeEach, describe, expect, test } from "vitest";
import { ApiError } from "../errors.ts";
import { DatabaseOutage } from "./database-outage.ts";
import { LOOKUP_CACHE_MS, LookupCache, STALE_MS } from "./lookup-cache.ts";

function fail(why: string): never {
  throw why === "away" ? new ApiError("storage_unavailable", why) : new Error(why);
}

describe("a cache of looked-up rows", () => {
  let nowMs: number;
  let rows: Map<string, string>;
  let isAway: boolean;
  /** Statements wait for it. */
  let hanging: Promise<void> | undefined;
  let logged: object[];
  let outage: DatabaseOutage;
  let lookups: number;
  let checks: number;
  let cache: LookupCache<string>;

  beforeEach(() => {
    [nowMs, rows, isAway, lookups] = [1_000_000, new Map([["id", "row"]]), false, 0];
    checks = 0;
    [hanging, logged] = [undefined, []];
    const log = (fields: object) => void logged.push(fields);
    outage = new DatabaseOutage({ info: log, warn: log });
    const found = (id: string) => ({
      id,
      state: rows.get(id) ?? "",
      read: () => (id === "damaged" ? fail("damaged") : (rows.get(id) ?? "")),
    });
    cache = new LookupCache(
      {
        find: async (ids) => {
          lookups += 1;
          await hanging;
          return isAway ? fail("away") : ids.filter((id) => rows.has(id)).map(found);
        },
        findChanged: async (states) => {
          checks += 1;
          await hanging;
          return isAway ? fail("away") : Object.keys(states).filter((id) => rows.get(id) !== states[id]);
        },
      },
      { now: () => nowMs, outage, maxWaitMs: 10 },
    );
  });

  test("uses known rows while the database is unavailable, for 15 minutes, and reports it", async () => {
    expect(await cache.find("id")).toBe("row");
    isAway = true;
    for (const ageMs of [LOOKUP_CACHE_MS - 1, LOOKUP_CACHE_MS, STALE_MS - 1]) {
      nowMs = 1_000_000 + ageMs;
      expect(await cache.find("id"), `${ageMs}`).toBe("row");
    }
    expect(outage.staleSeconds).toBeGreaterThan(0);
    expect(logged).toMatchObject([{ event: "auth.stale_keys", err: { code: "storage_unavailable" } }]);
    await expect(cache.find("unknown")).rejects.toThrow("away");
    nowMs += 1;
    await expect(cache.find("id")).rejects.toThrow("away");
    isAway = false;
    expect(await cache.find("id")).toBe("row");
    expect(logged.slice(1)).toMatchObject([{ event: "auth.stale_keys_ended", requests: 2 }]);
    expect(outage.staleSeconds).toBe(0);
  });

  test("uses known rows without a wait while the database hangs, and rejects a removed one once it responds", async () => {
    expect(await cache.find("id")).toBe("row");
    const { promise, resolve } = Promise.withResolvers<void>();
    hanging = promise;
    nowMs += LOOKUP_CACHE_MS;
    expect(await cache.find("id")).toBe("row");
    nowMs += 60_000;
    expect(cache.find("id")).toBe("row");
    rows.delete("id");
    hanging = undefined;
    resolve();
    nowMs += LOOKUP_CACHE_MS;
    void cache.find("id");
    await new Promise(setImmediate);
    expect(await cache.find("id")).toBeUndefined();
  });

  test("does not use a row that the database reported as changed", async () => {
    expect(await cache.find("id")).toBe("row");
    rows.set("id", "changed");
    nowMs += LOOKUP_CACHE_MS / 2;
    // The statement that asks what has changed is answered, the one that reads the row is not.
    const asked = cache.find("id");
    isAway = await Promise.resolve(true);
    expect(asked).toBe("row");
    await new Promise(setImmediate);
    nowMs += LOOKUP_CACHE_MS;
    await expect(cache.find("id")).rejects.toThrow("away");
  });

  test("a statement that fails for another reason fails its request", async () => {
    expect(await cache.find("id")).toBe("row");
    rows = new Proxy(rows, { get: () => () => fail("a wrong statement") });
    nowMs += LOOKUP_CACHE_MS;
    await expect(cache.find("id")).rejects.toThrow("a wrong statement");
    expect(logged).toEqual([]);
  });

  test("does not cache a failure: the next request queries again", async () => {
    isAway = true;
    await expect(cache.find("id")).rejects.toThrow("away");
    isAway = false;
    expect(await cache.find("id")).toBe("row");
    expect(lookups).toBe(2);
  });

  test("queries a row once for a thousand concurrent requests, and later ones do not wait", async () => {
    const found = await Promise.all(Array.from({ length: 1000 }, async () => await cache.find("id")));
    expect(new Set(found)).toEqual(new Set(["row"]));
    expect(cache.find("id")).toBe("row");
    expect(lookups).toBe(1);
  });

  test("finds a row that was created while its id was cached as unknown, a second later", async () => {
    for (let request = 0; request < 100; request += 1) expect(await cache.find("new")).toBeUndefined();
    expect(lookups).toBe(1);
    rows.set("new", "made meanwhile");
    expect(await cache.find("new")).toBeUndefined();
    nowMs += 1_000;
    expect(await cache.find("new")).toBe("made meanwhile");
  });

  test("keeps rows during a flood of unknown ids, which take few statements", async () => {
    expect(await cache.find("id")).toBe("row");
    await Promise.all(Array.from({ length: 200 }, async (_, index) => await cache.find(`unknown ${index}`)));
    expect(lookups).toBeLessThanOrEqual(6);
    expect(cache.find("id")).toBe("row");
  });

  test("rejects a row that another replica removed after LOOKUP_CACHE_MS, within the guaranteed 5 s", async () => {
    expect(await cache.find("id")).toBe("row");
    rows.delete("id");
    nowMs += LOOKUP_CACHE_MS;
    expect(await cache.find("id")).toBeUndefined();
    expect(LOOKUP_CACHE_MS).toBeLessThan(5_000);
  });

  test("does not treat an old row as new if the clock is set back", async () => {
    expect(await cache.find("id")).toBe("row");
    rows.delete("id");
    nowMs -= 3_600_000;
    expect(await cache.find("id")).toBeUndefined();
  });

  test("drops a row that this replica has changed, even during a lookup", async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    hanging = promise;
    const underway = cache.find("id");
    await new Promise(setImmediate);
    rows.set("id", "changed");
    cache.forget("id");
    hanging = undefined;
    resolve();
    await underway;
    expect(await cache.find("id")).toBe("changed");
    expect(lookups).toBe(2);
  });

  test("polls changes of all rows in use once, and returns each without a wait", async () => {
    const ids = Array.from({ length: 1000 }, (_, index) => `id ${index}`);
    for (const id of ids) rows.set(id, "row");
    await Promise.all(ids.map(async (id) => await cache.find(id)));
    expect(lookups).toBeLessThanOrEqual(ids.length / 500);
    lookups = 0;
    for (let second = 1; second <= 20; second += 1) {
      nowMs += 1_000;
      if (second === 10) rows.set("id 7", "changed");
      // Rows that are used less often than LOOKUP_CACHE_MS are checked too.
      for (const id of second % 10 === 0 ? ids : ids.slice(0, 10)) expect(cache.find(id), id).not.toBeInstanceOf(Promise);
      await changesLoaded();
    }
    expect(cache.find("id 7")).toBe("changed");
    expect([checks, lookups]).toEqual([10, 1]);
  });

  test("removes rows that were not used for five minutes", async () => {
    rows.set("busy", "row");
    await cache.find("id");
    for (let minute = 0; minute < 5; minute += 1) {
      nowMs += 60_000;
      await cache.find("busy");
    }
    rows.delete("id");
    lookups = 0;
    expect(cache.find("id")).toBeInstanceOf(Promise);
    await new Promise(setImmediate);
    expect(lookups).toBe(1);
  });

  test("a damaged row fails its own lookup only", async () => {
    rows.set("damaged", "row");
    const [damaged, well] = await Promise.allSettled([cache.find("damaged"), cache.find("id")]);
    expect([damaged.status, well]).toEqual(["rejected", { status: "fulfilled", value: "row" }]);
    expect(lookups).toBe(1);
  });

  test("continues to poll changes after the database returns", async () => {
    await cache.find("id");
    isAway = true;
    nowMs += LOOKUP_CACHE_MS / 2;
    expect(cache.find("id")).toBe("row");
    await new Promise(setImmediate);
    isAway = false;
    nowMs += LOOKUP_CACHE_MS;
    expect(await cache.find("id")).toBe("row");
    rows.set("id", "changed");
    nowMs += LOOKUP_CACHE_MS / 2;
    void cache.find("id");
    await changesLoaded();
    expect(cache.find("id")).toBe("changed");
  });
});

/** Changed rows are looked up in a batch, which starts one turn of the event loop after the check. */
async function changesLoaded(): Promise<void> {
  for (let turn = 0; turn < 2; turn += 1) await new Promise(setImmediate);
}

import { setImmediate } from "node:timers/promises";
import { expect, it } from "vitest";
import { Batcher, type BatcherOptions } from "./batcher.ts";

/** A batcher whose writes end when the test ends them. */
function opened(options: Partial<BatcherOptions<string, string>> = {}) {
  const writes: { readonly items: readonly string[]; readonly end: () => void; readonly fail: (error: Error) => void }[] = [];
  const batcher = new Batcher<string, string>({
    async write(items) {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      writes.push({ items, end: resolve, fail: reject });
      await promise;
      return items.map((item) => `${item} written`);
    },
    ...options,
  });
  const next = async (index: number) => {
    for (;;) {
      const write = writes[index];
      if (write) return write;
      await setImmediate();
    }
  };
  return { batcher, writes, next };
}

it("writes items of one iteration of the event loop together, and items that arrive during a write with the next one", async () => {
  const { batcher, writes, next } = opened();
  const first = [batcher.add("a"), batcher.add("b")];
  const written = await next(0);
  const second = [batcher.add("c"), batcher.add("a")];
  await setImmediate();
  expect([writes.map(({ items }) => items), batcher.waiting]).toEqual([[["a", "b"]], 2]);
  written.end();
  expect(await Promise.all(first)).toEqual(["a written", "b written"]);
  (await next(1)).end();
  expect(await Promise.all(second)).toEqual(["c written", "a written"]);
});

it("rejects the items of a failed write, and writes the next ones", async () => {
  const { batcher, next } = opened();
  const lost = [batcher.add("a"), batcher.add("b")];
  (await next(0)).fail(new Error("unavailable"));
  expect(await Promise.allSettled(lost)).toMatchObject([{ reason: { message: "unavailable" } }, { reason: { message: "unavailable" } }]);
  const kept = batcher.add("c");
  (await next(1)).end();
  expect(await kept).toBe("c written");
});

it("limits a write by items and by size, and writes an item above the size alone", async () => {
  const { batcher, next } = opened({ maxItems: 3, maxSize: 10, sizeOf: ({ length }) => length });
  const all = ["1", "2", "3", "4", "55555", "666666", "7".repeat(20), "8"].map((item) => batcher.add(item));
  const batches = [];
  for (let index = 0; index < 5; index++) {
    const { items, end } = await next(index);
    batches.push(items);
    end();
  }
  await Promise.all(all);
  expect(batches).toEqual([["1", "2", "3"], ["4", "55555"], ["666666"], ["7".repeat(20)], ["8"]]);
});

it("merges waiting items with the same key, but not with one that is being written", async () => {
  const { batcher, next } = opened({ merge: (waiting, added) => `${waiting}+${added}` });
  const first = [batcher.add("a", 1), batcher.add("b", 1), batcher.add("c", 2)];
  const write = await next(0);
  expect(write.items).toEqual(["a+b", "c"]);
  const later = batcher.add("d", 1);
  write.end();
  expect(await Promise.all(first)).toEqual(["a+b written", "a+b written", "c written"]);
  (await next(1)).end();
  expect(await later).toBe("d written");
});

it("runs the given number of writes at the same time", async () => {
  const { batcher, writes, next } = opened({ concurrency: 2 });
  const all = [];
  for (const item of ["a", "b", "c", "d"]) {
    all.push(batcher.add(item));
    await setImmediate();
    await setImmediate();
  }
  expect(writes.map(({ items }) => items)).toEqual([["a"], ["b"]]);
  writes[1]?.end();
  (await next(2)).end();
  writes[0]?.end();
  await Promise.all(all);
  expect(writes.map(({ items }) => items)).toEqual([["a"], ["b"], ["c", "d"]]);
});

it("pauses after a write, and reports when it is idle", async () => {
  const idleAt: number[] = [];
  const pauses: number[] = [];
  const { batcher, writes, next } = opened({
    pauseMs: (tookMs) => (pauses.push(tookMs), 5),
    onIdle: () => void idleAt.push(writes.length),
  });
  const first = batcher.add("a");
  (await next(0)).end();
  await first;
  const second = batcher.add("b");
  await setImmediate();
  expect([writes.length, idleAt]).toEqual([1, []]);
  (await next(1)).end();
  await second;
  await expect.poll(() => idleAt).toEqual([2]);
  expect(pauses).toHaveLength(2);
});

it("flushes what was added before, even if it fails, and not what was added later", async () => {
  const { batcher, next } = opened();
  const lost = batcher.add("a").catch((error: Error) => error.message);
  const write = await next(0);
  const waiting = batcher.add("b");
  let isFlushed = false;
  const flushed = batcher.flush().then(() => (isFlushed = true));
  const later = batcher.add("c");
  write.fail(new Error("unavailable"));
  expect(await lost).toBe("unavailable");
  expect(isFlushed).toBe(false);
  const last = await next(1);
  expect(last.items).toEqual(["b", "c"]);
  last.end();
  await Promise.all([waiting, flushed, later]);
});

import { setImmediate } from "node:timers/promises";
import { expect, test } from "vitest";
import { FirstUses } from "./first-uses.ts";

/** Writes end when they are told to. */
function firstUses() {
  const writes: { readonly keys: readonly string[]; end: () => void; fail: (error: Error) => void }[] = [];
  const uses = new FirstUses({
    pauseMs: 1,
    async write(keys) {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      writes.push({ keys, end: resolve, fail: reject });
      await promise;
    },
  });
  const next = async (index: number) => {
    for (;;) {
      const write = writes[index];
      if (write) return write;
      await setImmediate();
    }
  };
  return { uses, writes, next };
}

test("those that come at once are one statement, those that come meanwhile the next one", async () => {
  const { uses, writes, next } = firstUses();
  const first = [uses.add("a"), uses.add("b")];
  const written = await next(0);
  const second = [uses.add("c"), uses.add("d"), uses.add("c")];
  await setImmediate();
  expect(writes.map(({ keys }) => keys)).toEqual([["a", "b"]]);
  written.end();
  await Promise.all(first);
  (await next(1)).end();
  await Promise.all(second);
  expect(writes.map(({ keys }) => keys)).toEqual([
    ["a", "b"],
    ["c", "d"],
  ]);
});

test("a use is not answered before it is written, also where another of its key is being written", async () => {
  const { uses, next } = firstUses();
  const answered: string[] = [];
  const one = uses.add("a").then(() => answered.push("one"));
  const write = await next(0);
  const other = uses.add("a").then(() => answered.push("other"));
  await setImmediate();
  expect(answered).toEqual([]);
  write.end();
  await one;
  expect(answered).toEqual(["one"]);
  (await next(1)).end();
  await other;
  expect(answered).toEqual(["one", "other"]);
});

test("a failure is told to those of its statement, and the next ones are written", async () => {
  const { uses, next } = firstUses();
  const lost = uses.add("a").catch((error: Error) => error.message);
  const write = await next(0);
  const kept = uses.add("b");
  write.fail(new Error("the store is away"));
  expect(await lost).toBe("the store is away");
  (await next(1)).end();
  await kept;
  const again = uses.add("a");
  (await next(2)).end();
  await again;
});

test("more than a statement takes are several, one after the other", async () => {
  const { uses, writes, next } = firstUses();
  const all = Array.from({ length: 2500 }, (_, index) => uses.add(`key ${index}`));
  for (let index = 0; index < 3; index += 1) {
    const write = await next(index);
    expect(writes).toHaveLength(index + 1);
    write.end();
  }
  await Promise.all(all);
  expect(writes.map(({ keys }) => keys.length)).toEqual([1000, 1000, 500]);
});

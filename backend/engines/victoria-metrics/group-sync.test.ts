import { expect, test } from "vitest";
import { GroupSync } from "./group-sync.ts";

/** Each fsync waits for its turn to end. */
function syncs() {
  const ends: PromiseWithResolvers<void>[] = [];
  const began: PromiseWithResolvers<void>[] = [];
  const at = (list: PromiseWithResolvers<void>[], number: number) => (list[number] ??= Promise.withResolvers<void>());
  let count = 0;
  return {
    count: () => count,
    began: (number: number) => at(began, number).promise,
    end: (number: number) => at(ends, number).resolve(),
    fail: (number: number, error: Error) => at(ends, number).reject(error),
    sync: () => {
      const number = count++;
      at(began, number).resolve();
      return at(ends, number).promise;
    },
  };
}

test("all who wait have one fsync; who comes while it runs goes with the next, which begins after", async () => {
  const disk = syncs();
  const group = new GroupSync(disk.sync);
  const first = Promise.all([group.synced(), group.synced(), group.synced()]);
  await disk.began(0);
  let isLaterDone = false;
  const later = Promise.all([group.synced(), group.synced()]).then(() => (isLaterDone = true));
  disk.end(0);
  await first;
  await disk.began(1);
  expect([isLaterDone, disk.count()]).toEqual([false, 2]);
  disk.end(1);
  await later;
  const alone = group.synced();
  disk.end(2);
  await alone;
  expect(disk.count()).toBe(3);
});

test("once an fsync has failed nothing is said to be on the disk any more, neither to those who came meanwhile nor later", async () => {
  const disk = syncs();
  const group = new GroupSync(disk.sync);
  const first = group.synced();
  await disk.began(0);
  const meanwhile = group.synced();
  disk.fail(0, new Error("EIO"));
  const outcomes = await Promise.allSettled([first, meanwhile]);
  expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  await expect(group.synced()).rejects.toThrow("EIO");
  expect(disk.count()).toBe(1);
});

import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import { mainThread } from "./main-thread.ts";

test("runs one piece in each turn of the event loop, and organisations alternate", async () => {
  const order: string[] = [];
  const piece = (orgId: string) => mainThread.run(orgId, () => order.push(orgId));
  const busy = Array.from({ length: 20 }, () => piece("busy"));
  await nextTurn();
  expect(order.length).toBeLessThan(3);
  await piece("idle");
  expect(order.indexOf("idle")).toBeLessThan(4);
  await Promise.all(busy);
  expect(order).toHaveLength(21);
});

test("an asynchronous piece keeps its slot only for what it does at once, and a failed one for none of the others", async () => {
  const never = mainThread.run("one", () => new Promise(() => undefined));
  await expect(
    mainThread.run("one", () => {
      throw new Error("bad");
    }),
  ).rejects.toThrow("bad");
  await expect(mainThread.run("one", async () => "done")).resolves.toBe("done");
  expect(never).toBeInstanceOf(Promise);
});

import { expect, test } from "vitest";
import { AttemptDropped, HashQueue } from "./hash-queue.ts";

const alive = () => true;

/** Work that ends when the test says so. */
function controlled(started: string[], name: string) {
  const gate = Promise.withResolvers<void>();
  const work = async () => {
    started.push(name);
    await gate.promise;
    return name;
  };
  return { work, finish: gate.resolve };
}

test("no more than the limit runs at once", async () => {
  const queue = new HashQueue(2);
  const started: string[] = [];
  const tasks = ["a", "b", "c"].map((name) => controlled(started, name));
  const results = tasks.map((task) => queue.run("one", alive, task.work));
  await Promise.resolve();
  expect(started).toEqual(["a", "b"]);
  for (const task of tasks) task.finish();
  expect(await Promise.all(results)).toEqual(["a", "b", "c"]);
});

test("an address with a thousand attempts delays another address by one turn, not by a thousand", async () => {
  const queue = new HashQueue(1);
  const order: string[] = [];
  const work = (name: string) => async () => void order.push(name);
  const flood = Array.from({ length: 1000 }, (_, index) => queue.run("flood", alive, work(`flood ${index}`)));
  const honest = queue.run("honest", alive, work("honest"));
  await Promise.all([...flood, honest]);
  expect(order.indexOf("honest")).toBeLessThan(3);
  expect(order).toHaveLength(1001);
});

test("an attempt whose client has gone is dropped without work, and the next one runs", async () => {
  const queue = new HashQueue(1);
  const started: string[] = [];
  const first = controlled(started, "first");
  const running = queue.run("one", alive, first.work);
  const gone = queue.run("one", () => false, controlled(started, "gone").work);
  const last = queue.run("one", alive, async () => "last");
  first.finish();
  await running;
  await expect(gone).rejects.toBeInstanceOf(AttemptDropped);
  expect(await last).toBe("last");
  expect(started).toEqual(["first"]);
});

test("work that fails frees its place", async () => {
  const queue = new HashQueue(1);
  await expect(queue.run("one", alive, () => Promise.reject(new Error("broken")))).rejects.toThrow("broken");
  expect(await queue.run("one", alive, async () => 7)).toBe(7);
});

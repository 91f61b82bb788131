import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { backoffOf, Loop, pause, pollUntil, spread, Wakeup } from "./loop.ts";

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

const unexpected = (error: unknown): never => {
  throw error as Error;
};

/** Takes the steps one after the other; the last one again and again. */
function loopOf(steps: (() => Promise<number | undefined>)[], rest: Partial<ConstructorParameters<typeof Loop>[0]> = {}) {
  let taken = 0;
  const step = (): Promise<number | undefined> => {
    taken += 1;
    return (steps[taken - 1] ?? steps.at(-1) ?? (() => Promise.resolve(undefined)))();
  };
  const loop = new Loop({ step, failed: unexpected, random: () => 1, ...rest });
  return { loop, taken: () => taken };
}

test("repeats a step after the time that it returned", async () => {
  const { loop, taken } = loopOf([() => Promise.resolve(100), () => Promise.resolve(1000)]);
  await vi.advanceTimersByTimeAsync(0);
  expect(taken()).toBe(1);
  await vi.advanceTimersByTimeAsync(100);
  expect(taken()).toBe(2);
  await vi.advanceTimersByTimeAsync(999);
  expect(taken()).toBe(2);
  await vi.advanceTimersByTimeAsync(1);
  expect(taken()).toBe(3);
  await loop[Symbol.asyncDispose]();
});

test("can delay the first step", async () => {
  const { loop, taken } = loopOf([() => Promise.resolve(50)], { firstAfterMs: 50 });
  await vi.advanceTimersByTimeAsync(49);
  expect(taken()).toBe(0);
  await vi.advanceTimersByTimeAsync(1);
  expect(taken()).toBe(1);
  await loop[Symbol.asyncDispose]();
});

test("repeats a step that returned no time only when it is woken", async () => {
  const { loop, taken } = loopOf([() => Promise.resolve(undefined)]);
  await vi.advanceTimersByTimeAsync(1e9);
  expect(taken()).toBe(1);
  loop.wake();
  await vi.advanceTimersByTimeAsync(1e9);
  expect(taken()).toBe(2);
  await loop[Symbol.asyncDispose]();
});

test("keeps a wake-up during a step, and merges several", async () => {
  const inStep = Promise.withResolvers<undefined>();
  const { loop, taken } = loopOf([() => inStep.promise, () => Promise.resolve(undefined)]);
  await vi.advanceTimersByTimeAsync(0);
  loop.wake();
  loop.wake();
  inStep.resolve(undefined);
  await vi.advanceTimersByTimeAsync(1e9);
  expect(taken()).toBe(2);
  await loop[Symbol.asyncDispose]();
});

test("doubles the time between attempts after failures up to the limit, and resets it after a success", async () => {
  const at: number[] = [];
  const began = Date.now();
  const fails = (): Promise<never> => {
    at.push(Date.now() - began);
    return Promise.reject(new Error("no"));
  };
  const reported: number[] = [];
  const works = (): Promise<number> => {
    at.push(Date.now() - began);
    return Promise.resolve(5);
  };
  const { loop } = loopOf([fails, fails, fails, fails, works, fails, fails], {
    backoffMs: [100, 300],
    failed: (_error, failures) => void reported.push(failures),
  });
  await vi.advanceTimersByTimeAsync(1105);
  // Gaps: 100, 200, 300, 300, then 5 after the success, then 100 and 200 again.
  expect(at.slice(0, 7)).toEqual([0, 100, 300, 600, 900, 905, 1005]);
  expect(reported.slice(0, 6)).toEqual([1, 2, 3, 4, 1, 2]);
  await loop[Symbol.asyncDispose]();
});

test("honours a server's Retry-After up to the longest backoff", async () => {
  for (const [askedMs, waitedMs] of [
    [250, 250],
    [10, 100],
    [1e9, 300],
  ] as const) {
    const { loop, taken } = loopOf([() => Promise.reject(new Error("busy"))], { backoffMs: [100, 300], failed: () => askedMs });
    await vi.advanceTimersByTimeAsync(waitedMs - 1);
    expect(taken()).toBe(1);
    await vi.advanceTimersByTimeAsync(1);
    expect(taken()).toBe(2);
    await loop[Symbol.asyncDispose]();
  }
});

test("a wake-up ends a backoff", async () => {
  const { loop, taken } = loopOf([() => Promise.reject(new Error("no"))], { failed: () => undefined });
  await vi.advanceTimersByTimeAsync(0);
  loop.wake();
  await vi.advanceTimersByTimeAsync(0);
  expect(taken()).toBe(2);
  await loop[Symbol.asyncDispose]();
});

test("disposing ends the sleep and waits for the running step, whose failure is not reported", async () => {
  const sleeping = loopOf([() => Promise.resolve(undefined)]);
  await vi.advanceTimersByTimeAsync(0);
  await sleeping.loop[Symbol.asyncDispose]();

  let isOver = false;
  const failed = vi.fn();
  const loop = new Loop({
    failed,
    step: async (signal) => {
      await pause(1e9, signal);
      isOver = true;
      throw new Error("cut off");
    },
  });
  await vi.advanceTimersByTimeAsync(0);
  await loop[Symbol.asyncDispose]();
  expect([isOver, failed.mock.calls.length, vi.getTimerCount()]).toEqual([true, 0, 0]);
});

test("an external signal stops it, also before the first step", async () => {
  const stop = new AbortController();
  const { loop, taken } = loopOf([() => Promise.resolve(undefined)], { signal: stop.signal });
  await vi.advanceTimersByTimeAsync(0);
  stop.abort();
  await loop.done;
  const late = loopOf([() => Promise.resolve(undefined)], { signal: stop.signal });
  await late.loop.done;
  expect([taken(), late.taken()]).toEqual([1, 0]);
});

test("a wake-up before the wait counts for one wait", async () => {
  const wakeup = new Wakeup();
  wakeup.wake();
  await wakeup.wait(undefined);
  let isOver = false;
  const second = wakeup.wait(1000).then(() => (isOver = true));
  await vi.advanceTimersByTimeAsync(999);
  expect(isOver).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  await second;
  expect(isOver).toBe(true);
});

test("a time beyond the longest timer waits as long as a timer can", async () => {
  let isOver = false;
  const stop = new AbortController();
  const waiting = pause(1e12, stop.signal).then(() => (isOver = true));
  await vi.advanceTimersByTimeAsync(1e6);
  expect(isOver).toBe(false);
  stop.abort();
  await waiting;
});

test("jitter never exceeds the limit, and varies around an interval", () => {
  expect([1, 2, 3, 10].map((failures) => backoffOf(failures, [1000, 30_000], () => 0))).toEqual([500, 1000, 2000, 15_000]);
  expect([1, 2, 3, 2000].map((failures) => backoffOf(failures, [1000, 30_000], () => 1))).toEqual([1000, 2000, 4000, 30_000]);
  expect([spread(1000, () => 0), spread(1000, () => 1)].map(Math.round)).toEqual([900, 1100]);
});

test("polls immediately and then at the interval, until the condition holds or no caller waits any more", async () => {
  const answers = [false, false, true];
  const asked: number[] = [];
  const isSo = (): boolean => (asked.push(Date.now() - startMs), answers[asked.length - 1] ?? false);
  const startMs = Date.now();
  const found = pollUntil(isSo, 50, new AbortController().signal);
  await vi.advanceTimersByTimeAsync(100);
  expect([await found, asked]).toEqual([true, [0, 50, 100]]);

  const leaving = new AbortController();
  const given = pollUntil(() => false, 50, leaving.signal);
  await vi.advanceTimersByTimeAsync(75);
  leaving.abort();
  expect(await given).toBe(false);
});

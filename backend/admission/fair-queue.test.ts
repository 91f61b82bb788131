import { setImmediate } from "node:timers/promises";
import { afterEach, describe, expect, it, vi } from "vitest";
import { FairQueue, type FairQueueOptions, QueueFullError } from "./fair-queue.ts";

/** Work that runs until the test ends it; `started` is the order in which work began. */
function queueWith(options: FairQueueOptions) {
  const queue = new FairQueue(options);
  const started: string[] = [];
  const ends = new Map<string, { resolve: () => void; reject: (error: Error) => void }>();
  const begin = (name: string, signal?: AbortSignal) => {
    const outcome = queue.run(name.slice(0, 1), signal, async () => {
      started.push(name);
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      ends.set(name, { resolve, reject });
      await promise;
      return name;
    });
    // The test awaits it later; until then the rejection must not count as unhandled.
    outcome.catch(() => undefined);
    return outcome;
  };
  const settle = async (name: string, error?: Error) => {
    await setImmediate();
    const { resolve, reject } = ends.get(name) as NonNullable<ReturnType<typeof ends.get>>;
    if (error) reject(error);
    else resolve();
    await setImmediate();
  };
  return { queue, started, begin, end: settle };
}

describe("a fair queue", () => {
  it("drops the last entry of the longest backlog when it is full, but never swaps backlogs of equal length", async () => {
    const { queue, started, begin, end } = queueWith({ running: 1, perOrg: 1, waitingPerOrg: 9, waitingInAll: 3 });
    void begin("a1");
    const waiting = ["a2", "a3", "a4"].map((name) => begin(name));
    await expect(begin("a5")).rejects.toThrow(QueueFullError);
    void begin("b1");
    await expect(waiting[2]).rejects.toThrow(QueueFullError);
    await expect(begin("b2")).rejects.toThrow(QueueFullError);
    expect(queue.waiting).toBe(3);
    for (const name of ["a1", "b1", "a2", "a3"]) await end(name);
    expect([started, queue.running, queue.waiting]).toEqual([["a1", "b1", "a2", "a3"], 0, 0]);
  });

  it("limits running work in total and per organisation", async () => {
    const { queue, started, begin, end } = queueWith({ running: 3, perOrg: 2, waitingPerOrg: 9 });
    for (const name of ["a1", "a2", "a3", "b1", "b2", "c1"]) void begin(name);
    await setImmediate();
    expect([started, queue.running, queue.waiting]).toEqual([["a1", "a2", "b1"], 3, 3]);
    expect(["a", "b", "c"].map((org) => queue.isFull(org))).toEqual([true, false, false]);
    await end("b1");
    expect(started.slice(3)).toEqual(["c1"]);
  });

  it("is full for an organisation that uses the slots which other replicas leave it", async () => {
    const slots = { heldBy: () => 1, report: () => undefined, onMore: () => undefined };
    const { queue, started, begin } = queueWith({ running: 3, perOrg: 2, waitingPerOrg: 9, slots });
    for (const name of ["a1", "a2"]) void begin(name);
    await setImmediate();
    expect([started, queue.isFull("a"), queue.isFull("b")]).toEqual([["a1"], true, false]);
  });

  it.each([1, 2, 4])("with %i slots serves a new organisation before the backlog of another", async (running) => {
    const { started, begin, end } = queueWith({ running, endsSoon: true, waitingPerOrg: 99 });
    for (let index = 1; index <= running + 20; index++) void begin(`a${index}`);
    void begin("b1");
    await setImmediate();
    await end("a1");
    expect(started.at(-1)).toBe("b1");
  });

  it("is round robin: a backlog gets its share next to organisations that keep sending", async () => {
    const { started, begin, end } = queueWith({ running: 1, perOrg: 1, waitingPerOrg: 99 });
    for (const name of ["a1", "a2", "a3", "a4", "b1", "c1"]) void begin(name);
    await setImmediate();
    for (let round = 1; round <= 9; round++) {
      const current = started.at(-1) as string;
      if (!current.startsWith("a")) void begin(`${current.slice(0, 1)}${round + 1}`);
      await end(current);
    }
    expect(started.map((name) => name.slice(0, 1)).join("")).toBe("abcabcabca");
  });

  it("serves the organisation with the fewest running requests, not the one that has waited longest", async () => {
    const { started, begin, end } = queueWith({ running: 4, perOrg: 3, endsSoon: true, waitingPerOrg: 9 });
    for (const name of ["b1", "a1", "a2", "c1"]) void begin(name);
    // `a` is first in the queue and has two requests running; `b` and `d` have none as soon as b1 has ended.
    for (const name of ["a3", "b2", "d1"]) void begin(name);
    await setImmediate();
    await end("b1");
    await end("d1");
    expect(started.slice(4)).toEqual(["d1", "b2"]);
  });

  it("rejects work immediately if the organisation's queue is full, but not work of other organisations", async () => {
    const { started, begin } = queueWith({ running: 2, perOrg: 1, waitingPerOrg: 2 });
    for (const name of ["a1", "a2", "a3"]) void begin(name);
    await expect(begin("a4")).rejects.toThrow(QueueFullError);
    void begin("b1");
    await setImmediate();
    expect(started).toEqual(["a1", "b1"]);
  });

  it("drops waiting work if its client disconnects, which frees space for others", async () => {
    const { queue, started, begin, end } = queueWith({ running: 1, perOrg: 1, waitingPerOrg: 1 });
    const gone = new AbortController();
    const first = begin("a1");
    const dropped = begin("a2", gone.signal);
    gone.abort(new Error("left"));
    await expect(dropped).rejects.toThrow("left");
    const last = begin("a3");
    await end("a1");
    await end("a3");
    expect([await first, await last, started, queue.running, queue.waiting]).toEqual(["a1", "a3", ["a1", "a3"], 0, 0]);
    await expect(begin("a4", gone.signal)).rejects.toThrow("left");
  });

  it("releases the slot if work fails, throws synchronously, or ends after its client disconnected", async () => {
    const { queue, begin, end } = queueWith({ running: 1, perOrg: 1, waitingPerOrg: 9 });
    const failing = begin("a1");
    await end("a1", new Error("a1"));
    await expect(failing).rejects.toThrow("a1");
    const thrown = queue.run("a", undefined, () => {
      throw new Error("at once");
    });
    await expect(thrown).rejects.toThrow("at once");
    const gone = new AbortController();
    const left = begin("a2", gone.signal);
    gone.abort();
    await setImmediate();
    expect(queue.running).toBe(1);
    await end("a2");
    expect([await left, queue.running, queue.waiting]).toEqual(["a2", 0, 0]);
  });
});

/** Slots are held until the test, or the queue, ends the work. */
describe("a fair queue with long-running work", () => {
  afterEach(() => void vi.useRealTimers());

  function open(running: number, options: Partial<FairQueueOptions> = {}) {
    vi.useFakeTimers();
    const queue = new FairQueue({ running, waitingPerOrg: 99, takesBack: 1, ...options });
    const started: string[] = [];
    const refused: string[] = [];
    const ends = new Map<string, () => void>();
    /** `endsAfterMs`: how long the work continues after its slot was taken back. */
    const begin = (name: string, endsAfterMs = 0): void => {
      const work = async (takenBack: AbortSignal): Promise<void> => {
        started.push(name);
        const { promise, resolve, reject } = Promise.withResolvers<void>();
        ends.set(name, resolve);
        takenBack.addEventListener("abort", () => setTimeout(() => reject(takenBack.reason), endsAfterMs));
        await promise;
      };
      queue
        .run(name.slice(0, 1), undefined, work)
        .catch(({ code, retryAfterS }: { code: string; retryAfterS: number }) => void refused.push(`${name} ${code} ${retryAfterS}`));
    };
    const pass = async (ms: number): Promise<void> => void (await vi.advanceTimersByTimeAsync(ms));
    return { queue, started, refused, begin, pass, end: (name: string) => (ends.get(name)?.(), pass(0)) };
  }

  it.each([
    [2, ["a1", "b1"]],
    [3, ["a1", "a2", "b1"]],
    [4, ["a1", "a2", "b1", "c1"]],
    [8, ["a1", "a2", "a3", "a4", "b1", "b2", "c1", "d1"]],
  ])("of %i slots gives an organisation at most as many as then stay free, and each new organisation one", async (slots, expected) => {
    const { started, begin, pass } = open(slots);
    for (const org of ["a", "b", "c", "d"]) for (let job = 1; job <= 5; job += 1) begin(`${org}${job}`);
    await pass(0);
    expect(started).toEqual(expected);
  });

  it.each([
    [3, ["d1"]],
    [4, ["d1", "e1"]],
  ])("of %i slots keeps half for organisations that used little in the last minute", async (slots, idle) => {
    const { started, begin, end, pass } = open(slots);
    for (const name of ["a1", "b1", "c1"]) begin(name);
    await pass(70_000);
    for (const name of ["a1", "b1", "c1"]) await end(name);
    for (const name of ["a2", "b2", "c2"]) begin(name);
    await pass(0);
    expect(started.slice(3)).toEqual(["a2", "b2"]);
    for (const name of idle) begin(name);
    await pass(0);
    expect(started.slice(5)).toEqual(idle);
  });

  it("does not give the slot that was taken back to the organisation that lost it, when the idle one has finished", async () => {
    const { started, refused, begin, end, pass } = open(4);
    for (const org of ["a", "b", "c"]) for (let job = 1; job <= 6; job += 1) begin(`${org}${job}`);
    await pass(3000);
    begin("z1");
    await pass(200);
    expect([started.slice(4), refused.length]).toEqual([["z1"], 1]);
    await end("z1");
    await pass(1000);
    begin("z2");
    await pass(0);
    expect([started.slice(5), refused.length]).toEqual([["z2"], 1]);
  });

  it("gives a free slot to the waiting organisation with the least use in the last minute", async () => {
    const { started, begin, end, pass } = open(1, { takesBack: 0 });
    begin("a1");
    await pass(40_000);
    for (const name of ["a2", "b1"]) begin(name);
    await end("a1");
    await pass(1000);
    for (const name of ["b2", "c1"]) begin(name);
    await end("b1");
    await end("c1");
    await end("b2");
    expect(started).toEqual(["a1", "b1", "c1", "b2", "a2"]);
  });

  it.each([2, 3, 10])("serves an idle organisation within 150 ms next to %i others that use all slots permanently", async (others) => {
    const busy = Array.from("abcdefghij").slice(0, others);
    const { started, refused, begin, pass } = open(2);
    for (const org of busy) for (let job = 1; job <= 9; job += 1) begin(`${org}${job}`);
    await pass(5000);
    // The kept slot is in use as well.
    begin("y1");
    await pass(0);
    begin("z1");
    await pass(150);
    expect(started).toContain("z1");
    expect(refused.every((each) => each.endsWith(" too_many_queries 5") && !/^[yz]/.test(each))).toBe(true);
    expect(refused.length).toBeGreaterThan(0);
  });

  it("cancels the longest work of the organisation that used most, only while an organisation with nothing running waits", async () => {
    const { refused, begin, pass } = open(4);
    begin("a1");
    await pass(3000);
    for (const name of ["a2", "b1", "c1"]) begin(name);
    await pass(2000);
    for (const name of ["a3", "b2"]) begin(name);
    await pass(2000);
    expect(refused).toEqual([]);
    begin("d1");
    await pass(99);
    expect(refused).toEqual([]);
    await pass(60);
    expect(refused).toEqual(["a1 too_many_queries 5"]);
  });

  it("cancels no work of organisations that used about as much as the waiting one", async () => {
    const { started, refused, begin, end, pass } = open(2, { perOrg: 1 });
    for (const name of ["a1", "b1"]) begin(name);
    await pass(900);
    begin("c1");
    await pass(50);
    await end("a1");
    await pass(800);
    begin("a2");
    await pass(1000);
    expect([started, refused]).toEqual([["a1", "b1", "c1"], []]);
  });

  it("keeps a free slot for an idle organisation until cancelled work has ended", async () => {
    const { started, begin, end, pass } = open(2);
    for (const name of ["a1", "b1"]) begin(name, 60_000);
    await pass(2000);
    for (const name of ["a2", "b2", "z1"]) begin(name);
    await pass(300);
    await end("z1");
    await pass(1000);
    expect(started).toEqual(["a1", "b1", "z1"]);
    begin("z2");
    await pass(0);
    expect(started.slice(3)).toEqual(["z2"]);
  });

  it("cancels no work for one of ten organisations with equal backlogs, and none of an idle one", async () => {
    const { started, refused, begin, pass } = open(3);
    begin("z1");
    await pass(3000);
    for (const org of "abcdefghij") for (let job = 1; job <= 4; job += 1) begin(`${org}${job}`);
    await pass(5000);
    expect([started, refused]).toEqual([["z1", "a1", "b1"], []]);
  });

  it("reassigns a slot before the cancelled work has ended, and waits for its end before it cancels another", async () => {
    const { queue, started, refused, begin, pass } = open(2);
    for (const name of ["a1", "b1"]) begin(name, 1000);
    await pass(5000);
    for (const name of ["c1", "d1"]) begin(name);
    await pass(300);
    expect([started.slice(2), refused, queue.running, queue.waiting]).toEqual([["c1"], [], 2, 1]);
    await pass(1000);
    expect([started.slice(3), refused.length]).toEqual([["d1"], 1]);
  });
});

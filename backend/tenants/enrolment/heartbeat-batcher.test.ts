import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import { ApiError } from "../../errors.ts";
import { HeartbeatBatcher } from "./heartbeat-batcher.ts";

/** Writes end when the test ends them. */
function opened(limits: { maxRows?: number; maxWaiting?: number } = {}) {
  const writes: { beats: [string, number][]; end: (refused?: [string, ApiError][]) => void; fail: (error: Error) => void }[] = [];
  const beats = new HeartbeatBatcher<number>({
    ...limits,
    async write(some) {
      const { promise, resolve, reject } = Promise.withResolvers<ReadonlyMap<string, ApiError>>();
      writes.push({ beats: [...some], end: (refused = []) => resolve(new Map(refused)), fail: reject });
      return await promise;
    },
  });
  const settled: string[] = [];
  const add = (org: string, of: string, beat: number): Promise<string> =>
    beats.add(org, of, beat).then(
      () => `${of}${beat} written`,
      (error: unknown) => `${of}${beat} ${error instanceof ApiError ? error.code : String(error)}`,
    );
  const note = (outcome: Promise<string>) => void outcome.then((text) => settled.push(text));
  const next = async (index: number) => {
    for (;;) {
      const write = writes[index];
      if (write) return write;
      await setImmediate();
    }
  };
  return { add, note, settled, writes, next };
}

describe("heartbeats", () => {
  it("that arrive during a write are in the next one, the newest of each node, and are acknowledged when it has ended", async () => {
    const { add, note, settled, writes, next } = opened();
    note(add("a", "node", 1));
    await setImmediate();
    for (const beat of [2, 3, 4]) note(add("a", "node", beat));
    note(add("a", "other", 5));
    await setImmediate();
    expect([writes.map((write) => write.beats), settled]).toEqual([[[["node", 1]]], []]);
    (await next(0)).end();
    const second = await next(1);
    expect([second.beats, settled]).toEqual([
      [
        ["node", 4],
        ["other", 5],
      ],
      ["node1 written"],
    ]);
    second.end();
    await setImmediate();
    expect(settled.slice(1).toSorted()).toEqual(["node2 written", "node3 written", "node4 written", "other5 written"]);
  });

  it("of one organisation are written in limited batches, and delay no other organisation's", async () => {
    const { add, writes, next } = opened({ maxRows: 2 });
    const all = ["n1", "n2", "n3", "n4", "n5"].map((of) => add("a", of, 1));
    const other = add("b", "n1", 1);
    const [first, second] = [await next(0), await next(1)];
    expect([first.beats.length, second.beats.length, writes.length]).toEqual([2, 1, 2]);
    second.end();
    expect(await other).toBe("n11 written");
    first.end();
    const sizes: number[] = [];
    for (const index of [2, 3]) {
      const write = await next(index);
      sizes.push(write.beats.length);
      write.end();
    }
    await Promise.all(all);
    expect(sizes).toEqual([2, 1]);
  });

  it("beyond the limit of an organisation get 429 with Retry-After, without affecting other organisations", async () => {
    const { add, next } = opened({ maxWaiting: 2 });
    const first = add("a", "n1", 1);
    const write = await next(0);
    const waiting = [add("a", "n2", 1), add("a", "n2", 2)];
    const refused = add("a", "n3", 1);
    const other = add("b", "n1", 1);
    expect(await refused).toBe("n31 over_quota");
    write.end();
    (await next(1)).end();
    (await next(2)).end();
    expect(await Promise.all([first, ...waiting, other])).toEqual(["n11 written", "n21 written", "n22 written", "n11 written"]);
  });

  it("that are invalid, or whose write fails, are rejected, and the next ones are written", async () => {
    const { add, next } = opened();
    const lost = add("a", "n1", 1);
    (await next(0)).fail(new ApiError("storage_unavailable", "away"));
    expect(await lost).toBe("n11 storage_unavailable");
    const both = [add("a", "n1", 2), add("a", "n2", 1)];
    // The organisation's pause may end between the two.
    const second = await next(1);
    second.end(second.beats.map(([of]) => [of, new ApiError("limit_reached", "full")]));
    const third = second.beats.length === 2 ? undefined : await next(2);
    third?.end();
    expect((await Promise.all(both))[0]).toBe("n12 limit_reached");
    const after = add("a", "n3", 1);
    (await next(third ? 3 : 2)).end();
    expect(await after).toBe("n31 written");
  });
});

import { setImmediate } from "node:timers/promises";
import { describe, expect, it } from "vitest";
import type { ClickHouse } from "./client.ts";
import { GroupCommit } from "./group-commit.ts";
import type { NativeRows } from "./native-block.ts";

const MIB = 1024 * 1024;

/** Inserts run until they are ended; `inserts` are their sizes in MiB, one list of rows each, in the order of their start. */
function committer() {
  const inserts: number[][] = [];
  const ends: (() => void)[] = [];
  const clickhouse = {
    insert: async ({ rows }: { rows: readonly NativeRows[] }) => {
      inserts.push(rows.map(({ bytes }) => bytes.byteLength / MIB));
      await new Promise<void>((resolve) => ends.push(resolve));
    },
  } as unknown as ClickHouse;
  const commit = new GroupCommit(clickhouse, "logs", []);
  const add = (mib: number) => commit.add({ rows: 1, bytes: new Uint8Array(mib * MIB) } as unknown as NativeRows);
  const end = async (index: number) => {
    ends[index]?.();
    await setImmediate();
  };
  return { inserts, add, end };
}

describe("group commit", () => {
  it("keeps one insert for small rows while large ones of another sender run and wait", async () => {
    const { inserts, add, end } = committer();
    const large = [add(40), add(40), add(40)];
    await setImmediate();
    expect(inserts).toEqual([[40]]);
    const small = add(1);
    await setImmediate();
    expect(inserts).toEqual([[40], [1]]);
    await end(1);
    await small;
    const next = add(2);
    await setImmediate();
    expect(inserts.at(-1)).toEqual([2]);
    await end(2);
    await next;
    for (const index of [0, 3, 4]) await end(index);
    await Promise.all(large);
    expect(inserts).toEqual([[40], [1], [2], [40], [40]]);
  });

  it("takes what waits together, in order of arrival, large rows with small ones", async () => {
    const { inserts, add, end } = committer();
    const all = [add(2), add(3), add(20), add(5), add(60)];
    await setImmediate();
    expect(inserts).toEqual([[2], [3]]);
    await end(0);
    expect(inserts.at(-1)).toEqual([20, 5]);
    await end(1);
    for (const index of [2, 3]) await end(index);
    await Promise.all(all);
    expect(inserts).toEqual([[2], [3], [20, 5], [60]]);
  });

  it("inserts rows above the bound of an insert alone", async () => {
    const { inserts, add, end } = committer();
    const all = [add(1), add(100)];
    await setImmediate();
    for (const index of [0, 1]) await end(index);
    await Promise.all(all);
    expect(inserts).toEqual([[1], [100]]);
  });
});

import { setImmediate } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { ApiError } from "../../errors.ts";
import type { ClickHouse } from "../../engines/clickhouse/clickhouse-client.ts";
import { GroupCommit } from "./group-commit.ts";
import type { NativeRows } from "../../engines/clickhouse/native-block.ts";
import { stub } from "../../../test/fixtures/stub.ts";

const MIB = 1024 * 1024;

/** Inserts run until they are ended; `inserts` are their sizes in MiB, one list of rows each, in the order of their start. */
function committer(insertIntervalMs = 0) {
  const inserts: number[][] = [];
  const ends: { resolve: () => void; reject: (error: unknown) => void }[] = [];
  const clickhouse = stub<ClickHouse>({
    insertIntervalMs,
    insert: async ({ rows }: { rows: readonly NativeRows[] }) => {
      inserts.push(rows.map(({ bytes }) => bytes.byteLength / MIB));
      await new Promise<void>((resolve, reject) => ends.push({ resolve, reject }));
    },
  });
  const commit = new GroupCommit({ clickhouse, table: "logs", columns: [] });
  const add = (mib: number, orgId = "org", count = 1) =>
    commit.add(orgId, { rows: { count, bytes: new Uint8Array(mib * MIB), streamLengths: [] } });
  const end = async (index: number, error?: ApiError) => {
    if (error) ends[index]?.reject(error);
    else ends[index]?.resolve();
    await setImmediate();
  };
  return { inserts, add, end, commit };
}

beforeEach(() => void vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] }));
afterEach(() => void vi.useRealTimers());

describe("group commit", () => {
  it("runs one insert at a time, and the next one contains the rows that arrived meanwhile, in order", async () => {
    const { inserts, add, end } = committer();
    const all = [add(1), add(2), add(3), add(4)];
    expect(inserts).toEqual([[1]]);
    await end(0);
    expect(inserts).toEqual([[1], [2, 3, 4]]);
    await end(1);
    await Promise.all(all);
    expect(inserts).toHaveLength(2);
  });

  it("inserts small rows in parallel with large rows of another sender, which are inserted one body at a time", async () => {
    const { inserts, add, end } = committer();
    const large = [add(40), add(40), add(40)];
    const small = add(1);
    expect(inserts).toEqual([[40], [1]]);
    await end(1);
    await small;
    const next = add(8);
    expect(inserts.at(-1)).toEqual([8]);
    await end(2);
    await next;
    for (const index of [0, 3, 4]) await end(index);
    await Promise.all(large);
    expect(inserts).toEqual([[40], [1], [8], [40], [40]]);
  });

  it("starts immediately when idle, and waits briefly for acknowledged senders to return together", async () => {
    const { inserts, add, end } = committer();
    const first = [add(1), add(1), add(2)];
    expect(inserts).toEqual([[1]]);
    await end(0);
    vi.advanceTimersByTime(19);
    expect(inserts).toHaveLength(1);
    vi.advanceTimersByTime(1);
    expect(inserts).toEqual([[1], [1, 2]]);
    await end(1);
    await Promise.all(first);
    vi.advanceTimersByTime(20);
    const later = add(1);
    expect(inserts).toHaveLength(3);
    await end(2);
    await later;
  });

  it("waits until all acknowledged senders have returned", async () => {
    const { inserts, add, end } = committer();
    const first = [add(1), add(1), add(2)];
    await end(0);
    const again = add(3);
    expect(inserts).toEqual([[1], [1, 2, 3]]);
    await end(1);
    vi.advanceTimersByTime(3);
    const back = [add(1), add(2)];
    expect(inserts).toHaveLength(2);
    back.push(add(1));
    expect(inserts).toEqual([[1], [1, 2, 3], [1, 2, 1]]);
    await end(2);
    await Promise.all([...first, again, ...back]);
  });

  it.each([
    ["until the longest wait is over", [4, 8, 12, 16, 20, 24, 28, 32, 36], 40],
    ["until there is a gap", [4, 12, 19], 24],
  ])("waits longer for senders that return in sequence while their rows are few, %s", async (_, at, goesMs) => {
    const { inserts, add, end } = committer();
    const all = Array.from({ length: 50 }, () => add(0));
    await end(0);
    vi.advanceTimersByTime(20);
    await end(1);
    const endedMs = performance.now();
    for (const ms of at) {
      vi.advanceTimersByTime(endedMs + ms - performance.now());
      all.push(add(0));
    }
    vi.advanceTimersByTime(endedMs + goesMs - 1 - performance.now());
    expect(inserts).toHaveLength(2);
    vi.advanceTimersByTime(1);
    expect(inserts.at(-1)).toHaveLength(at.length);
    await end(2);
    await Promise.all(all);
  });

  it("does not wait longer for senders whose rows are many", async () => {
    const { inserts, add, end } = committer();
    const all = Array.from({ length: 50 }, () => add(0, "org", 240));
    await end(0);
    vi.advanceTimersByTime(20);
    await end(1);
    for (let ms = 0; ms < 16; ms += 4) {
      vi.advanceTimersByTime(4);
      all.push(add(0, "org", 240));
    }
    vi.advanceTimersByTime(4);
    expect(inserts).toHaveLength(2);
    all.push(add(0, "org", 240));
    expect(inserts.at(-1)).toHaveLength(5);
    await end(2);
    await Promise.all(all);
  });

  it("inserts immediately when enough bytes are queued", async () => {
    const { inserts, add, end } = committer();
    const first = [add(1), add(8), add(1), add(1), add(1)];
    await end(0);
    await end(1);
    const rest = [add(4), add(3)];
    expect(inserts).toEqual([[1], [8, 1, 1, 1]]);
    rest.push(add(2));
    expect(inserts.at(-1)).toEqual([4, 3, 2]);
    await end(2);
    await Promise.all([...first, ...rest]);
  });

  it("limits one insert in bytes and rows", async () => {
    const { inserts, add, end } = committer();
    const all = [add(1), ...Array.from({ length: 5 }, () => add(8)), add(2, "org", 100_000), add(1, "org", 1)];
    await end(0);
    expect(inserts.at(-1)).toEqual([8, 8, 8, 8]);
    await end(1);
    expect(inserts.at(-1)).toEqual([8, 1]);
    vi.advanceTimersByTime(20);
    await end(2);
    vi.advanceTimersByTime(20);
    expect(inserts.at(-1)).toEqual([2]);
    await end(3);
    await Promise.all(all);
  });

  it("waits for the interval between small inserts, unless 1,000 rows wait", async () => {
    const { inserts, add, end } = committer(500);
    const first = add(1);
    expect(inserts).toEqual([[1]]);
    await end(0);
    await first;
    const small = [add(2), add(3)];
    vi.advanceTimersByTime(499);
    expect(inserts).toHaveLength(1);
    vi.advanceTimersByTime(1);
    expect(inserts.at(-1)).toEqual([2, 3]);
    await end(1);
    const many = [add(4), add(5, "org", 999)];
    vi.advanceTimersByTime(20);
    expect(inserts.at(-1)).toEqual([4, 5]);
    await end(2);
    await Promise.all([...small, ...many]);
  });

  it("inserts rows of an organisation with few waiting rows before the many of another one", async () => {
    const { inserts, add, end } = committer();
    const flood = Array.from({ length: 60 }, () => add(2, "flood"));
    const small = [add(1, "neighbour"), add(3, "other")];
    await end(0);
    expect(inserts.at(-1)).toEqual([2, 1, 3, ...Array.from({ length: 13 }, () => 2)]);
    await end(1);
    await Promise.all(small);
    const largeOfFlood = [add(20, "flood"), add(20, "flood"), add(30, "neighbour")];
    for (let index = 2; index < inserts.length; index += 1) await end(index);
    expect(inserts.filter(([size = 0]) => size > 8)).toEqual([[20], [30], [20]]);
    await Promise.all([...flood, ...largeOfFlood]);
  });

  it("rejects only the rows that the engine rejects, and finds them in few inserts", async () => {
    const refused = new ApiError("unstorable", "no");
    const sizes: number[][] = [];
    const clickhouse = stub<ClickHouse>({
      insert: async ({ rows }: { rows: readonly NativeRows[] }) => {
        sizes.push(rows.map(({ count }) => count));
        await setImmediate();
        if (rows.some(({ count }) => count === 13)) throw refused;
      },
    });
    const commit = new GroupCommit({ clickhouse, table: "logs", columns: [] });
    const outcomes = await Promise.allSettled(
      Array.from({ length: 65 }, (_, count) => commit.add("org", { rows: { count, bytes: new Uint8Array(MIB / 4), streamLengths: [] } })),
    );
    expect(outcomes.flatMap((outcome, index) => (outcome.status === "rejected" ? [[index, outcome.reason]] : []))).toEqual([[13, refused]]);
    expect(sizes.length).toBeLessThanOrEqual(2 + 2 * 6);
  });

  it("fails all rows of an insert whose outcome is unknown, and none of the next", async () => {
    const { add, end } = committer();
    const first = add(8);
    const second = add(8);
    const away = new ApiError("storage_unavailable", "away");
    await Promise.all([expect(first).rejects.toBe(away), end(0, away)]);
    await end(1);
    await expect(second).resolves.toBe(true);
  });

  it("commits rows that were added before it is closed, without waiting for more", async () => {
    const { inserts, add, end, commit } = committer();
    const all = [add(1), add(1), add(20)];
    const closed = commit[Symbol.asyncDispose]();
    for (const index of [0, 1, 2]) await end(index);
    await closed;
    await Promise.all(all);
    expect(inserts).toEqual([[1], [20], [1]]);
  });
});

describe("group commit with claims", () => {
  const rows = () => ({ count: 1, bytes: new Uint8Array(MIB), streamLengths: [] });

  /** `claimed`: bodies of other inserts. */
  function replica({ claimed = [], error, isValid = true }: { claimed?: string[]; error?: ApiError; isValid?: boolean }) {
    const [inserts, released]: [{ rows: number; token: string | undefined }[], string[][]] = [[], []];
    const tokens: string[] = [];
    const clickhouse = stub<ClickHouse>({
      insert: async ({ rows: inserted, deduplicationToken }: { rows: readonly NativeRows[]; deduplicationToken?: string }) => {
        inserts.push({ rows: inserted.length, token: deduplicationToken });
        if (error) throw error;
      },
    });
    const claims = {
      claim: async (bodies: readonly string[], { insertId }: { insertId: string }) => {
        tokens.push(insertId);
        return { isOurs: bodies.map((body) => !claimed.includes(body)), isValid: () => isValid };
      },
      release: async (bodies: readonly string[]) => void released.push([...bodies]),
    };
    const commit = new GroupCommit({ clickhouse, table: "logs", columns: [], claims });
    return { inserts, released, tokens, add: (claim?: string) => commit.add("org", { rows: rows(), claim }) };
  }

  it("inserts the bodies that no other insert has claimed, under the token that the claims name", async () => {
    const { inserts, tokens, add } = replica({ claimed: ["b"] });
    const first = add();
    const others = Promise.all(["a", "b", "c", undefined].map((claim) => add(claim)));
    await first;
    await setImmediate();
    vi.advanceTimersByTime(20);
    expect(await others).toEqual([true, false, true, true]);
    expect(inserts).toEqual([
      { rows: 1, token: undefined },
      { rows: 3, token: tokens[0] },
    ]);
  });

  it("sends no insert if all bodies are claimed", async () => {
    const { inserts, add } = replica({ claimed: ["a"] });
    expect(await add("a")).toBe(false);
    expect(inserts).toEqual([]);
  });

  it.each([
    ["refused the rows", new ApiError("unstorable", "refused"), [["a"]]],
    ["was not reached", new ApiError("storage_unavailable", "away", { cause: { code: "ECONNREFUSED" } }), [["a"]]],
    ["did not answer", new ApiError("storage_unavailable", "away", { cause: { code: "ECONNRESET" } }), []],
  ])("gives up the claims only if the engine has certainly stored nothing: it %s", async (_, error, expected) => {
    const { released, add } = replica({ error });
    await expect(add("a")).rejects.toBe(error);
    expect(released).toEqual(expected);
  });

  it("does not acknowledge an insert whose claims may have been taken over", async () => {
    await expect(replica({ isValid: false }).add("a")).rejects.toMatchObject({ code: "storage_unavailable" });
  });
});

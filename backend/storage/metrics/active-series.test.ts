// Active series of organisations: which series count, for how long, and which bodies are refused at the limit.
import { expect, test } from "vitest";
import { ApiError } from "../../errors.ts";
import { ActiveSeries } from "./active-series.ts";
import { eachSeries, hashOf, rankOf, Ranks, registerOf, REGISTERS } from "./series-hash.ts";

const MINUTE_MS = 60_000;

function counted(limits: Record<string, number>) {
  const clock = { ms: 0 };
  const series = new ActiveSeries({ limitOf: (orgId) => limits[orgId] ?? 0, now: () => clock.ms, key: { k0: 3, k1: 4 } });
  const admit = (orgId: string, text: string, hostId = "h") => series.admit({ orgId, hostId }, Buffer.from(text));
  const refusal = async (orgId: string, text: string, hostId?: string): Promise<ApiError> =>
    await admit(orgId, text, hostId).then(
      (active) => Promise.reject(new Error(`was taken, with ${active}`)),
      (error: unknown) => error as ApiError,
    );
  return { clock, limits, admit, refusal };
}

const many = (from: number, count: number): string =>
  Array.from({ length: count }, (_, index) => `requests_total{pod="p-${from + index}",path="/"} ${index} 1700000000000\n`).join("");

test("rejects a body that would exceed the organisation's limit by name, and accepts known series", async () => {
  const { admit, refusal, limits } = counted({ red: 1000, blue: 50 });
  expect(await admit("red", many(0, 700))).toBeGreaterThan(650);
  const error = await refusal("red", many(0, 1500));
  expect([error.code, error.retryAfterS, error.message]).toEqual(["over_quota", 60, expect.stringContaining("active_series is 1000")]);
  expect(await admit("red", many(0, 700))).toBeLessThan(750);
  expect(await admit("blue", many(0, 20))).toBeLessThan(25);
  limits["red"] = 10;
  expect(await admit("red", many(100, 500))).toBeGreaterThan(650);
  await refusal("red", many(700, 100));
  limits["red"] = 0;
  expect(await admit("red", many(0, 1500))).toBeUndefined();
  // Series that were counted before a limit was removed do not count when it is set again.
  limits["red"] = 600;
  expect(await admit("red", many(2000, 500))).toBeLessThan(550);
});

test("a series is active for half an hour to an hour after its last sample", async () => {
  const { clock, admit, refusal } = counted({ red: 500 });
  await admit("red", many(0, 400));
  clock.ms += 29 * MINUTE_MS;
  await admit("red", many(0, 10));
  await refusal("red", many(1000, 400));
  clock.ms += 30 * MINUTE_MS;
  await refusal("red", many(1000, 400));
  expect(await admit("red", many(0, 10))).toBeGreaterThan(350);
  clock.ms += 2 * MINUTE_MS;
  // The ten are still there, the others not.
  expect(await admit("red", many(1000, 400))).toBeGreaterThan(370);
  await refusal("red", many(2000, 200));
  clock.ms += 24 * 60 * MINUTE_MS;
  expect(await admit("red", many(3000, 5))).toBe(5);
});

test("counts a series once, however often and whenever it is sent, and one of another host separately", async () => {
  const { admit } = counted({ red: 1e9 });
  const same = ['a{b="x y}",c="1"} 1', 'a{b="x y}",c="1"} 2 1700000000000', 'a{b="x y}",c="1"}\t-3e5  1700000000000  '];
  expect(await admit("red", same.join("\n"))).toBe(1);
  expect(await admit("red", "# HELP a b {}\n# TYPE a counter\n\n  \r\nplain 1\nplain 2 1700000000\n  plain\t3\r\n")).toBe(2);
  expect(await admit("red", "plain 1", "another host")).toBe(3);
  expect(await admit("red", '{"quoted name"} 1\n{"quoted name",x="1"} 1')).toBe(5);
});

test("counts a series once for each KiB of its labels that it begins", async () => {
  const { admit, refusal } = counted({ red: 1e9, blue: 1000 });
  const long = (bytes: number, count = 1): string =>
    Array.from({ length: count }, (_, index) => {
      const head = `a{number="${index}",text="`;
      return `${head}${"x".repeat(bytes - head.length - 2)}"} 1\n`;
    }).join("");
  expect(await admit("red", long(1024))).toBe(1);
  expect(await admit("red", long(1024))).toBe(1);
  expect(await admit("red", long(1025))).toBe(3);
  expect(await admit("red", long(8000))).toBe(11);
  await refusal("blue", long(8000, 200));
  expect(await admit("blue", long(8000, 100))).toBeGreaterThan(700);
});

test("counts a whole body of many slices, and yields to the event loop", async () => {
  const { admit } = counted({ red: 1e9 });
  const text = many(0, 20_000);
  let turns = 0;
  const timer = setInterval(() => (turns += 1), 0);
  const active = await admit("red", text);
  clearInterval(timer);
  expect(active).toBeGreaterThan(18_000);
  expect(active).toBeLessThan(22_000);
  expect(turns).toBeGreaterThan(0);
});

test("estimates within 8 % from one to 300,000, and within one for few", () => {
  const key = { k0: 1, k1: 2 };
  const sizes = new Set([1, 2, 5, 10, 100, 1000, 5000, 10_000, 20_000, 50_000, 100_000, 300_000]);
  const registers = new Uint8Array(REGISTERS);
  const number = Buffer.alloc(4);
  const wrong: [added: number, estimate: number][] = [];
  for (let added = 1; added <= 300_000; added += 1) {
    number.writeUInt32LE(added);
    const hash = hashOf(number, 0, 4, key);
    registers[registerOf(hash)] = Math.max(registers[registerOf(hash)] as number, rankOf(hash));
    if (!sizes.delete(added)) continue;
    const estimate = new Ranks(registers).estimate();
    if (Math.abs(estimate - added) > Math.max(1, 0.08 * added)) wrong.push([added, estimate]);
  }
  expect([wrong, sizes.size]).toEqual([[], 0]);
});

test("the hash is HalfSipHash-1-3 like in Linux (lib/siphash_kunit.c)", () => {
  const input = Uint8Array.from({ length: 8 }, (_, index) => index);
  const hashes = [0, 1, 2, 3, 4, 5].map((length) => hashOf(input, 0, length, { k0: 0x03020100, k1: 0x07060504 }) >>> 0);
  expect(hashes).toEqual([0x5814c896, 0xe7e864ca, 0xbc4b0e30, 0x01539939, 0x7e059ea6, 0x88e3d89b]);
});

test("slices end at line ends", () => {
  const text = Buffer.from(many(0, 50));
  const key = { k0: 1, k1: 2 };
  const of = (bytes: number): number[] => {
    const hashes: number[] = [];
    for (let at = 0; at < text.length;) at = eachSeries(text, { from: at, to: at + bytes }, key, (hash) => hashes.push(hash));
    return hashes;
  };
  for (const bytes of [1, 7, 60, 1000]) expect(of(bytes)).toEqual(of(1e6));
  expect(new Set(of(1e6)).size).toBe(50);
});

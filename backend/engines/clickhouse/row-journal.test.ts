import { appendFile, mkdir, readdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { encodedEntry, type JournalEntry } from "./journal-entry.ts";
import { type JournalCalls, RowJournal } from "./row-journal.ts";

function entry(number: number, size = 40): JournalEntry {
  const bytes = new Uint8Array(size).fill(number);
  return {
    orgId: "org",
    hostId: `host-${number}`,
    bodyHash: `${number}`,
    day: 20_000,
    form: 7,
    rows: { count: 2, bytes, streamLengths: [size] },
  };
}

function folderOf(): string {
  const folder = temporaryFolder();
  onTestFinished(() => folder[Symbol.dispose]());
  return join(folder.path, "journal");
}

/** As a process after it, which does not settle them, reads them. */
async function readBack(folder: string): Promise<{ hosts: string[]; entries: JournalEntry[]; tornBytes: number; damagedBytes: number }> {
  const entries: JournalEntry[] = [];
  let [torn, damaged] = [0, 0];
  for await (const segment of new RowJournal(folder).recovered()) {
    entries.push(...segment.entries.map((one) => one.entry));
    torn += segment.tornBytes;
    damaged += segment.damagedBytes;
  }
  return { hosts: entries.map(({ hostId }) => hostId), entries, tornBytes: torn, damagedBytes: damaged };
}

async function journalFiles(folder: string): Promise<string[]> {
  return (await readdir(folder)).filter((name) => name.endsWith(".journal")).map((name) => join(folder, name));
}

it("keeps what was appended as it was, until it is settled", async () => {
  const folder = folderOf();
  await using journal = new RowJournal(folder);
  const kept = await Promise.all([1, 2, 3].map((number) => journal.append(entry(number))));
  const untimed = { ...entry(4, 300_000), bodyHash: undefined };
  kept.push(await journal.append(untimed));
  const { entries, tornBytes } = await readBack(folder);
  expect(entries).toEqual(
    [entry(1), entry(2), entry(3), untimed].map((one) => ({ ...one, rows: { ...one.rows, bytes: expect.anything() } })),
  );
  expect(entries.map(({ rows }) => [rows.bytes.length, rows.bytes[0]])).toEqual([
    [40, 1],
    [40, 2],
    [40, 3],
    [300_000, 4],
  ]);
  expect(tornBytes).toBe(0);
  for (const one of kept) one.settle();
  await journal[Symbol.asyncDispose]();
  await expect.poll(() => journalFiles(folder)).toEqual([]);
});

it("syncs once for all that wait, and answers nobody before", async () => {
  const synced = Promise.withResolvers<void>();
  let syncs = 0;
  const sync = () => ((syncs += 1), syncs === 1 ? synced.promise : Promise.resolve());
  await using journal = new RowJournal(folderOf(), { sync });
  const first = journal.append(entry(1));
  let isAnswered = false;
  void first.then(() => (isAnswered = true));
  await expect.poll(() => syncs).toBe(1);
  const others = Array.from({ length: 200 }, (_, index) => journal.append(entry(2 + index)));
  expect(isAnswered).toBe(false);
  synced.resolve();
  await Promise.all([first, ...others]);
  expect(syncs).toBe(2);
});

it.each([
  ["a file cut within the last entry", (file: string, length: number) => truncate(file, length - 1)],
  ["a file that goes on with zeros", (file: string) => appendFile(file, Buffer.alloc(4096))],
  [
    "a file whose last bytes never came",
    async (file: string, length: number) => writeFile(file, (await readFile(file)).fill(0, length - 8)),
  ],
])("reads back what is whole of %s", async (what, damage) => {
  const folder = folderOf();
  await using journal = new RowJournal(folder);
  for (const number of [1, 2, 3]) await journal.append(entry(number));
  const [file = ""] = await journalFiles(folder);
  await damage(file, (await readFile(file)).length);
  const { hosts, tornBytes } = await readBack(folder);
  expect(hosts).toEqual(what.includes("zeros") ? ["host-1", "host-2", "host-3"] : ["host-1", "host-2"]);
  expect(tornBytes).toBeGreaterThan(0);
});

it("leaves out an entry of which one byte is another, its lengths included, and tells it", async () => {
  const folder = folderOf();
  await using journal = new RowJournal(folder);
  for (const number of [1, 2, 3]) await journal.append(entry(number));
  const [file = ""] = await journalFiles(folder);
  const whole = await readFile(file);
  const third = whole.length / 3;
  for (const at of [0, 3, 4, 7, 8, 12, 60, third - 1]) {
    const damaged = Buffer.from(whole);
    damaged[third + at] = (damaged[third + at] ?? 0) ^ 1;
    await writeFile(file, damaged);
    expect(await readBack(folder)).toMatchObject({ hosts: ["host-1", "host-3"], damagedBytes: third, tornBytes: 0 });
  }
});

it.each([
  ["other bytes", 0xa5],
  ["zeros", 0],
])("loses of a sector of %s, at any place, only the entries that it touches", async (_, value) => {
  const folder = folderOf();
  await using journal = new RowJournal(folder);
  const numbers = Array.from({ length: 20 }, (__, index) => index + 10);
  for (const number of numbers) await journal.append(entry(number, 300));
  const [file = ""] = await journalFiles(folder);
  const whole = await readFile(file);
  const size = whole.length / numbers.length;
  for (let at = 0; at + 512 < whole.length - size; at += 211) {
    await writeFile(file, Buffer.from(whole).fill(value, at, at + 512));
    const [first, last] = [Math.floor(at / size), Math.floor((at + 511) / size)];
    const left = numbers.filter((__, index) => index < first || index > last).map((number) => `host-${number}`);
    expect(await readBack(folder)).toMatchObject({ hosts: left, damagedBytes: (last - first + 1) * size, tornBytes: 0 });
  }
});

it("takes for no entry what somebody sent in the form of one, wherever the damage is", async () => {
  const folder = folderOf();
  await using journal = new RowJournal(folder);
  await journal.append(entry(1));
  const [file = ""] = await journalFiles(folder);
  const forged = await readFile(file);
  const bytes = new Uint8Array(Buffer.concat(Array.from({ length: 50 }, () => [...encodedEntry(entry(66))]).flat()));
  await journal.append({ ...entry(2), rows: { count: 1, bytes, streamLengths: [bytes.length] } });
  await journal.append(entry(3));
  const whole = await readFile(file);
  for (const [at, value] of [
    [0, 0],
    [0, 0xff],
    [4, 0],
    [4, bytes.length / 50],
  ] as const) {
    const damaged = Buffer.from(whole);
    damaged[forged.length + at] = value;
    damaged[forged.length + at + 1] = 0;
    await writeFile(file, damaged);
    expect((await readBack(folder)).hosts).toEqual(["host-1", "host-3"]);
  }
});

it("keeps a damaged file by another name, once, also when all of it that is whole is stored", async () => {
  const folder = folderOf();
  const earlier = new RowJournal(folder);
  for (const number of [1, 2, 3]) await earlier.append(entry(number));
  await earlier[Symbol.asyncDispose]();
  const [file = ""] = await journalFiles(folder);
  const damaged = (await readFile(file)).fill(0, 100, 110);
  await writeFile(file, damaged);
  await readBack(folder);
  await using journal = new RowJournal(folder);
  const asides = [];
  for await (const { entries, aside } of journal.recovered()) {
    asides.push(aside);
    for (const { kept } of entries) kept.settle();
  }
  await expect.poll(() => journalFiles(folder)).toEqual([]);
  expect((await readdir(join(folder, "refused"))).map((name) => join(folder, "refused", name))).toEqual(asides);
  expect(await readFile(String(asides[0]))).toEqual(damaged);
});

it("reads a large file in which everything is damaged in one go", { timeout: 20_000 }, async () => {
  const folder = folderOf();
  await using journal = new RowJournal(folder);
  await Promise.all(Array.from({ length: 20_000 }, () => journal.append(entry(7, 500))));
  const [file = ""] = await journalFiles(folder);
  const content = await readFile(file);
  const size = content.length / 20_000;
  // Each claims all that follows it.
  for (let at = 0; at < content.length; at += size) content.writeUInt32LE(content.length - at - 400, at + 4);
  await writeFile(file, content);
  const beganMs = performance.now();
  expect(await readBack(folder)).toMatchObject({ hosts: [], tornBytes: content.length });
  expect(performance.now() - beganMs).toBeLessThan(5000);
});

it.each([
  ["is written in part", { write: async () => ({ bytesWritten: 10 }) }],
  ["cannot be written", { write: () => Promise.reject(new Error("ENOSPC")) }],
  ["cannot be synced", { sync: () => Promise.reject(new Error("EIO")) }],
])("of a group that %s everybody is refused; later ones are kept, behind no gap", async (_, failing: Partial<JournalCalls>) => {
  const folder = folderOf();
  let nowMs = 0;
  const calls: { -readonly [Name in keyof JournalCalls]?: JournalCalls[Name] } = {};
  await using journal = new RowJournal(folder, {
    nowMs: () => nowMs,
    ...("write" in failing && { write: (...call) => (calls.write ?? realWrite)(...call) }),
    ...("sync" in failing && { sync: (fd) => calls.sync?.(fd) ?? Promise.resolve() }),
  });
  await journal.append(entry(1));
  Object.assign(calls, failing);
  const refused = await Promise.allSettled([journal.append(entry(2)), journal.append(entry(3))]);
  expect(refused.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  delete calls.write;
  delete calls.sync;
  await expect(journal.append(entry(4))).rejects.toThrow(/ENOSPC|EIO|only 10 of/);
  nowMs += 1000;
  await journal.append(entry(5));
  const { hosts } = await readBack(folder);
  expect([hosts[0], hosts.at(-1)]).toEqual(["host-1", "host-5"]);
});

it("removes a file once everything in it is settled, and no other", async () => {
  const folder = folderOf();
  let nowMs = 0;
  await using journal = new RowJournal(folder, { nowMs: () => nowMs });
  const [first, second] = [await journal.append(entry(1)), await journal.append(entry(2))];
  nowMs += 5000;
  const third = await journal.append(entry(3));
  expect(await journalFiles(folder)).toHaveLength(2);
  first.settle();
  third.settle();
  expect((await readBack(folder)).hosts).toEqual(["host-1", "host-2", "host-3"]);
  second.settle();
  await expect.poll(() => journalFiles(folder)).toHaveLength(1);
  expect((await readBack(folder)).hosts).toEqual(["host-3"]);
});

it("gives what an earlier process left once, keeps it until it is settled, and mixes nothing with it", async () => {
  const folder = folderOf();
  await using earlier = new RowJournal(folder);
  for (const number of [1, 2]) await earlier.append(entry(number));
  await earlier[Symbol.asyncDispose]();
  await using journal = new RowJournal(folder);
  await journal.append(entry(3));
  const kept = [];
  for await (const { entries } of journal.recovered()) kept.push(...entries);
  expect(kept.map((one) => one.entry.hostId)).toEqual(["host-1", "host-2"]);
  for await (const _ of journal.recovered()) expect.unreachable();
  kept[0]?.kept.settle();
  expect((await readBack(folder)).hosts).toEqual(["host-1", "host-2", "host-3"]);
  kept[1]?.kept.settle();
  await expect.poll(async () => (await readBack(folder)).hosts).toEqual(["host-3"]);
});

it("holds no rows any more once all have been settled for a while, and nothing has come since", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const folder = folderOf();
  await using journal = new RowJournal(folder);
  const [first, second] = await Promise.all([journal.append(entry(1)), journal.append(entry(2))]);
  first?.settle();
  vi.advanceTimersByTime(60_000);
  expect((await readBack(folder)).hosts).toEqual(["host-1", "host-2"]);
  second?.settle();
  vi.advanceTimersByTime(1000);
  expect(await journalFiles(folder)).toHaveLength(1);
  vi.advanceTimersByTime(4000);
  await expect.poll(() => journalFiles(folder)).toEqual([]);
  await journal.append(entry(3));
  expect((await readBack(folder)).hosts).toEqual(["host-3"]);
});

it("counts what is set aside, not what could not be: after a hundred failures there is room", async () => {
  const folder = folderOf();
  await using journal = new RowJournal(folder);
  const refused = join(folder, "refused");
  await rm(refused, { recursive: true });
  for (let tries = 0; tries < 100; tries++) await expect(journal.setAside(entry(1))).rejects.toMatchObject({ code: "ENOENT" });
  await mkdir(refused);
  const file = await journal.setAside(entry(1));
  expect((await readdir(refused)).map((name) => join(refused, name))).toEqual([file]);
});

const realWrite: JournalCalls["write"] = async (fd, pieces, position) => {
  const { writevSync } = await import("node:fs");
  return { bytesWritten: writevSync(fd, pieces, position) };
};

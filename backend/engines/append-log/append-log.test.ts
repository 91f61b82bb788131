import { writevSync } from "node:fs";
import { appendFile, mkdir, readdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it, onTestFinished, vi } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { AppendLog, type AppendLogOptions, type LogCalls, LogFullError, readSegments, type Segment } from "./append-log.ts";
import { encodeRecord } from "./record.ts";

const MIB = 1024 * 1024;

function newFolder(): string {
  const folder = temporaryFolder();
  onTestFinished(() => folder[Symbol.dispose]());
  return join(folder.path, "log");
}

function open(folder: string, options: Partial<AppendLogOptions> = {}): AppendLog {
  return new AppendLog(folder, { segmentBytes: 16 * MIB, ...options });
}

function append(log: AppendLog, number: number, size = 40): Promise<Segment> {
  return log.append({ number }, new Uint8Array(size).fill(number));
}

/** Reads the log as the next process does, and releases nothing. */
async function readBack(folder: string): Promise<{ numbers: number[]; sizes: number[]; tornBytes: number; damagedBytes: number }> {
  await using log = open(folder);
  const result = { numbers: [] as number[], sizes: [] as number[], tornBytes: 0, damagedBytes: 0 };
  for (const segment of log.segments) {
    const { records, tornBytes, damagedBytes } = await log.read(segment);
    for (const { header, body } of records) {
      const { number } = header as { number: number };
      expect(new Set(body)).toEqual(new Set(body.length > 0 ? [number % 256] : []));
      result.numbers.push(number);
      result.sizes.push(body.length);
    }
    result.tornBytes += tornBytes;
    result.damagedBytes += damagedBytes;
  }
  return result;
}

async function segmentFiles(folder: string): Promise<string[]> {
  const names = await readdir(folder);
  return names.filter((name) => name.endsWith(".journal")).map((name) => join(folder, name));
}

async function onlySegment(folder: string): Promise<{ file: string; content: Buffer }> {
  const [file = "", ...others] = await segmentFiles(folder);
  expect(others).toEqual([]);
  return { file, content: await readFile(file) };
}

it("reads records in the order of their appends, until they are released", async () => {
  const folder = newFolder();
  await using log = open(folder);
  const segments = await Promise.all([1, 2, 3].map((number) => append(log, number)));
  segments.push(await append(log, 4, 300_000), await append(log, 5, 0));
  expect(await readBack(folder)).toEqual({ numbers: [1, 2, 3, 4, 5], sizes: [40, 40, 40, 300_000, 0], tornBytes: 0, damagedBytes: 0 });
  for (const segment of segments) log.release(segment);
  await log[Symbol.asyncDispose]();
  expect(await segmentFiles(folder)).toEqual([]);
});

it("resolves an append after an fsync that began after its write, one for all that wait", async () => {
  const syncs: PromiseWithResolvers<void>[] = [];
  const sync = () => {
    const started = Promise.withResolvers<void>();
    syncs.push(started);
    return started.promise;
  };
  await using log = open(newFolder(), { calls: { sync } });
  let resolved = 0;
  const first = append(log, 1).then(() => (resolved += 1));
  await expect.poll(() => syncs.length).toBe(1);
  const others = Array.from({ length: 200 }, (_, index) => append(log, index).then(() => (resolved += 1)));
  syncs[0]?.resolve();
  await first;
  await expect.poll(() => syncs.length).toBe(2);
  expect(resolved).toBe(1);
  syncs[1]?.resolve();
  await Promise.all(others);
  expect([resolved, syncs.length]).toEqual([201, 2]);
});

it("waits for no fsync if it is not synced", async () => {
  const folder = newFolder();
  await using log = open(folder, { isSynced: false, calls: { sync: () => Promise.reject(new Error("no fsync expected")) } });
  await append(log, 1);
  expect((await readBack(folder)).numbers).toEqual([1]);
});

it("writes at most 8 MiB at a time, and a larger record alone", async () => {
  const sizes: number[] = [];
  const write: LogCalls["write"] = async (fd, pieces, position) => {
    sizes.push(Math.floor(pieces.reduce((sum, piece) => sum + piece.length, 0) / MIB));
    return { bytesWritten: writevSync(fd, pieces, position) };
  };
  await using log = open(newFolder(), { calls: { write } });
  await Promise.all([3, 3, 3, 9, 1].map((size, index) => append(log, index, size * MIB)));
  expect(sizes).toEqual([6, 3, 9, 1]);
});

it.each([
  ["a file cut within the last record", [1, 2], (file: string, length: number) => truncate(file, length - 1)],
  ["a file that continues with zeros", [1, 2, 3], (file: string) => appendFile(file, Buffer.alloc(4096))],
  ["a file whose end was never written", [1, 2], async (file: string, length: number) => writeZeros(file, length - 8, length)],
])("reads the intact records of %s", async (_, intact, damage) => {
  const folder = newFolder();
  await using log = open(folder);
  for (const number of [1, 2, 3]) await append(log, number);
  const { file, content } = await onlySegment(folder);
  await damage(file, content.length);
  const { numbers, tornBytes, damagedBytes } = await readBack(folder);
  expect([numbers, tornBytes > 0, damagedBytes]).toEqual([intact, true, 0]);
});

it.each(["with", "without"])(
  "loses only the record of which one byte is damaged, its lengths included, %s the file of the marker",
  async (kept) => {
    const folder = newFolder();
    await using log = open(folder);
    for (const number of [1, 2, 3]) await append(log, number);
    const { file, content } = await onlySegment(folder);
    if (kept === "without") await rm(join(folder, "marker"));
    const size = content.length / 3;
    for (const at of [16, 19, 20, 23, 24, 28, 60, size - 1]) {
      const damaged = Buffer.from(content);
      damaged[size + at] = (damaged[size + at] ?? 0) ^ 1;
      await writeFile(file, damaged);
      expect(await readBack(folder)).toMatchObject({ numbers: [1, 3], damagedBytes: size, tornBytes: 0 });
    }
  },
);

it.each([
  ["other bytes", 0xa5],
  ["zeros", 0],
])("loses only the records that a damaged sector with %s touches", async (_, value) => {
  const folder = newFolder();
  await using log = open(folder);
  const numbers = Array.from({ length: 20 }, (__, index) => index + 10);
  for (const number of numbers) await append(log, number, 300);
  const { file, content } = await onlySegment(folder);
  const size = content.length / numbers.length;
  for (let at = 0; at + 512 < content.length - size; at += 211) {
    await writeFile(file, Buffer.from(content).fill(value, at, at + 512));
    const { numbers: found, tornBytes } = await readBack(folder);
    const [first, last] = [Math.floor(at / size), Math.floor((at + 511) / size)];
    const expected = numbers.filter((__, index) => index < first || index > last);
    expect([found, tornBytes]).toEqual([expected, 0]);
  }
});

it("never reads bytes of a body as a record, wherever the damage is", async () => {
  const folder = newFolder();
  await using log = open(folder);
  await append(log, 1);
  const first = (await onlySegment(folder)).content.length;
  const [head = new Uint8Array(), body = new Uint8Array()] = encodeRecord({ number: 66 }, new Uint8Array(40).fill(66), new Uint8Array(16));
  const forged = Buffer.concat([head, body]);
  await log.append({ number: 2 }, Buffer.concat(Array.from({ length: 50 }, () => forged)));
  await append(log, 3);
  const { file, content } = await onlySegment(folder);
  for (const [at, value] of [
    [16, 0],
    [16, 0xff],
    [20, 0],
    [20, forged.length],
  ] as const) {
    const damaged = Buffer.from(content);
    damaged[first + at] = value;
    damaged[first + at + 1] = 0;
    await writeFile(file, damaged);
    expect((await readBack(folder)).numbers).toEqual([1, 3]);
  }
});

it("reads a large file in which every record is damaged in one pass", async () => {
  const folder = newFolder();
  await using log = open(folder);
  await Promise.all(Array.from({ length: 20_000 }, () => append(log, 7, 500)));
  const { file, content } = await onlySegment(folder);
  const size = content.length / 20_000;
  // Each record claims everything that follows it.
  for (let at = 0; at < content.length; at += size) content.writeUInt32LE(content.length - at - 400, at + 20);
  await writeFile(file, content);
  const startedMs = performance.now();
  expect(await readBack(folder)).toMatchObject({ numbers: [], tornBytes: content.length });
  expect(performance.now() - startedMs).toBeLessThan(20_000);
});

it("quarantines a damaged segment once, and keeps the copy after its records are released", async () => {
  const folder = newFolder();
  {
    await using log = open(folder);
    for (const number of [1, 2, 3]) await append(log, number);
  }
  const { file } = await onlySegment(folder);
  await writeZeros(file, 110, 120);
  const damaged = await readFile(file);
  await using log = open(folder);
  const [segment] = log.segments as [Segment];
  const { records, quarantined } = await log.read(segment);
  expect((await log.read(segment)).quarantined).toBe(quarantined);
  for (const _ of records) log.release(segment);
  await log.flush();
  expect([await segmentFiles(folder), await readdir(join(folder, "dead-letters"))]).toEqual([[], [expect.stringMatching(/\.damaged$/)]]);
  expect(await readFile(String(quarantined))).toEqual(damaged);
});

it.each([
  ["is written in part", { write: async () => ({ bytesWritten: 10 }) }],
  ["cannot be written", { write: () => Promise.reject(new Error("ENOSPC")) }],
  ["cannot be synced", { sync: () => Promise.reject(new Error("EIO")) }],
])("rejects all appends of a batch that %s, pauses for a second, and continues in a new segment", async (_, failing: Partial<LogCalls>) => {
  const folder = newFolder();
  let [nowMs, isFailing] = [0, false];
  const write: LogCalls["write"] = async (fd, pieces, position) => ({ bytesWritten: writevSync(fd, pieces, position) });
  const sync: LogCalls["sync"] = () => Promise.resolve();
  await using log = open(folder, {
    calls: {
      nowMs: () => nowMs,
      write: (...call) => ((isFailing && failing.write) || write)(...call),
      sync: (fd) => ((isFailing && failing.sync) || sync)(fd),
    },
  });
  await append(log, 1);
  isFailing = true;
  const outcomes = await Promise.allSettled([append(log, 2), append(log, 3)]);
  expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  isFailing = false;
  await expect(append(log, 4)).rejects.toThrow(/ENOSPC|EIO|only 10 of/);
  expect(await segmentFiles(folder)).toHaveLength(1);
  nowMs += 1000;
  await append(log, 5);
  const { numbers } = await readBack(folder);
  expect([numbers[0], numbers.at(-1), (await segmentFiles(folder)).length]).toEqual([1, 5, 2]);
});

it("leaves no file and no used bytes of batches that failed", async () => {
  const folder = newFolder();
  let nowMs = 0;
  const write = () => Promise.reject(new Error("ENOSPC"));
  await using log = open(folder, { maxBytes: 1000, calls: { nowMs: () => nowMs, write } });
  for (let attempt = 0; attempt < 20; attempt++, nowMs += 1000) await expect(append(log, 1, 400)).rejects.toThrow("ENOSPC");
  await log.flush();
  expect(await segmentFiles(folder)).toEqual([]);
});

it("rejects appends above its limit, and accepts them again after segments are removed", async () => {
  const folder = newFolder();
  await using log = open(folder, { maxBytes: 1000 });
  const outcomes = await Promise.allSettled([1, 2, 3].map((number) => append(log, number, 400)));
  expect(outcomes.map((outcome) => (outcome.status === "rejected" ? outcome.reason : "stored"))).toEqual([
    "stored",
    "stored",
    expect.any(LogFullError),
  ]);
  log.rotate();
  for (const segment of log.segments) log.remove(segment);
  await append(log, 4, 400);
  expect((await readBack(folder)).numbers).toEqual([4]);
  await using next = open(folder, { maxBytes: 800 });
  await expect(append(next, 5, 400)).rejects.toThrow(LogFullError);
});

it("closes a segment at its size or after five seconds, and removes only closed segments without unreleased records", async () => {
  const folder = newFolder();
  let nowMs = 0;
  await using log = open(folder, { segmentBytes: 1000, calls: { nowMs: () => nowMs } });
  const [first, second] = [await append(log, 1), await append(log, 2, 1000)];
  const third = await append(log, 3);
  nowMs += 5000;
  const fourth = await append(log, 4);
  expect([first === second, second === third, third === fourth]).toEqual([true, false, false]);
  expect(log.segments.map(({ closedAtMs }) => closedAtMs)).toEqual([0, 5000, undefined]);
  for (const segment of [first, fourth]) log.release(segment);
  expect((await readBack(folder)).numbers).toEqual([1, 2, 3, 4]);
  log.release(second);
  await expect.poll(() => segmentFiles(folder)).toHaveLength(2);
  expect((await readBack(folder)).numbers).toEqual([3, 4]);
});

it("can be rotated during a write, which then ends in the closed segment", async () => {
  const folder = newFolder();
  const synced = Promise.withResolvers<void>();
  let isSyncing = false;
  const sync = () => ((isSyncing = true), synced.promise);
  await using log = open(folder, { calls: { sync } });
  const appended = append(log, 1);
  await expect.poll(() => isSyncing).toBe(true);
  log.rotate();
  synced.resolve();
  const segment = await appended;
  await append(log, 2);
  expect(log.segments.map((one) => [one === segment, one.closedAtMs !== undefined])).toEqual([
    [true, true],
    [false, false],
  ]);
  expect((await readBack(folder)).numbers).toEqual([1, 2]);
});

it("keeps segments of an earlier process until they are read and released, and appends to new ones", async () => {
  const folder = newFolder();
  {
    await using earlier = open(folder);
    for (const number of [1, 2]) await append(earlier, number);
  }
  await using log = open(folder);
  const [segment] = log.segments as [Segment];
  await append(log, 3);
  const { records } = await log.read(segment);
  expect(records).toHaveLength(2);
  log.release(segment);
  expect((await readBack(folder)).numbers).toEqual([1, 2, 3]);
  log.release(segment);
  await expect.poll(async () => (await readBack(folder)).numbers).toEqual([3]);
});

it("removes the open segment five seconds after its last record was released, if none was appended since", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const folder = newFolder();
  await using log = open(folder);
  const [first, second] = await Promise.all([append(log, 1), append(log, 2)]);
  log.release(first);
  vi.advanceTimersByTime(60_000);
  expect((await readBack(folder)).numbers).toEqual([1, 2]);
  log.release(second);
  vi.advanceTimersByTime(1000);
  expect(await segmentFiles(folder)).toHaveLength(1);
  vi.advanceTimersByTime(4000);
  await expect.poll(() => segmentFiles(folder)).toEqual([]);
  await append(log, 3);
  expect((await readBack(folder)).numbers).toEqual([3]);
});

it("links every appended record and the marker into another folder, again and again", async () => {
  const folder = newFolder();
  const copy = `${folder}-copy`;
  await mkdir(copy);
  await using log = open(folder);
  const appended = append(log, 1, 9 * MIB);
  await log.linkInto(copy);
  expect((await readBack(copy)).numbers).toEqual([1]);
  await appended;
  log.rotate();
  await append(log, 2);
  await log.linkInto(copy);
  expect((await readBack(copy)).numbers).toEqual([1, 2]);
  expect(await readFile(join(copy, "marker"))).toEqual(await readFile(join(folder, "marker")));
});

it("counts the dead letters that exist, not those that could not be written", async () => {
  const folder = newFolder();
  await using log = open(folder);
  const deadLetters = join(folder, "dead-letters");
  await rm(deadLetters, { recursive: true });
  for (let attempt = 0; attempt < 100; attempt++)
    await expect(log.keepDeadLetter({ number: 1 }, new Uint8Array(4))).rejects.toMatchObject({ code: "ENOENT" });
  await mkdir(deadLetters);
  const file = await log.keepDeadLetter({ number: 1 }, new Uint8Array(4));
  expect((await readdir(deadLetters)).map((name) => join(deadLetters, name))).toEqual([file]);
  expect((await readFile(String(file))).subarray(28, 40).toString()).toBe('{"number":1}');
});

it("lists the segments of a folder without changing it", async () => {
  const folder = newFolder();
  const read = () => Array.fromAsync(readSegments(folder), ({ bytes, records }) => [bytes > 40, records.length]);
  expect(await read()).toEqual([]);
  {
    await using log = open(folder);
    await append(log, 1);
    log.rotate();
    await Promise.all([append(log, 2), append(log, 3)]);
  }
  const names = await readdir(folder);
  expect(await read()).toEqual([
    [true, 1],
    [true, 2],
  ]);
  expect(await readdir(folder)).toEqual(names);
});

async function writeZeros(file: string, from: number, to: number): Promise<void> {
  await writeFile(file, (await readFile(file)).fill(0, from, to));
}

import { mkdtempSync, readFileSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { PAGE, smallStore, store, VALUE_PAGES } from "./bbolt-file.fixture.ts";
import { findDamage, readEntries } from "./bbolt-file.ts";

let folder: string;
let file: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "atherops-bbolt-"));
  file = join(folder, "store");
  writeFileSync(file, store());
});
afterEach(() => {
  vi.restoreAllMocks();
  rmSync(folder, { recursive: true });
});

type Read = (buffer: Buffer, from: number, length: number, at: number) => Promise<unknown>;

/** Lets `first` see where each read begins and ends, fail it, and say where it ends early. */
async function watchReads(first: (from: number, to: number) => number | void): Promise<void> {
  const handle = await open(file, "r");
  const prototype = Object.getPrototypeOf(handle) as FileHandle;
  await handle.close();
  // oxlint-disable-next-line typescript/unbound-method -- called with its handle below
  const methods: { read: Read } = prototype;
  const real = methods.read;
  vi.spyOn(methods, "read").mockImplementation(async function (this: FileHandle, buffer, from, length, at) {
    const end = first(at, at + length) ?? at + length;
    return real.call(this, buffer, from, end - at, at);
  });
}

test("finds no damage in an intact file", async () => {
  expect(await findDamage(file)).toBeUndefined();
});

test("reads a small bucket, whose page is in the entry of the root bucket", async () => {
  writeFileSync(file, smallStore("key", "its value"));
  expect(await findDamage(file)).toBeUndefined();
  const entries: string[] = [];
  await readEntries(file, ({ key, valueAt, valueBytes }) => {
    entries.push(`${key.toString()}: ${readFileSync(file).toString("latin1", valueAt, valueAt + valueBytes)}`);
  });
  expect(entries).toEqual(["key: its value"]);
});

test.each([
  ["a meta page", 0],
  ["a page", 3 * PAGE],
  ["the middle of a value", (4 + VALUE_PAGES / 2) * PAGE],
  ["the end of a value", (4 + VALUE_PAGES) * PAGE - 1],
])("reports %s that the disk cannot read as damage", async (_where, bad) => {
  await watchReads((from, to) => {
    // Simulates the kernel, which first writes what comes before the bad sector.
    const sector = bad - (bad % 512);
    if (from < sector && sector < to) return sector;
    if (from <= bad && bad < to) throw Object.assign(new Error("EIO: i/o error, read"), { code: "EIO" });
    return to;
  });
  expect(await findDamage(file)).toBe("reading it failed with EIO");
});

test.each([
  ["behind its meta pages", 2 * PAGE, /^it ends before page \d+$/],
  ["within its meta pages", 5000, "it ends after 5000 bytes, within its meta pages"],
])("reports a file that is cut %s as damage", async (_where, bytes, words) => {
  truncateSync(file, bytes);
  expect(await findDamage(file)).toMatch(words);
});

test("does not report another read failure as damage", async () => {
  await watchReads(() => {
    throw Object.assign(new Error("ENOMEM: not enough memory, read"), { code: "ENOMEM" });
  });
  await expect(findDamage(file)).rejects.toThrow("ENOMEM");
});

test("reads a long value in parts, and stops when it is aborted", async () => {
  const stop = new AbortController();
  const ends: number[] = [];
  await watchReads((from, to) => {
    expect(to - from).toBeLessThanOrEqual(1 << 20);
    ends.push(to);
    if (from === 4 * PAGE) stop.abort(new Error("stopped"));
  });
  await expect(findDamage(file, stop.signal)).rejects.toThrow("stopped");
  expect(Math.max(...ends)).toBe(4 * PAGE + (1 << 20));
});

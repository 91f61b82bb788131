import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { damageOf } from "./bbolt-file.ts";

const PAGE = 4096;
/** The pages of the one value; more than one read takes. */
const VALUE_PAGES = 600;
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

/** Two head pages, the root bucket on page 2, and its one bucket on page 3, with a value that fills the pages after it. */
function store(): Buffer {
  const bytes = Buffer.alloc((4 + VALUE_PAGES) * PAGE);
  for (const page of [0, 1]) {
    const meta = bytes.subarray(page * PAGE + 16);
    meta.writeUInt32LE(0xed0cdaed, 0);
    meta.writeUInt32LE(2, 4);
    meta.writeUInt32LE(PAGE, 8);
    meta.writeBigUInt64LE(2n, 16);
    meta.writeBigUInt64LE(BigInt(4 + VALUE_PAGES), 40);
    meta.writeBigUInt64LE(BigInt(page), 48);
    let hash = 0xcbf29ce484222325n;
    for (const byte of meta.subarray(0, 56)) hash = BigInt.asUintN(64, (hash ^ BigInt(byte)) * 0x100000001b3n);
    meta.writeBigUInt64LE(hash, 56);
  }
  const root = leaf(bytes, 2, 0, { isBucket: true, valueBytes: 16 });
  root.writeBigUInt64LE(3n, 0);
  leaf(bytes, 3, VALUE_PAGES, { isBucket: false, valueBytes: VALUE_PAGES * PAGE });
  return bytes;
}

/** Answers the value, of a page with one entry. */
function leaf(bytes: Buffer, id: number, overflow: number, entry: { isBucket: boolean; valueBytes: number }): Buffer {
  const page = bytes.subarray(id * PAGE);
  page.writeBigUInt64LE(BigInt(id), 0);
  page.writeUInt16LE(2, 8);
  page.writeUInt16LE(1, 10);
  page.writeUInt32LE(overflow, 12);
  page.writeUInt32LE(entry.isBucket ? 1 : 0, 16);
  page.writeUInt32LE(16, 20);
  page.writeUInt32LE(1, 24);
  page.writeUInt32LE(entry.valueBytes, 28);
  page.write("k", 32);
  return page.subarray(33);
}

type Read = (buffer: Buffer, from: number, length: number, at: number) => Promise<unknown>;

/** Lets `first` see where each read begins and ends, fail it, and say where it ends early. */
async function watchReads(first: (from: number, to: number) => number | void): Promise<void> {
  const handle = await open(file, "r");
  const prototype = Object.getPrototypeOf(handle) as FileHandle;
  await handle.close();
  // oxlint-disable-next-line typescript/unbound-method -- called with its handle below
  const real = prototype.read as unknown as Read;
  vi.spyOn(prototype as unknown as { read: Read }, "read").mockImplementation(async function (this: FileHandle, buffer, from, length, at) {
    const end = first(at, at + length) ?? at + length;
    return real.call(this, buffer, from, end - at, at);
  });
}

test("a file that is whole has no damage", async () => {
  expect(await damageOf(file)).toBeUndefined();
});

test.each([
  ["a head page", 0],
  ["a page", 3 * PAGE],
  ["the middle of a value", (4 + VALUE_PAGES / 2) * PAGE],
  ["the end of a value", (4 + VALUE_PAGES) * PAGE - 1],
])("%s that the disk cannot read is damage", async (_where, bad) => {
  await watchReads((from, to) => {
    // As the kernel does: first what comes before it.
    const sector = bad - (bad % 512);
    if (from < sector && sector < to) return sector;
    if (from <= bad && bad < to) throw Object.assign(new Error("EIO: i/o error, read"), { code: "EIO" });
    return to;
  });
  expect(await damageOf(file)).toBe("it cannot be read: EIO");
});

test("another failure to read says nothing of the file", async () => {
  await watchReads(() => {
    throw Object.assign(new Error("ENOMEM: not enough memory, read"), { code: "ENOMEM" });
  });
  await expect(damageOf(file)).rejects.toThrow("ENOMEM");
});

test("a long value is read in parts, and no further once stopped", async () => {
  const stop = new AbortController();
  const ends: number[] = [];
  await watchReads((from, to) => {
    expect(to - from).toBeLessThanOrEqual(1 << 20);
    ends.push(to);
    if (from === 4 * PAGE) stop.abort(new Error("stopped"));
  });
  await expect(damageOf(file, stop.signal)).rejects.toThrow("stopped");
  expect(Math.max(...ends)).toBe(4 * PAGE + (1 << 20));
});

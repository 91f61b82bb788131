import { open, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { AppendLog } from "./append-log.ts";
import { DeadLetters } from "./dead-letters.ts";

const MIB = 1024 * 1024;

function folderOf(): string {
  const folder = temporaryFolder();
  onTestFinished(() => folder[Symbol.dispose]());
  return folder.path;
}

/** A sparse file: it takes no disk space. */
async function largeFile(path: string, bytes: number): Promise<void> {
  await using handle = await open(path, "w");
  await handle.truncate(bytes);
}

it("keeps files up to its limit of bytes, whatever their number", async () => {
  const folder = folderOf();
  const letters = new DeadLetters(join(folder, "dead-letters"), () => 0);
  for (let count = 0; count < 150; count++) await letters.keep([Buffer.from(`${count} `), Buffer.from("rows")]);
  const contents = await Promise.all((await readdir(letters.folder)).map((name) => readFile(join(letters.folder, name), "utf8")));
  expect(contents.toSorted()).toEqual(Array.from({ length: 150 }, (_, count) => `${count} rows`).toSorted());
  await largeFile(join(letters.folder, "old.record"), 128 * MIB - 2500);
  const next = new DeadLetters(letters.folder, () => 0);
  const more = await Promise.all([1000, 1000].map((bytes) => next.keep([new Uint8Array(bytes)])));
  expect(more.map((file) => file !== undefined)).toEqual([true, false]);
});

it("accepts files again after an operator deleted some, which it checks once a minute", async () => {
  let nowMs = 0;
  const letters = new DeadLetters(folderOf(), () => nowMs);
  const old = join(letters.folder, "old.record");
  await largeFile(old, 128 * MIB);
  const full = new DeadLetters(letters.folder, () => nowMs);
  expect(await full.keep([new Uint8Array(1)])).toBeUndefined();
  await rm(old);
  expect(await full.keep([new Uint8Array(1)])).toBeUndefined();
  nowMs += 60_000;
  expect(await full.keep([new Uint8Array(1)])).toMatch(/record$/);
});

it("reserves half of its limit for rejected records if segments are damaged", async () => {
  const folder = folderOf();
  const letters = new DeadLetters(join(folder, "dead-letters"), () => 0);
  const segment = (number: number): string => join(folder, `000000000${number}.journal`);
  for (const number of [1, 2, 3]) await largeFile(segment(number), 24 * MIB);
  const kept = [];
  for (const number of [1, 1, 2, 3]) kept.push(await letters.keepFile(segment(number)));
  expect(kept.map((file) => file !== undefined)).toEqual([true, true, true, false]);
  expect(kept[0]).toBe(kept[1]);
  await writeFile(segment(4), "small");
  expect(await readFile(String(await letters.keepFile(segment(4))), "utf8")).toBe("small");
  expect(await letters.keep([new Uint8Array(MIB)])).toBeDefined();
});

it("erases records of deleted organisations, and damaged segments that were written before a deletion", async () => {
  const folder = folderOf();
  const orgIdOf = (header: unknown) => (header as { orgId: string }).orgId;
  const record = async (log: AppendLog, orgId: string) => await log.keepDeadLetter({ orgId }, Buffer.from(`rows of ${orgId}`));
  await using log = new AppendLog(folder, { segmentBytes: MIB });
  await record(log, "gone");
  const kept = await record(log, "stays");
  const segment = await log.append({ orgId: "gone" }, Buffer.from("rows of gone"));
  const name = join(folder, "dead-letters", "1-0000000000.damaged");
  const content = await readFile(segment.path);
  // The marker of the log, the name of the organisation, nothing but the checksum.
  for (const [at, length] of [
    [0, 16],
    [28, 15],
    [24, 1],
  ] as const) {
    await writeFile(name, Buffer.from(content).fill(0, at, at + length));
    const otherMs = Date.now() - 3_600_000;
    expect(await log.eraseDeadLetters(orgIdOf, new Map([["other", otherMs]]))).toBe(0);
    expect(
      await log.eraseDeadLetters(
        orgIdOf,
        new Map([
          ["other", otherMs],
          ["gone", Date.now()],
        ]),
      ),
    ).toBe(at === 0 ? 2 : 1);
  }
  expect((await readdir(join(folder, "dead-letters"))).map((file) => join(folder, "dead-letters", file))).toEqual([kept]);
});

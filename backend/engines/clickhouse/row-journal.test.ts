import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { readSegments } from "../append-log/append-log.ts";
import { entryOf, type JournalEntry, type RecoveredEntry, RowJournal } from "./row-journal.ts";

function entry(number: number, bodyHash: string | undefined = `${number}`): JournalEntry {
  const bytes = new Uint8Array(40).fill(number);
  return {
    orgId: "org",
    hostId: `host-${number}`,
    bodyHash,
    day: 20_000,
    columnsId: 7,
    rows: { count: 2, bytes, streamLengths: [30, 10] },
  };
}

function newFolder(): string {
  const folder = temporaryFolder();
  onTestFinished(() => folder[Symbol.dispose]());
  return join(folder.path, "journal");
}

async function recovered(journal: RowJournal): Promise<RecoveredEntry[]> {
  return (await Array.fromAsync(journal.recovered(), ({ entries }) => entries)).flat();
}

/** The hosts of the entries on disk. */
async function hosts(folder: string): Promise<string[]> {
  return (await Array.fromAsync(readSegments(folder))).flatMap(({ records }) => records.map((record) => entryOf(record).hostId));
}

it("recovers the entries of an earlier process once, and keeps each segment until all of them are settled", async () => {
  const folder = newFolder();
  {
    await using earlier = new RowJournal(folder);
    await Promise.all([earlier.append(entry(1)), earlier.append(entry(2, ""))]);
  }
  await using journal = new RowJournal(folder);
  const journaled = await journal.append(entry(3));
  const [first, second, ...others] = await recovered(journal);
  for (const [found, expected] of [
    [first, entry(1)],
    [second, entry(2, "")],
  ] as const)
    expect({ ...found?.entry, rows: { ...found?.entry.rows, bytes: new Uint8Array(found?.entry.rows.bytes ?? []) } }).toEqual(expected);
  expect([others, await recovered(journal)]).toEqual([[], []]);
  await expect.poll(() => hosts(folder)).toEqual(["host-3", "host-1", "host-2"]);
  first?.journaled.settle();
  second?.journaled.settle();
  journaled.settle();
});

it("writes the entries of an earlier process again, because they may be only in the page cache", async () => {
  const folder = newFolder();
  {
    await using earlier = new RowJournal(folder);
    await earlier.append(entry(1));
  }
  let syncs = 0;
  await using journal = new RowJournal(folder, { sync: async () => void (syncs += 1) });
  await recovered(journal);
  expect(syncs).toBe(1);
  await expect.poll(() => hosts(folder)).toEqual(["host-1"]);
});

it("writes the entries of an earlier process again when the disk takes them again, a second after it failed", async () => {
  const folder = newFolder();
  {
    await using earlier = new RowJournal(folder);
    await earlier.append(entry(1));
  }
  let syncs = 0;
  const sync = async (): Promise<void> => {
    if ((syncs += 1) === 1) throw new Error("EIO");
  };
  await using journal = new RowJournal(folder, { sync });
  const [found] = await recovered(journal);
  expect(syncs).toBe(2);
  found?.journaled.settle();
});

it("keeps the entries of an earlier process where they are if they cannot be written again", async () => {
  const folder = newFolder();
  {
    await using earlier = new RowJournal(folder);
    await earlier.append(entry(1));
  }
  await using journal = new RowJournal(folder, { sync: () => Promise.reject(new Error("EIO")) });
  const [found] = await recovered(journal);
  expect(found?.entry.hostId).toBe("host-1");
  await expect.poll(() => hosts(folder)).toEqual(["host-1"]);
  found?.journaled.settle();
  await expect.poll(() => hosts(folder)).toEqual([]);
});

import { join } from "node:path";
import { expect, it, onTestFinished } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { type JournalEntry, type RecoveredEntry, RowJournal } from "./row-journal.ts";

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
  const hosts = async () => (await recovered(new RowJournal(folder))).map((one) => one.entry.hostId);
  first?.journaled.settle();
  expect(await hosts()).toEqual(["host-1", "host-2", "host-3"]);
  second?.journaled.settle();
  await expect.poll(hosts).toEqual(["host-3"]);
  journaled.settle();
});

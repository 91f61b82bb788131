import { readdirSync, truncateSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { type Segment, LogFullError } from "../append-log/append-log.ts";
import { WriteJournal } from "./journal.ts";

/** Replays the journal as after a crash of the engine. */
async function replayed(journal: WriteJournal): Promise<string[]> {
  const writes: string[] = [];
  journal.engineCrashed();
  await journal.replay(async (path, body) => void writes.push(`${path} ${body.toString()}`));
  return writes;
}

const append = (journal: WriteJournal, body: string) => journal.append("/import?x=ü", Buffer.from(body));

const segmentNames = (folder: string) => readdirSync(folder).filter((name) => name.endsWith(".journal"));

test("replays whole writes in order, also in the next process", async () => {
  using folder = temporaryFolder();
  const journal = new WriteJournal(folder.path);
  await Promise.all([append(journal, "one\n1"), append(journal, ""), append(journal, '{"path":"/","bytes":3}\ntwo')]);
  const all = ["/import?x=ü one\n1", "/import?x=ü ", '/import?x=ü {"path":"/","bytes":3}\ntwo'];
  expect(await replayed(journal)).toEqual(all);
  await append(journal, "later");
  const next = new WriteJournal(folder.path);
  expect(next.isReplayPending).toBe(true);
  expect(await replayed(next)).toEqual([...all, "/import?x=ü later"]);
});

test("removes writes fifteen seconds after their segment was closed or replayed, not earlier", async () => {
  using folder = temporaryFolder();
  let now = 0;
  const journal = new WriteJournal(folder.path, { calls: { nowMs: () => now } });
  await append(journal, "old");
  now = 6000; // This write closes the first segment.
  await append(journal, "newer");
  now = 20_000;
  await append(journal, "newest");
  expect(await replayed(journal)).toEqual(["/import?x=ü old", "/import?x=ü newer", "/import?x=ü newest"]);
  now = 34_000;
  await append(journal, "after the replay");
  expect(await replayed(journal)).toHaveLength(4);
  now = 60_000;
  await append(journal, "much later");
  await expect.poll(() => segmentNames(folder.path)).toHaveLength(1);
});

test("replays a segment that a crash truncated up to its last whole write, reports it, and replays the others", async () => {
  using folder = temporaryFolder();
  let now = 0;
  const journal = new WriteJournal(folder.path, { calls: { nowMs: () => now } });
  await append(journal, "whole");
  await append(journal, "cut off");
  now = 10_000;
  await append(journal, "in the next file");
  const first = join(folder.path, segmentNames(folder.path).sort()[0] ?? "");
  truncateSync(first, readFileSync(first).length - 3);
  const damaged: [string, boolean][] = [];
  const onDamage = ({ path }: Segment, { tornBytes }: { tornBytes: number }) => void damaged.push([path, tornBytes > 0]);
  const next = new WriteJournal(folder.path, { onDamage });
  const writes: string[] = [];
  await next.replay(async (path, body) => void writes.push(`${path} ${body.toString()}`));
  expect(writes).toEqual(["/import?x=ü whole", "/import?x=ü in the next file"]);
  expect(damaged).toEqual([[first, true]]);
});

test("keeps writes that an engine does not accept, however long that takes and whatever is written meanwhile", async () => {
  using folder = temporaryFolder();
  let now = 0;
  const journal = new WriteJournal(folder.path, { calls: { nowMs: () => now } });
  await append(journal, "pending");
  journal.engineCrashed();
  const refuse = async () => {
    throw new Error("the disk is full");
  };
  for (let attempt = 0; attempt < 10; attempt++) {
    await expect(journal.replay(refuse)).rejects.toThrow("the disk is full");
    now += 20_000;
    await append(journal, `during attempt ${attempt}`);
  }
  expect(journal.isReplayPending).toBe(true);
  const writes: string[] = [];
  await journal.replay(async (_path, body) => void writes.push(body.toString()));
  expect([writes, journal.isReplayPending]).toEqual([["pending"], false]);
  await journal.replay(refuse);
  now += 20_000;
  await append(journal, "later");
  await expect.poll(() => segmentNames(folder.path)).not.toContain("0000000000.journal");
});

test("replays a segment again if the engine crashes during its replay", async () => {
  using folder = temporaryFolder();
  const journal = new WriteJournal(folder.path);
  await append(journal, "one");
  journal.engineCrashed();
  await expect(journal.replay(async () => journal.engineCrashed())).rejects.toThrow("crashed during");
  expect(journal.isReplayPending).toBe(true);
});

test("rejects writes above its limit without removing any, and accepts writes after a replay", async () => {
  using folder = temporaryFolder();
  let now = 0;
  const journal = new WriteJournal(folder.path, { calls: { nowMs: () => now }, maxBytes: 1000 });
  await append(journal, "x".repeat(400));
  journal.engineCrashed();
  await append(journal, "y".repeat(400));
  for (let attempt = 0; attempt < 5; attempt++) {
    await expect(append(journal, "z".repeat(400))).rejects.toThrow(LogFullError);
    now += 3000;
  }
  expect((await replayed(journal)).map((write) => write.at(-1))).toEqual(["x", "y"]);
  now += 16_000;
  await append(journal, "z".repeat(400));
  expect((await replayed(journal)).map((write) => write.at(-1))).toEqual(["z"]);
});

test("replays writes that waited for the disk when the engine crashed", async () => {
  using folder = temporaryFolder();
  const synced = Promise.withResolvers<void>();
  let syncs = 0;
  const sync = () => ((syncs += 1), syncs === 1 ? synced.promise : Promise.resolve());
  const journal = new WriteJournal(folder.path, { calls: { sync } });
  const writing = append(journal, "being synced");
  await expect.poll(() => syncs).toBe(1);
  const waiting = append(journal, "waiting");
  journal.engineCrashed();
  const after = append(journal, "after the crash");
  expect(journal.isReplayPending).toBe(true);
  const writes: string[] = [];
  const replay = journal.replay(async (_path, body) => void writes.push(body.toString()));
  synced.resolve();
  await Promise.all([writing, waiting, after, replay]);
  expect(writes.slice(0, 2)).toEqual(["being synced", "waiting"]);
  expect(journal.isReplayPending).toBe(false);
});

test("leaves no write after an orderly stop", async () => {
  using folder = temporaryFolder();
  const journal = new WriteJournal(folder.path);
  await append(journal, "x");
  await journal[Symbol.asyncDispose]();
  await journal.clear();
  expect(segmentNames(folder.path)).toEqual([]);
});

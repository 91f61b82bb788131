import { readdirSync, readFileSync, truncateSync, writeFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { expect, test, vi } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { JournalFullError, WriteJournal } from "./journal.ts";

/** What an engine that has died now is given. */
async function replayed(journal: WriteJournal): Promise<string[]> {
  const writes: string[] = [];
  journal.engineDied();
  await journal.replay(async (path, body) => void writes.push(`${path} ${body.toString()}`));
  return writes;
}

const append = (journal: WriteJournal, body: string) => journal.append("/import?x=ü", Buffer.from(body));

test("what was appended is replayed whole and in order, also by the next process", async () => {
  using folder = temporaryFolder();
  const journal = new WriteJournal(folder.path);
  await Promise.all([append(journal, "one\n1"), append(journal, ""), append(journal, '{"path":"/","bytes":3}\ntwo')]);
  const all = ["/import?x=ü one\n1", "/import?x=ü ", '/import?x=ü {"path":"/","bytes":3}\ntwo'];
  expect(await replayed(journal)).toEqual(all);
  await append(journal, "later");
  const next = new WriteJournal(folder.path);
  expect(await replayed(next)).toEqual([...all, "/import?x=ü later"]);
});

test("a write that the disk cuts short fails, with those behind it in the file; what is taken afterwards is replayed", async () => {
  using folder = temporaryFolder();
  // A disk without room for the second write.
  const full = async (fd: number, buffers: readonly Uint8Array[], position: number) => {
    const bytes = Buffer.concat(buffers);
    const taken = bytes.includes("too much") ? 10 : bytes.length;
    return { bytesWritten: writeSync(fd, bytes, 0, taken, position) };
  };
  const journal = new WriteJournal(folder.path, { write: full });
  const outcomes = await Promise.allSettled([append(journal, "before"), append(journal, "too much"), append(journal, "behind")]);
  expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected", "rejected"]);
  await append(journal, "after");
  const kept = await replayed(new WriteJournal(folder.path));
  expect([kept.at(0), kept.at(-1)]).toEqual(["/import?x=ü before", "/import?x=ü after"]);
});

test("writes are forgotten fifteen seconds after their file was closed, not earlier, and replaying starts that time anew", async () => {
  using folder = temporaryFolder();
  let now = 0;
  const journal = new WriteJournal(folder.path, { now: () => now });
  await append(journal, "old");
  now = 6000; // The first file is closed by this write.
  await append(journal, "newer");
  now = 20_000;
  await append(journal, "newest");
  expect(await replayed(journal)).toEqual(["/import?x=ü old", "/import?x=ü newer", "/import?x=ü newest"]);
  now = 34_000;
  await append(journal, "after the replay");
  expect(await replayed(journal)).toHaveLength(4);
  now = 60_000;
  await append(journal, "much later");
  await vi.waitFor(() => expect(readdirSync(folder.path)).toHaveLength(1));
});

test("a record cut off by a crash ends its file, and the others are replayed", async () => {
  using folder = temporaryFolder();
  let now = 0;
  const journal = new WriteJournal(folder.path, { now: () => now });
  await append(journal, "whole");
  await append(journal, "cut off");
  now = 10_000;
  await append(journal, "in the next file");
  const [first = ""] = readdirSync(folder.path).sort();
  truncateSync(join(folder.path, first), readFileSync(join(folder.path, first)).length - 3);
  writeFileSync(join(folder.path, "notes.txt"), "not ours");
  expect(await replayed(new WriteJournal(folder.path))).toEqual(["/import?x=ü whole", "/import?x=ü in the next file"]);
});

test("what a replay could not give is kept for the next one, however long that takes and whatever is written meanwhile", async () => {
  using folder = temporaryFolder();
  let now = 0;
  const journal = new WriteJournal(folder.path, { now: () => now });
  await append(journal, "owed");
  journal.engineDied();
  const refuse = async () => {
    throw new Error("the disk is full");
  };
  for (let attempt = 0; attempt < 10; attempt++) {
    await expect(journal.replay(refuse)).rejects.toThrow("the disk is full");
    now += 20_000;
    await append(journal, `refused ${attempt}`);
  }
  expect(journal.owes).toBe(true);
  const writes: string[] = [];
  await journal.replay(async (_path, body) => void writes.push(body.toString()));
  expect([writes, journal.owes]).toEqual([["owed"], false]);
  await journal.replay(refuse);
  now += 20_000;
  await append(journal, "later");
  await vi.waitFor(() => expect(readdirSync(folder.path)).not.toContain("0000000000.journal"));
});

test("an engine that dies while it is given a file is given that file again", async () => {
  using folder = temporaryFolder();
  const journal = new WriteJournal(folder.path);
  await append(journal, "one");
  journal.engineDied();
  await expect(journal.replay(async () => journal.engineDied())).rejects.toThrow("died while");
  expect(journal.owes).toBe(true);
});

test("above its bound writes are refused and nothing is forgotten; when the engine has taken what it is owed, writes are taken again", async () => {
  using folder = temporaryFolder();
  let now = 0;
  const journal = new WriteJournal(folder.path, { now: () => now, maxBytes: 1000 });
  await append(journal, "x".repeat(400));
  journal.engineDied();
  await append(journal, "y".repeat(400));
  for (let attempt = 0; attempt < 5; attempt++) {
    await expect(append(journal, "z".repeat(400))).rejects.toThrow(JournalFullError);
    now += 3000;
  }
  expect((await replayed(journal)).map((write) => write.at(-1))).toEqual(["x", "y"]);
  now += 16_000;
  await append(journal, "z".repeat(400));
  expect((await replayed(journal)).map((write) => write.at(-1))).toEqual(["z"]);
});

test("a write is answered when an fsync that began after it is over, not earlier", async () => {
  using folder = temporaryFolder();
  const fsyncs: PromiseWithResolvers<void>[] = [];
  const sync = () => {
    const fsync = Promise.withResolvers<void>();
    fsyncs.push(fsync);
    return fsync.promise;
  };
  const journal = new WriteJournal(folder.path, { sync });
  let isAnswered = false;
  const first = append(journal, "first");
  await vi.waitFor(() => expect(fsyncs).toHaveLength(1));
  const meanwhile = append(journal, "meanwhile").then(() => (isAnswered = true));
  fsyncs[0]?.resolve();
  await first;
  await vi.waitFor(() => expect(fsyncs).toHaveLength(2));
  expect(isAnswered).toBe(false);
  fsyncs[1]?.resolve();
  await meanwhile;
});

test("a write that a disk could not sync fails, with those that came meanwhile; the next one begins a new file", async () => {
  using folder = temporaryFolder();
  let fails = false;
  const sync = async () => {
    if (fails) throw new Error("EIO");
  };
  const journal = new WriteJournal(folder.path, { sync });
  await append(journal, "before");
  fails = true;
  const outcomes = await Promise.allSettled([append(journal, "lost"), append(journal, "lost as well")]);
  expect(outcomes.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  fails = false;
  await append(journal, "after");
  expect(readdirSync(folder.path)).toHaveLength(2);
  const kept = await replayed(new WriteJournal(folder.path));
  expect([kept.at(0), kept.at(-1)]).toEqual(["/import?x=ü before", "/import?x=ü after"]);
});

test("told not to, it waits for no fsync", async () => {
  using folder = temporaryFolder();
  const sync = () => Promise.reject(new Error("there is none"));
  const journal = new WriteJournal(folder.path, { sync, isSynced: false });
  await append(journal, "one");
  expect(await replayed(journal)).toEqual(["/import?x=ü one"]);
});

test("a write that is under way when the replay starts is part of it", async () => {
  using folder = temporaryFolder();
  const journal = new WriteJournal(folder.path);
  const writing = journal.append("/import", Buffer.alloc(8 * 1024 * 1024, "x"));
  const sizes: number[] = [];
  journal.engineDied();
  await journal.replay(async (_path, body) => void sizes.push(body.length));
  await writing;
  expect(sizes).toEqual([8 * 1024 * 1024]);
});

test("after an orderly stop nothing is left", async () => {
  using folder = temporaryFolder();
  const journal = new WriteJournal(folder.path);
  await append(journal, "x");
  await journal[Symbol.asyncDispose]();
  await journal.clear();
  expect(readdirSync(folder.path)).toEqual([]);
});

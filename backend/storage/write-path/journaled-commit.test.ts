import { mkdir, readdir, readFile, rm, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setImmediate } from "node:timers/promises";
import { pino } from "pino";
import { expect, it, onTestFinished, vi } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { ApiError } from "../../errors.ts";
import type { ClickHouse } from "../../engines/clickhouse/clickhouse-client.ts";
import { GroupCommit } from "./group-commit.ts";
import { JournaledCommit, type JournaledCommitOptions } from "./journaled-commit.ts";
import { PendingRows } from "../../engines/clickhouse/pending-rows.ts";
import { entryOf, type JournalEntry, RowJournal } from "../../engines/clickhouse/row-journal.ts";
import type { LogCalls } from "../../engines/append-log/append-log.ts";
import { decodeRecords } from "../../engines/append-log/record.ts";
import { stub } from "../../../test/fixtures/stub.ts";

const MIB = 1024 * 1024;
const AWAY = new ApiError("storage_unavailable", "away");
/** Rows are committed a second after the first of them, so tests that add several do not wait for a disk. */
const NO_DISK_WAIT = { sync: () => Promise.resolve() };
const REFUSED = new ApiError("unstorable", "no");

/** Rows whose only byte that counts is their number. */
function entry(number: number, orgId = "org", size = 40): JournalEntry {
  const bytes = new Uint8Array(size).fill(number);
  return { orgId, hostId: "host", bodyHash: `${number}`, day: 1, columnsId: 7, rows: { count: 1, bytes, streamLengths: [size] } };
}

/** A fake engine that fails on request; `table` is what it stores. */
function opened(options: Partial<JournaledCommitOptions> & { calls?: Partial<LogCalls>; folder?: string } = {}) {
  const { calls, folder = ownFolder(), ...rest } = options;
  const table: number[] = [];
  const inserts: number[][] = [];
  const engine: { insert: (numbers: number[]) => void | Promise<void> } = { insert: () => undefined };
  const clickhouse = stub<ClickHouse>({
    insert: async ({ rows }: { rows: readonly { bytes: Uint8Array }[] }) => {
      const numbers = rows.map(({ bytes }) => bytes[0] ?? -1);
      inserts.push(numbers);
      await setImmediate();
      await engine.insert(numbers);
      table.push(...numbers);
    },
  });
  const journal = new RowJournal(folder, calls);
  const commits: string[] = [];
  const lines: Record<string, unknown>[] = [];
  const commit = new JournaledCommit({
    table: "logs",
    columnsId: 7,
    journal,
    commit: new GroupCommit({ clickhouse, table: "logs", columns: [] }),
    log: pino({}, { write: (line) => void lines.push(JSON.parse(line) as Record<string, unknown>) }),
    findStored: async (entries) => new Set(entries.filter(({ rows }) => table.includes(rows.bytes[0] ?? -1))),
    onStored: (orgId) => void commits.push(orgId),
    backoffMs: [1, 5],
    ...rest,
  });
  const close = async (): Promise<void> => {
    await commit[Symbol.asyncDispose]();
    await journal[Symbol.asyncDispose]();
  };
  return { commit, journal, table, inserts, engine, commits, lines, folder, close, [Symbol.asyncDispose]: close };
}

function ownFolder(): string {
  const folder = temporaryFolder();
  onTestFinished(() => folder[Symbol.dispose]());
  return folder.path;
}

async function journalFiles(folder: string): Promise<string[]> {
  return (await readdir(folder)).filter((name) => name.endsWith(".journal"));
}

function entriesIn(content: NonSharedBuffer): JournalEntry[] {
  return decodeRecords(content, undefined).records.map(entryOf);
}

/** What a process after a crash would find. */
async function kept(folder: string): Promise<(number | undefined)[]> {
  const names = await journalFiles(folder);
  // One may be removed meanwhile.
  const contents = await Promise.all(names.map((name) => readFile(join(folder, name)).catch(() => Buffer.alloc(0))));
  return contents.flatMap((content) => entriesIn(content).map(({ rows }) => rows.bytes[0]));
}

it("acknowledges once the rows are in the journal, and commits those within a moment together", async () => {
  await using store = opened({ calls: NO_DISK_WAIT });
  for (const number of [1, 2, 3]) await store.commit.add(entry(number));
  expect([store.inserts, store.commits]).toEqual([[], ["org", "org", "org"]]);
  expect(await kept(store.folder)).toEqual([1, 2, 3]);
  await expect.poll(() => store.inserts).toEqual([[1, 2, 3]]);
  await expect.poll(() => store.commits).toHaveLength(6);
  expect(store.commit.bytes).toBe(0);
});

it("commits immediately what an organisation reads, also while others wait, and does not wait if nothing is pending", async () => {
  await using store = opened({ calls: NO_DISK_WAIT });
  await store.commit.add(entry(1));
  await store.commit.add(entry(2, "other"));
  await store.commit.flush("third");
  expect(store.inserts).toEqual([]);
  await store.commit.flush("other");
  expect(store.table).toEqual([1, 2]);
});

it("waits for the commit of large rows and rows above the limit, with the acknowledged ones", async () => {
  await using store = opened({ calls: NO_DISK_WAIT, maxPendingBytes: 110 });
  await store.commit.add(entry(1));
  await store.commit.add(entry(2));
  expect(store.table).toEqual([]);
  await store.commit.add(entry(3));
  expect(store.table).toEqual([1, 2, 3]);
  await store.commit.add(entry(4));
  await store.commit.add(entry(5, "org", 2 * MIB));
  expect(store.table).toEqual([1, 2, 3, 4, 5]);
  expect(store.commit.bytes).toBe(0);
});

it.each([
  ["fails before it stores", false],
  ["stores, and then fails", true],
])("replays rows to an engine that %s, until each is stored once; readers do not wait for that", async (_, isStored) => {
  await using store = opened();
  let failures = 3;
  store.engine.insert = (numbers) => {
    if (failures === 0) return;
    failures -= 1;
    if (isStored) store.table.push(...numbers);
    throw AWAY;
  };
  for (const number of [1, 2]) await store.commit.add(entry(number));
  await store.commit.flush();
  expect(store.commit.failingMs).toBeTypeOf("number");
  await store.commit.add(entry(3));
  expect(await kept(store.folder)).toEqual([1, 2, 3]);
  await expect.poll(() => store.commit.bytes).toBe(0);
  await expect.poll(() => store.commit.failingMs).toBeUndefined();
  expect(store.table.toSorted((a, b) => a - b)).toEqual([1, 2, 3]);
  expect(store.commits).toHaveLength(6);
  const events = store.lines.map(({ event }) => event);
  expect([events[0], events.at(-1)]).toEqual(["journal.engine_unavailable", "journal.engine_recovered"]);
});

it("reports for how long the engine has not accepted rows, even if the clock is changed", async () => {
  await using store = opened({ backoffMs: [60_000, 60_000] });
  const pending = new PendingRows(store.folder, pino({ level: "silent" }));
  pending.add(store.commit);
  store.engine.insert = () => Promise.reject(AWAY);
  await store.commit.add(entry(1));
  await store.commit.flush();
  const setClock = vi.spyOn(Date, "now").mockReturnValue(Date.now() + 3_600_000);
  onTestFinished(() => setClock.mockRestore());
  expect(pending.failingSeconds).toBeLessThan(60);
  setClock.mockReturnValue(0);
  expect(pending.failingSeconds).toBeGreaterThan(0);
  store.engine.insert = () => undefined;
});

it("rejects rows above the limit while the engine is unavailable, and loses no acknowledged ones", async () => {
  const store = opened({ maxPendingBytes: 110 });
  store.engine.insert = () => Promise.reject(AWAY);
  for (const number of [1, 2]) await store.commit.add(entry(number));
  await expect(store.commit.add(entry(3))).rejects.toBe(AWAY);
  await store.close();
  expect(store.lines.at(-1)).toMatchObject({ event: "journal.rows_kept", bodies: 2 });
  expect(await kept(store.folder)).toEqual([1, 2]);
  await using next = opened({ folder: store.folder });
  expect((await next.commit.recover()).map(({ bodyHash }) => bodyHash)).toEqual(["1", "2"]);
  expect(next.table).toEqual([1, 2]);
  await expect.poll(() => kept(store.folder)).toEqual([]);
});

it("leaves space for others while the engine is unavailable, whatever one organisation sends, and reports lost rows", async () => {
  const store = opened({ maxPendingBytes: 10_000 });
  store.engine.insert = () => Promise.reject(AWAY);
  /** Writes until the first refusal. Returns how many were accepted. */
  const fill = async (orgId: string): Promise<number> => {
    for (let taken = 0; ; taken++) {
      const isTaken = await store.commit.add(entry(taken, orgId, 100)).then(
        () => true,
        (error: unknown) => expect(error).toBe(AWAY),
      );
      if (isTaken !== true) return taken;
    }
  };
  const taken = [];
  for (const orgId of ["loud", "second", "third", "loud", "quiet"]) taken.push(await fill(orgId));
  expect(taken).toEqual([75, 18, 5, 0, 1]);
  expect(store.commit.bytes).toBeLessThanOrEqual(10_000);
  store.engine.insert = () => undefined;
  await expect.poll(() => store.commit.bytes).toBe(0);
  await store.commit.add(entry(1, "loud", 7000));
  expect(store.commit.bytes).toBe(7000);
  await store.close();
});

it("moves rows that the engine permanently rejects to a file that the log names, and stores the others", async () => {
  await using store = opened();
  store.engine.insert = (numbers) => {
    if (numbers.includes(5)) throw REFUSED;
  };
  for (let number = 0; number < 9; number++) await store.commit.add(entry(number));
  await store.commit.flush();
  await expect.poll(() => store.commit.deadLetters).toBe(1);
  expect(store.table).toEqual([0, 1, 2, 3, 4, 6, 7, 8]);
  expect(store.commit.failingMs).toBeUndefined();
  const { file, orgId, rows } = store.lines[0] ?? {};
  expect({ orgId, rows }).toEqual({ orgId: "org", rows: 1 });
  expect(entriesIn(await readFile(String(file)))).toMatchObject([{ orgId: "org", bodyHash: "5" }]);
  expect(store.commit.bytes).toBe(0);
});

it("drops, counts and logs rows that the engine permanently rejects if dead letters are full", async () => {
  const folder = ownFolder();
  await mkdir(join(folder, "dead-letters"));
  await writeFile(join(folder, "dead-letters", "old.record"), "");
  await truncate(join(folder, "dead-letters", "old.record"), 128 * MIB);
  await using store = opened({ folder });
  store.engine.insert = (numbers) => {
    if (numbers.includes(5)) throw REFUSED;
  };
  for (const number of [4, 5]) await store.commit.add(entry(number));
  await store.commit.flush();
  await expect.poll(() => store.commit.dropped).toBe(1);
  expect([store.table, store.commit.deadLetters, await kept(folder)]).toEqual([[4], 1, [4, 5]]);
  expect(store.lines).toMatchObject([{ level: 50, rows: 1, msg: expect.stringContaining("dead letters are full") }]);
});

it("acknowledges after the commit if the journal is not writable, and fails without a trace if that fails too", async () => {
  const full = Object.assign(new Error("ENOSPC: no space left on device"), { code: "ENOSPC" });
  await using store = opened({ calls: { write: () => Promise.reject(full) } });
  await store.commit.add(entry(1));
  expect(store.table).toEqual([1]);
  store.engine.insert = () => Promise.reject(AWAY);
  await expect(store.commit.add(entry(2))).rejects.toBe(AWAY);
  expect([store.commit.bytes, await kept(store.folder)]).toEqual([0, []]);
  expect(store.lines.map(({ event }) => event)).toEqual(["journal.write_failed"]);
});

it("leaves an empty journal after an orderly stop, which does not wait for more", async () => {
  const store = opened();
  const adding = [1, 2, 3].map((number) => store.commit.add(entry(number)));
  await store.close();
  await Promise.all(adding);
  expect([store.table, store.lines]).toEqual([[1, 2, 3], []]);
  await expect.poll(() => journalFiles(store.folder)).toEqual([]);
});

it("continues to replay rows that an engine did not accept at the start", async () => {
  const store = opened();
  for (const number of [1, 2]) await store.commit.add(entry(number));
  const next = opened({ folder: store.folder });
  let isAway = true;
  next.engine.insert = () => {
    if (isAway) throw AWAY;
  };
  expect(await next.commit.recover()).toHaveLength(2);
  await next.commit.add(entry(3));
  isAway = false;
  await expect.poll(() => next.table.toSorted((a, b) => a - b)).toEqual([1, 2, 3]);
  await next.close();
  await store.close();
});

it("stores an entry once that is in two segments, also if the engine fails during the recovery", async () => {
  const first = opened({ calls: NO_DISK_WAIT });
  await first.commit.add(entry(1));
  const second = opened({ folder: first.folder, calls: NO_DISK_WAIT });
  await second.commit.add(entry(1));
  expect(await kept(first.folder)).toEqual([1, 1]);
  await using next = opened({ folder: first.folder, calls: NO_DISK_WAIT });
  let failures = 1;
  next.engine.insert = () => {
    failures -= 1;
    if (failures >= 0) throw AWAY;
  };
  await next.commit.recover();
  await expect.poll(() => next.commit.bytes).toBe(0);
  expect(next.table).toEqual([1]);
  for (const store of [first, second]) await store.close();
});

it("keeps rows of a version with other columns as dead letters, and stores the rest", async () => {
  const store = opened();
  await store.commit.add({ ...entry(1), columnsId: 8 });
  await store.commit.add(entry(2));
  await using next = opened({ folder: store.folder });
  await next.commit.recover();
  expect([next.table, next.commit.deadLetters]).toEqual([[2], 1]);
  expect(entriesIn(await readFile(String(next.lines[0]?.["file"])))).toMatchObject([{ bodyHash: "1", columnsId: 8 }]);
  await store.close();
});

it("finds the rows with which the engine always fails, and stores the others", async () => {
  await using store = opened();
  let isWell = false;
  store.engine.insert = (numbers) => {
    if (numbers.includes(5) && !isWell) throw AWAY;
  };
  await Promise.all(Array.from({ length: 9 }, (_, number) => store.commit.add(entry(number))));
  await store.commit.flush();
  expect(store.table).toEqual([]);
  await expect.poll(() => store.table.toSorted((a, b) => a - b)).toEqual([0, 1, 2, 3, 4, 6, 7, 8]);
  expect(store.commit.failingMs).toBeTypeOf("number");
  isWell = true;
  await expect.poll(() => store.commit.failingMs).toBeUndefined();
  expect([store.table.at(-1), store.table.length, store.commit.bytes]).toEqual([5, 9, 0]);
});

it("stores the undamaged rows on both sides of damage, and logs it", async () => {
  const folder = ownFolder();
  const before = new RowJournal(folder);
  for (const number of [1, 2, 3]) await before.append(entry(number));
  const [name = ""] = await journalFiles(folder);
  const content = await readFile(join(folder, name));
  content[Math.floor(content.length / 2)]! ^= 0xff;
  await writeFile(join(folder, name), content);
  await using next = opened({ folder });
  await next.commit.recover();
  expect(next.table).toEqual([1, 3]);
  const damage = { level: 50, table: "logs", path: join(folder, name), damagedBytes: content.length / 3 };
  const quarantined = expect.stringMatching(/dead-letters.*\.damaged$/);
  expect(next.lines).toContainEqual(
    expect.objectContaining({ ...damage, quarantined, msg: expect.stringContaining("a copy is quarantined") }),
  );
  await before[Symbol.asyncDispose]();
});

it("sends no rows with other columns to an engine, even while they cannot be stored as dead letters", async () => {
  const store = opened();
  await store.commit.add({ ...entry(1), columnsId: 8 });
  await using next = opened({ folder: store.folder });
  const refused = join(store.folder, "dead-letters");
  await rm(refused, { recursive: true });
  await next.commit.recover();
  await next.commit.add(entry(2));
  await expect.poll(() => next.table).toContain(2);
  await mkdir(refused);
  await expect.poll(() => next.commit.deadLetters).toBe(1);
  expect(next.inserts.flat()).not.toContain(1);
  await store.close();
});

it("stores rows of a version with other columns as its own, if the columns are known", async () => {
  const store = opened();
  for (const number of [1, 2]) await store.commit.add({ ...entry(number), columnsId: 8 });
  await using next = opened({ folder: store.folder, convert: (entry) => ({ ...entry, columnsId: 7 }) });
  await next.commit.recover();
  expect([next.table, next.commit.deadLetters]).toEqual([[1, 2], 0]);
  await store.close();
});

it("keeps both entries of a body until the table has it, because the first one may not survive a power cut", async () => {
  const folder = ownFolder();
  for (let copy = 0; copy < 2; copy += 1) {
    await using earlier = new RowJournal(folder);
    await earlier.append(entry(1));
  }
  const findStored = async (entries: readonly JournalEntry[]): Promise<Set<JournalEntry>> =>
    new Set(entries.slice(store.table.includes(1) ? 0 : 1));
  await using store = opened({ folder, calls: { sync: () => Promise.reject(new Error("EIO")) }, findStored });
  store.engine.insert = () => {
    throw AWAY;
  };
  await store.commit.recover();
  await expect.poll(() => store.inserts.length).toBeGreaterThan(3);
  expect(await kept(folder)).toEqual([1, 1]);
  store.engine.insert = () => undefined;
  await expect.poll(() => kept(folder)).toEqual([]);
  expect(store.table).toEqual([1]);
});

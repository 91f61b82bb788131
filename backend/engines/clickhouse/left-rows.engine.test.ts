import { appendFile, mkdir, readdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pino } from "pino";
import { expect, it, onTestFinished } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { openClickHouse } from "./clickhouse-client.ts";
import { type JournaledEntry, RowJournal } from "./row-journal.ts";

/** What a start with a server says, where the embedded engine was before. */
async function saidAt(dataDir: string): Promise<Record<string, unknown>[]> {
  const lines: Record<string, unknown>[] = [];
  const log = pino({}, { write: (line) => void lines.push(JSON.parse(line) as Record<string, unknown>) });
  await using _clickhouse = await openClickHouse({ url: "http://127.0.0.1:1/default", dataDir, log });
  return lines;
}

function dataDirOf(): string {
  const folder = temporaryFolder();
  onTestFinished(() => folder[Symbol.dispose]());
  return join(folder.path, "clickhouse");
}

/** Leaves a journal like a killed process; returns the journal of one that has committed everything. */
async function leave(dataDir: string, table: string, counts: readonly number[]): Promise<() => Promise<void>> {
  const journal = new RowJournal(join(dataDir, "journal", table));
  const journaled: JournaledEntry[] = [];
  for (const count of counts) {
    const rows = { count, bytes: new Uint8Array(40), streamLengths: [40] };
    journaled.push(await journal.append({ orgId: "org", hostId: "host", bodyHash: `${count}`, day: 20_000, columnsId: 7, rows }));
  }
  return async () => {
    for (const one of journaled) one.settle();
    await journal[Symbol.asyncDispose]();
  };
}

it("logs at a start with a server how many acknowledged rows the embedded engine's journal has, where, and what to do", async () => {
  const dataDir = dataDirOf();
  const commits = [await leave(dataDir, "logs", [10, 20]), await leave(dataDir, "spans", [3])];
  const files = await readdir(join(dataDir, "journal"), { recursive: true });
  const said = await saidAt(dataDir);
  expect(said).toMatchObject([{ level: 40, folder: join(dataDir, "journal"), bodies: 3, rows: 33 }]);
  expect(said[0]?.["bytes"]).toBeGreaterThan(120);
  expect(said[0]?.["msg"]).toMatch(/start once without CLICKHOUSE_URL/);
  expect(await readdir(join(dataDir, "journal"), { recursive: true })).toEqual(files);
  for (const commit of commits) await commit();
  expect(await saidAt(dataDir)).toEqual([]);
});

it("logs nothing if there was no embedded engine, or only an unacknowledged write", async () => {
  const dataDir = dataDirOf();
  expect(await saidAt(dataDir)).toEqual([]);
  const folder = join(dataDir, "journal", "logs");
  await mkdir(folder, { recursive: true });
  await writeFile(join(dataDir, "journal", "note"), "");
  await appendFile(join(folder, "0000000000.journal"), Buffer.alloc(4096));
  expect(await saidAt(dataDir)).toEqual([]);
});

it("starts with an unreadable journal, and logs it", async () => {
  const dataDir = dataDirOf();
  const file = join(dataDir, "journal", "logs", "0000000000.journal");
  await mkdir(file, { recursive: true });
  expect(await saidAt(dataDir)).toMatchObject([{ level: 40, err: { code: "EISDIR" } }]);
  await rm(file, { recursive: true });
});

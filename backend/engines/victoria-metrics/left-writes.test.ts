import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pino } from "pino";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { WriteJournal } from "./journal.ts";
import { tellLeftWrites } from "./left-writes.ts";

async function saidOf(folder: string): Promise<Record<string, unknown>[]> {
  const lines: Record<string, unknown>[] = [];
  await tellLeftWrites(folder, pino({}, { write: (line) => void lines.push(JSON.parse(line) as Record<string, unknown>) }));
  return lines;
}

it("tells of writes that a killed process left, and of nothing where there are none", async () => {
  using parent = temporaryFolder();
  const folder = join(parent.path, "metrics-journal");
  expect(await saidOf(folder)).toEqual([]);
  const journal = new WriteJournal(folder);
  expect(await saidOf(folder)).toEqual([]);
  await journal.append("/write", Buffer.from("up 1 1"));
  const [said, ...others] = await saidOf(folder);
  expect([said, others]).toMatchObject([{ level: 40, folder, msg: expect.stringContaining("start once without METRICS_WRITE_URL") }, []]);
  expect(said?.["bytes"]).toBeGreaterThan(6);
  await journal.clear();
  expect(await saidOf(folder)).toEqual([]);
  await journal[Symbol.asyncDispose]();
});

it("says so where it cannot look", async () => {
  using parent = temporaryFolder();
  const file = join(parent.path, "metrics-journal");
  await writeFile(file, "");
  expect(await saidOf(file)).toMatchObject([{ level: 40, err: { code: "ENOTDIR" } }]);
});

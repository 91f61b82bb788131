import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pino } from "pino";
import { expect, it } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { reportLeftWrites, WriteJournal } from "./journal.ts";

async function logLines(folder: string): Promise<Record<string, unknown>[]> {
  const lines: Record<string, unknown>[] = [];
  await reportLeftWrites(folder, pino({}, { write: (line) => void lines.push(JSON.parse(line) as Record<string, unknown>) }));
  return lines;
}

it("warns of acknowledged writes that a killed process left, and only of those", async () => {
  using parent = temporaryFolder();
  const folder = join(parent.path, "metrics-journal");
  expect(await logLines(folder)).toEqual([]);
  const journal = new WriteJournal(folder);
  expect(await logLines(folder)).toEqual([]);
  await journal.append("/write", Buffer.from("up 1 1"));
  const [line, ...others] = await logLines(folder);
  expect([line, others]).toMatchObject([
    { level: 40, event: "journal.writes_left", folder, writes: 1, msg: expect.stringContaining("start once without METRICS_WRITE_URL") },
    [],
  ]);
  expect(line?.["bytes"]).toBeGreaterThan(6);
  await journal.clear();
  expect(await logLines(folder)).toEqual([]);
  await journal[Symbol.asyncDispose]();
});

it("warns if it cannot read the journal", async () => {
  using parent = temporaryFolder();
  const file = join(parent.path, "metrics-journal");
  await writeFile(file, "");
  expect(await logLines(file)).toMatchObject([{ level: 40, err: { code: "ENOTDIR" } }]);
});

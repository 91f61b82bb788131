import { pino } from "pino";
import { expect, it } from "vitest";
import { PendingRows } from "./pending-rows.ts";

it("commits pending rows that a statement may read, of its organisation only", async () => {
  const pending = new PendingRows("/nowhere", pino({ level: "silent" }));
  const flushed: [string, string | undefined][] = [];
  const tableOf = (table: string, bytes: number, failingMs?: number) => {
    const one = {
      table,
      bytes,
      failingMs,
      deadLetters: 2,
      dropped: 3,
      flush: async (orgId?: string) => void flushed.push([table, orgId]),
    };
    pending.add(one);
    return one;
  };
  tableOf("logs", 0);
  const spans = tableOf("spans", 5);
  tableOf("logs", 7, 60_000);
  for (const statement of ["SELECT 1 FROM logs WHERE 1", "SELECT 1 FROM span_operations", "SELECT 1 FROM catalogs"])
    await pending.flushFor(statement, "org");
  expect(flushed).toEqual([["logs", "org"]]);
  await pending.flushFor("SELECT 1 FROM spans JOIN logs USING trace_id");
  expect(flushed.slice(1)).toEqual([
    ["spans", undefined],
    ["logs", undefined],
  ]);
  expect([pending.sum("bytes"), pending.sum("deadLetters"), pending.sum("dropped"), pending.failingSeconds]).toEqual([12, 6, 9, 60]);
  pending.delete(spans);
  expect(pending.sum("bytes")).toBe(7);
});

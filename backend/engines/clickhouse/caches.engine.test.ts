import { afterAll, expect, test } from "vitest";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { cacheArguments, memoryLimitBytes, openEmbedded } from "./embedded-clickhouse.ts";

const MIB = 1024 * 1024;
const folder = temporaryFolder();
afterAll(() => folder[Symbol.dispose]());

test("the embedded engine's caches follow the memory limit of the process, not the machine's", async () => {
  await using engine = await openEmbedded(folder.path, 4, 1024 * MIB);
  const rows = await engine.query("SELECT name, value FROM system.server_settings WHERE name LIKE '%cache_size' AND changed");
  const bytes = new Map((rows as { name: string; value: string }[]).map(({ name, value }) => [name, Number(value)]));
  expect(bytes.get("mark_cache_size")).toBe(16 * MIB);
  expect([...bytes.keys()].sort()).toEqual([
    "compiled_expression_cache_size",
    "index_mark_cache_size",
    "index_uncompressed_cache_size",
    "mark_cache_size",
    "query_condition_cache_size",
  ]);
});

test("caches use at most a sixteenth of it, and have a minimum in a small one", () => {
  const sizes = (limit: number): number[] => cacheArguments(limit).map((argument) => Number(argument.split("=")[1]));
  for (const gib of [1, 4, 64]) expect(sizes(gib * 1024 * MIB).reduce((sum, size) => sum + size)).toBeLessThan((gib * 1024 * MIB) / 16);
  expect(Math.min(...sizes(64 * MIB))).toBe(8 * MIB);
  expect(memoryLimitBytes()).toBeGreaterThan(64 * MIB);
});

// GET /query/logs/patterns and Loki's patterns on the real engine.
import { afterAll, beforeAll, expect, it } from "vitest";
import { logRecord, nanosecondsOf } from "../../ingest/otlp/otlp-body.fixture.ts";
import { type LogsApp, openLogsApp } from "../../../test/fixtures/logs-app.ts";
import { sql } from "../../engines/clickhouse/sql.ts";
import { findPatterns, mergePatterns } from "./message-patterns.ts";
import { NO_MATCHING } from "./matching.ts";

interface PatternsAnswer {
  readonly records: number;
  readonly sampled_one_of: number;
  readonly patterns: readonly { readonly pattern: string; readonly count: number; readonly example: string }[];
}

const NOW = nanosecondsOf(new Date());
let logs: LogsApp;
beforeAll(async () => {
  logs = await openLogsApp();
});
afterAll(() => logs?.[Symbol.asyncDispose]());

async function patternsOf(orgId: string, query = ""): Promise<PatternsAnswer> {
  const answer = await logs.get(orgId, `/query/logs/patterns?${query}`);
  expect([answer.statusCode, answer.statusCode === 200 ? "" : answer.body]).toEqual([200, ""]);
  return answer.json<PatternsAnswer>();
}

it("replaces numbers, ids, times, addresses, single words, and the end of long messages with placeholders", async () => {
  const messages = [
    "GET /api/items/17 served in 5 ms",
    "GET /api/items/4 served in 12ms",
    "2026-11-25T10:00:00.123Z request 5b8aa5a2-d2c8-4e83-21cf-37308d69df21 from 10.0.0.7:5432 done",
    "2026-11-25T10:00:01.000Z request 0b8aa5a2-d2c8-4e83-21cf-37308d69df21 from 10.0.0.8:80 done",
    "user alice logged in from the office",
    "user bob logged in from the office",
    "cache entry deadbeefcafe evicted",
    "a message\nof two lines 7",
    "überlast: 3 Anfragen",
  ];
  await logs.send(
    "red",
    messages.map((message, n) => logRecord(NOW - BigInt(n), message)),
  );
  await logs.send("blue", [logRecord(NOW, "of another organisation")]);
  const { records, sampled_one_of, patterns } = await patternsOf("red");
  expect([records, sampled_one_of]).toEqual([9, 1]);
  expect(patterns.map(({ pattern, count }) => [count, pattern])).toEqual([
    [2, "<_> request <_> from <_> done"],
    [2, "user <_> logged in from the office"],
    [1, "GET /api/items/<_> served in <_>"],
    [1, "GET /api/items/<_> served in <_> ms"],
    [1, "a message<_>"],
    [1, "cache entry <_> evicted"],
    [1, "überlast: <_> Anfragen"],
  ]);
  expect((await patternsOf("red", "q=cache&limit=1")).patterns).toEqual([
    { pattern: "cache entry <_> evicted", count: 1, example: "cache entry deadbeefcafe evicted" },
  ]);
  expect((await patternsOf("nothing")).patterns).toEqual([]);
});

it("estimates from a sample of many records, with an exact total", async () => {
  const rows = 90_000;
  await logs.clickhouse.command(
    sql`INSERT INTO logs (org_id, time, id, level, source, message) SELECT 'green', fromUnixTimestamp64Nano(toInt64(${NOW}) - toInt64(number) * 30000000, 'UTC'),
      number, 'info', 's', if(number % 3 = 0, concat('order ', toString(number), ' created'), concat('took ', toString(number), ' ms'))
      FROM numbers(${rows})`,
  );
  const { records, sampled_one_of, patterns } = await patternsOf("green");
  expect([records, sampled_one_of, patterns.length]).toEqual([rows, 5, 2]);
  for (const [index, part] of [2 / 3, 1 / 3].entries())
    expect(Math.abs((patterns[index]?.count ?? 0) / (rows * part) - 1)).toBeLessThan(0.1);
});

it("takes no longer for hostile messages than for others", async () => {
  const words = Array.from({ length: 150 }, (_, n) => String.fromCharCode(97 + (n % 26))).join(" ");
  const texts = Array.from({ length: 500 }, (_, n) => `${words.slice(0, 150)} ${"xy ".repeat(n % 40)}${"z".repeat(n)}`);
  await logs.send(
    "grey",
    [...texts, "0".repeat(100_000), "-<_>".repeat(30_000), "a".repeat(1_000_000)].map((text) => logRecord(NOW, text)),
  );
  const { patterns } = await patternsOf("grey", "limit=300");
  expect(patterns.length).toBeGreaterThan(10);
  for (const { pattern } of patterns) expect(pattern.length).toBeLessThan(400);
});

it("counts by interval", async () => {
  const found = await logs.clickhouse.read("red", { labelLimits: undefined }, (ask) =>
    findPatterns(ask, { orgId: "red", conditions: [], matching: NO_MATCHING, range: { start: NOW - 9n, end: NOW }, stepNs: 5n }),
  );
  const counts = found.patterns.flatMap((pattern) => [...pattern.counts]);
  const sum = (stretch: number) => counts.reduce((all, [at, n]) => all + (at === stretch ? n : 0), 0);
  expect([sum(0), sum(1)]).toEqual([4, 5]);
});

it("serves other requests while 300 different texts are compared", async () => {
  const texts = Array.from({ length: 300 }, (_, n) => ({
    pattern: `same ${"x".repeat(n % 17)} ${Array.from({ length: 100 }, (_word, at) => `${n}${at}`).join(" ")}`,
    example: "",
    total: 1,
    cells: [[0, 1]] as const,
  }));
  let turns = 0;
  const count = () => {
    turns += 1;
    next = setImmediate(count);
  };
  let next = setImmediate(count);
  const merged = await mergePatterns(texts, 1);
  clearImmediate(next);
  expect(merged).toHaveLength(300);
  expect(turns).toBeGreaterThanOrEqual(10);
});

// The largest queries that the limits of the language allow: the engine answers each, or the query is refused with a reason.
import { afterAll, beforeAll, expect, test } from "vitest";
import { type LogsApp, openLogsApp } from "../../../../test/fixtures/logs-app.ts";
import { MAX_QUERY_CHARACTERS, parseLogQuery } from "./parse.ts";

let logs: LogsApp;

beforeAll(async () => {
  logs = await openLogsApp();
  await logs.send("org", [{ timeUnixNano: `${Date.now()}000000`, body: { stringValue: "a" } }], []);
});
afterAll(async () => await logs?.[Symbol.asyncDispose]());

const many = (count: number, part: (index: number) => string, between: string): string =>
  Array.from({ length: count }, (_, index) => part(index)).join(between);

const LARGEST: readonly (readonly [name: string, query: string])[] = [
  ["100 words", many(100, (index) => `w${index}`, " OR ")],
  ["100 words that are not there", many(100, (index) => `-w${index}`, " OR ")],
  ["100 values of a label", `a:${many(100, (index) => `v${index}`, ",")}`],
  ["100 values that exist", `a:${many(100, () => "*", ",")}`],
  ["1,500 values of 15 labels", many(15, (index) => `l${index}:${many(100, () => "a", ",")}`, " OR ")],
  ["100 comparisons", many(100, (index) => `d>${index}`, " OR ")],
  ["numbers of odd shape", "d>1. OR d<.5 OR d>=-0 OR d>1e400 OR d<1e-9999 OR d>1e99999999999999999999 OR d>" + "9".repeat(3000)],
  ["20 groups of 4 words", `${many(20, (index) => `(a${index} b${index} OR c${index} OR NOT d${index} OR `, "")}z${")".repeat(20)}`],
  ["a value without an end", `a:${many(99, () => "/a", ",")}`],
  ["only signs", "-".repeat(MAX_QUERY_CHARACTERS - 1)],
  ["NOT without an end", "NOT ".repeat(900)],
  ["open brackets", "(".repeat(MAX_QUERY_CHARACTERS)],
  ["open brackets in a word", `a${"(".repeat(MAX_QUERY_CHARACTERS - 1)}`],
  ["open quotation marks", many(1000, () => 'a:"', " ")],
  ["stars", "*".repeat(MAX_QUERY_CHARACTERS)],
  ["stars between letters", "a*".repeat(MAX_QUERY_CHARACTERS / 2)],
  ["half a character", "a:\ud83d"],
  ["a NUL", "a:\0 \0"],
];

test.each(LARGEST)("%s", async (_name, query) => {
  const cpu = process.threadCpuUsage();
  try {
    parseLogQuery(query);
  } catch {
    // Refused below.
  }
  const { user, system } = process.threadCpuUsage(cpu);
  expect((user + system) / 1000).toBeLessThan(25);
  const answer = await logs.get("org", `/query/logs?query=${encodeURIComponent(query.toWellFormed())}`);
  expect([200, 400], answer.body.slice(0, 300)).toContain(answer.statusCode);
});

// The order of GET /query/logs on the real engine: in both directions, pages neither omit nor repeat a record, also among equal times.
import { afterAll, beforeAll, expect, test } from "vitest";
import { logRecord, nanosecondsOf } from "../../ingest/otlp/otlp-body.fixture.ts";
import { type LogsApp, openLogsApp } from "../../../test/fixtures/logs-app.ts";

const start = new Date(Date.now() - 600_000);
const at = (n: number): bigint => nanosecondsOf(start) + BigInt(n);
const RANGE = `start=${start.toISOString()}`;

let logs: LogsApp;
beforeAll(async () => {
  logs = await openLogsApp();
});
afterAll(() => logs?.[Symbol.asyncDispose]());

/** Messages of all pages, a page as long as `limit` says. */
async function read(orgId: string, query: string, range = `${RANGE}&`): Promise<string[]> {
  const found: string[] = [];
  for (let path: string | undefined = `/query/logs?${range}${query}`; path;) {
    const answer = await logs.get(orgId, path);
    expect([answer.statusCode, answer.statusCode === 200 ? "" : answer.body]).toEqual([200, ""]);
    found.push(...answer.json<{ message: string }[]>().map(({ message }) => message));
    path = /<([^>]+)>; rel="next"/.exec(String(answer.headers.link ?? ""))?.[1];
  }
  return found;
}

test("returns the oldest first on request, in pages in exactly the reverse order", async () => {
  const same = Array.from({ length: 7 }, (_, n) => logRecord(at(5), `same ${n}`));
  await logs.send("red", [logRecord(at(1), "first"), ...same, logRecord(at(9), "last")]);
  await logs.send("blue", [logRecord(at(3), "another's")]);
  const newest = await read("red", "limit=2");
  expect([newest.length, newest[0], newest.at(-1)]).toEqual([9, "last", "first"]);
  for (const query of ["order=newest&limit=3", "order=newest&limit=500"]) expect(await read("red", query)).toEqual(newest);
  for (const query of ["order=oldest&limit=2", "order=oldest&limit=3", "order=oldest&limit=500"])
    expect([query, await read("red", query)]).toEqual([query, newest.toReversed()]);
  expect(await read("red", `order=oldest&limit=1&q=same`)).toEqual(newest.slice(1, -1).toReversed());
});

test("pages of a long range contain the records of every minute and of the future, whether a page is within a minute or not", async () => {
  const MINUTE_NS = 60_000_000_000n;
  const now = nanosecondsOf(new Date());
  const ages = [-2n * MINUTE_NS, 0n, 1n, 2n, MINUTE_NS, 3n * MINUTE_NS, 3n * MINUTE_NS + 1n, 40n * MINUTE_NS, 119n * MINUTE_NS];
  await logs.send(
    "green",
    ages.map((age) => logRecord(now - age, `age ${age}`)),
  );
  const range = `start=${new Date(Date.now() - 7_200_000).toISOString()}&end=${new Date(Date.now() + 3_600_000).toISOString()}`;
  const newest = ages.map((age) => `age ${age}`);
  for (const page of ["limit=1", "limit=2", "limit=3", "limit=500", "limit=2&q=age", "limit=2&regex=^age"]) {
    expect([page, await read("green", `${range}&${page}`, "")]).toEqual([page, newest]);
    expect([page, await read("green", `${range}&${page}&order=oldest`, "")]).toEqual([page, newest.toReversed()]);
  }
});

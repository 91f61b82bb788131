// Regular expressions on the real engine, embedded and over HTTP: how much of a granule they read between two checks of the time limit, and
// that every way of matching finds the same records.
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type BothWays, openBothWays } from "../../engines/clickhouse/both-ways.fixture.ts";
import { migrate } from "../../engines/clickhouse/migrate.ts";
import { sql } from "../../engines/clickhouse/sql.ts";
import { seriesOf } from "../../query/loki/label-queries.ts";
import { BOUNDS, Budget } from "../../query/loki/regex.ts";
import { readSelectorAlone } from "../../query/loki/read-query.ts";
import { matchingOf } from "./matching.ts";
import { MATCHED_BYTES } from "./pattern.ts";
import { ClickHouseLogStore } from "./log-store.ts";

const START_NS = 1_767_225_600_000_000_000n;
const RANGE = { start: START_NS, end: START_NS + 60_000_000_000n };
const MiB = 1024 * 1024;
/** Numbers of all rows and of rows with long messages, which are adjacent, as in a merged part. */
const [ROWS, LONG] = [10_000, 3000];
const WITH_LONG = sql`'org' AS org_id, toDateTime64('2026-01-01 00:00:00', 9, 'UTC') + number / 1000 AS time, number AS id, 'shop' AS source,
  concat(repeat('ab', if(number BETWEEN 4000 AND ${4000 + LONG - 1}, 400, 20)), ' n=', toString(number)) AS message`;
/** Lengths around the limit of short messages, and around the end of the text that expressions read. */
const LENGTHS = [7, 100, 511, 512, 513, 514, 5000, MATCHED_BYTES - 1, MATCHED_BYTES, MATCHED_BYTES + 1, MATCHED_BYTES + 2];

let clients: BothWays;
beforeAll(async () => {
  clients = await openBothWays({ threads: 8 });
  await migrate(clients.embedded, pino({ level: "silent" }));
  // One insert, so that the size of granules is that of all its rows.
  await clients.embedded.command(
    sql`INSERT INTO logs (org_id, time, id, source, message) SETTINGS min_insert_block_size_bytes = 0, max_block_size = 100000
      SELECT ${WITH_LONG} FROM numbers(${ROWS})`,
  );
  for (const [index, length] of LENGTHS.entries())
    await clients.embedded.command(
      sql`INSERT INTO logs (org_id, time, id, level, message, labels) VALUES
        ('ends', toDateTime64('2026-01-01 00:00:00', 9, 'UTC') + ${index}, ${index}, 'info', concat(repeat('x', ${length - 7}), 'stop=42'),
          map('k8s.pod.name', concat(repeat('y', ${length - 7}), 'stop=42')))`,
    );
});
afterAll(() => clients?.[Symbol.asyncDispose]());

/** The engine looks at the clock and at who still waits between blocks only. */
async function largestBlock(way: "embedded" | "http", pattern: string, where = sql`1`): Promise<{ rows: number; of: number }> {
  const { from, matchPattern, blockRows } = matchingOf([pattern]);
  const lines = await clients[way].read("org", { labelLimits: undefined }, (ask) =>
    ask(
      sql`SELECT toFloat64(max(size)) AS rows, toFloat64(count()) AS of FROM (
        SELECT blockSize() AS size FROM ${from} WHERE org_id = 'org' AND ${where} AND ${matchPattern(sql`message`, pattern, true)})`,
      undefined,
      blockRows,
    ),
  );
  return JSON.parse(lines.toString("utf8")) as { rows: number; of: number };
}

const LONG_ONLY = sql`length(message) > 512`;

describe.each(["embedded", "http"] as const)("between two checks of the time limit (%s)", (way) => {
  it("an expensive expression reads a MiB of long messages, whatever their granule contains", async () => {
    const { rows, of } = await largestBlock(way, "b[ab]{40}", LONG_ONLY);
    expect(of).toBe(LONG);
    expect(rows * MATCHED_BYTES).toBeLessThanOrEqual(MiB);
  });

  it("a cheap one reads a granule", async () => {
    const { rows, of } = await largestBlock(way, "b[ab]", LONG_ONLY);
    expect(of).toBe(LONG);
    expect(rows).toBeLessThanOrEqual(2048);
  });
});

it("drops short messages without a match of an expensive expression before they are split into blocks", async () => {
  const { from, matchPattern } = matchingOf(["b[ab]{40}z"]);
  const plan = await clients.embedded.query<{ explain: string }>(
    sql`EXPLAIN actions = 1 SELECT id FROM ${from} WHERE org_id = 'org' AND ${matchPattern(sql`message`, "b[ab]{40}z", true)} ORDER BY logs.time DESC, id DESC LIMIT 100`,
  );
  const text = plan.map(({ explain }) => explain).join("\n");
  const [above = "", below = ""] = text.split("ARRAY JOIN [1]");
  expect([above, below].map((half) => half.includes("substring(message, 1, 512)"))).toEqual([false, true]);
  expect([above, below].map((half) => half.includes(`65536), 'b[ab]{40}z')`))).toEqual([true, false]);
  expect(below).toContain("InReverseOrder");
});

/** The same to be found, by an expression of few parts and by one of many. */
const CHEAP = String.raw`stop=\d\d`;
const COSTLY = String.raw`stop=\d\d(?:.{0,20}|[^x]{7}y)`;

describe("cheap and expensive expressions find the same", () => {
  const read = async (filter: object): Promise<number[]> => {
    const store = await ClickHouseLogStore.open(clients.embedded);
    const found = await store.query("ends", { range: RANGE, limit: 100, after: undefined, labels: [], ...filter });
    return JSON.parse(found.json.toString("utf8")).map(({ message }: { message: string }) => message.length);
  };
  const seen = LENGTHS.filter((length) => length <= MATCHED_BYTES).toReversed();
  const unseen = LENGTHS.filter((length) => length > MATCHED_BYTES).toReversed();

  it.each([CHEAP, COSTLY])("records, counts and fields: %s", async (pattern) => {
    expect(await read({ regex: [pattern] })).toEqual(seen);
    expect(await read({ notRegex: [pattern] })).toEqual(unseen);
    expect(await read({ regex: [pattern], notRegex: ["x".repeat(300)] })).toEqual([100, 7]);
    const store = await ClickHouseLogStore.open(clients.embedded);
    const filter = { range: RANGE, labels: [], regex: [pattern] };
    expect(JSON.parse((await store.histogram("ends", filter, 1)).toString("utf8"))).toMatchObject([{ counts: { info: seen.length } }]);
    expect((await store.fields("ends", filter)).toString("utf8")).toContain(`{"value":"info","count":${seen.length}}`);
    const tail = await store.tail("ends", { labels: [], regex: [pattern] }, undefined, Date.now());
    expect((await tail.next({ labelLimits: undefined }, Date.now())).events).toEqual([]);
  });

  it.each([CHEAP, COSTLY])("streams by the value of a label, for one or several selectors: %s", async (pattern) => {
    const { embedded } = clients;
    const series = async (...selectors: string[]): Promise<number> => {
      const selected = { span: RANGE, selectors: selectors.map((one) => readSelectorAlone("match[]", one)) };
      const found = embedded.read("ends", { labelLimits: undefined }, async (ask) => {
        return await seriesOf({ ask, orgId: "ends", budget: new Budget(BOUNDS, undefined) }, selected);
      });
      return JSON.parse((await found).toString("utf8")).data.length;
    };
    expect(await series(`{k8s_pod_name=~\`[xy]*${pattern}\`}`)).toBe(seen.length);
    expect(await series(`{k8s_pod_name!~\`[xy]*${pattern}\`, level="info"}`)).toBe(unseen.length);
    expect(await series(`{k8s_pod_name=~\`[xy]*${pattern}\`}`, `{k8s_pod_name=~"(y|s).+"}`)).toBe(LENGTHS.length);
  });
});

// Words and counts by minute on the real engine: what the index and the projection skip, also in parts of earlier versions, and that
// results equal a count over the rows.
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openEngine } from "../../../test/fixtures/clickhouse-engine.ts";
import type { Ask, ClickHouse } from "../../engines/clickhouse/clickhouse-client.ts";
import { applyRetention, migrate } from "../../engines/clickhouse/migrate.ts";
import { and, Sql, sql } from "../../engines/clickhouse/sql.ts";
import { attributeOf, hasAttribute, recordConditions } from "./filter.ts";
import { histogram } from "./counts.ts";
import { groupCounts } from "./group-counts.ts";
import { GROUP_KEYS, GROUP_NS, minutesAround, splitByMinute } from "./minute-counts.ts";
import { ClickHouseLogStore } from "./log-store.ts";
import { expectExactSummaries } from "../../../test/fixtures/exact-summaries.ts";

const ORG = "org";
const S = 1_000_000_000n;
const START_NS = 1_790_000_040n * S;
const PART_ROWS = 30_000;
const TEXTS = ["Straße_Nr 7", "foo-bar baz", "x\0y K k", "日本 語 word", "GET /api/items?id=Rare77 done", "a.b.c"];
const stack = new AsyncDisposableStack();
const log = pino({ level: "silent" });
let clickhouse: ClickHouse;
let store: ClickHouseLogStore;

beforeAll(async () => {
  clickhouse = await openEngine(stack);
  await clickhouse.command(sql`ALTER TABLE logs DROP INDEX word_filter, DROP PROJECTION counts SETTINGS mutations_sync = 2`);
  await clickhouse.command(sql`ALTER TABLE logs DROP COLUMN attribute_http_route SETTINGS mutations_sync = 2`);
  await clickhouse.command(sql`ALTER TABLE schema_migrations DELETE WHERE number >= 5 SETTINGS mutations_sync = 2`);
  await clickhouse.command(sql`SYSTEM STOP MERGES logs`);
  await fill(0);
  await migrate(clickhouse, log);
  await fill(PART_ROWS);
  store = stack.use(await ClickHouseLogStore.open(clickhouse));
});
afterAll(() => stack[Symbol.asyncDispose]());

/** Ten records a second, every tenth of them in the first nanosecond of its second or next to it. */
async function fill(first: number): Promise<void> {
  const texts = new Sql(`[${TEXTS.map((text) => sql`${text}`.text).join(", ")}]`);
  await clickhouse.command(
    sql`INSERT INTO logs (org_id, host_id, time, id, level, source, message, labels)
      SELECT if(number % 5 = 0, 'other', ${ORG}), 'h1',
        fromUnixTimestamp64Nano(toInt64(${START_NS}) + intDiv(number, 10) * 1000000000 + if(number % 10 = 9, toInt64(number % 3) - 1, number % 977), 'UTC'), number,
        ['info', 'warn', 'error'][number % 3 + 1], concat('s', toString(number % 7)),
        if(number % 15000 = 7001, concat('once', toString(number), ' ', ${texts}[number % 6 + 1]), concat('m ', ${texts}[number % 4 + 1])),
        map(if(number % 2, 'a.key', 'http.route'), if(number % 4, '/a', '')) FROM numbers(${first}, ${PART_ROWS})`,
  );
}

async function explained(statement: Sql): Promise<string> {
  const lines = await clickhouse.query<{ explain: string }>(
    sql`EXPLAIN indexes = 1, projections = 1 ${statement} SETTINGS use_skip_indexes_on_data_read = 0`,
  );
  return lines.map(({ explain }) => explain).join("\n");
}

const RANGE = { start: START_NS + 90n * S + 5n, end: START_NS + 5500n * S };

describe("words", () => {
  it.each([
    { words: ["once7001"] },
    { words: ["ONCE7001 foo", "baz"] },
    { words: ["straße"] },
    { words: ["k"] },
    { words: ["語", "word"] },
    { words: ["rare"] },
    { q: ["oNce"] },
    { q: ["-bar b"] },
    { q: ["/items?id="] },
    { q: ["/API/items?"] },
    { q: ["StrAße_n"] },
    { q: ["pi/items?id=rare7"] },
    { notQ: ["foo-bar baz", "K"] },
  ])("are found with and without the index: %j", async (filter) => {
    const where = and(recordConditions({ ...filter, labels: [] }));
    const count = async (setting: string) =>
      clickhouse.query<{ n: string }>(
        sql`SELECT n FROM (SELECT count() AS n FROM logs WHERE ${where} SETTINGS use_skip_indexes = ${new Sql(setting)})`,
      );
    const [[withIndex], [without]] = [await count("1"), await count("0")];
    expect(withIndex).toEqual(without);
    const rows = await clickhouse.query<{ org_id: string; message: string }>(
      sql`SELECT org_id, message FROM logs ORDER BY time DESC, id DESC`,
    );
    const found = rows.filter(({ message }) => matches(message, filter));
    expect(withIndex?.n).toBe(String(found.length));
    const range = { start: undefined, end: undefined };
    const page = await store.query(ORG, { ...filter, labels: [], range, limit: 100, after: undefined });
    const messages = (JSON.parse(page.json.toString("utf8")) as { message: string }[]).map(({ message }) => message);
    expect(messages).toEqual(found.flatMap(({ org_id, message }) => (org_id === ORG ? [message] : [])).slice(0, 100));
  });

  it("that are rare read few granules of new parts, and of old ones once they are indexed", async () => {
    const read = async (): Promise<number> => {
      const plan = await explained(sql`SELECT id FROM logs WHERE ${and(recordConditions({ words: ["once37001"], labels: [] }))}`);
      return Number(/Name: word_filter[\s\S]*?Granules: (\d+)/.exec(plan)?.[1]);
    };
    expect(await read()).toBeLessThanOrEqual(PART_ROWS / 2048 + 2);
    await clickhouse.command(sql`SYSTEM START MERGES logs`);
    await expect.poll(read, { timeout: 30_000 }).toBeLessThanOrEqual(2);
  });
});

interface TextFilter {
  readonly words?: readonly string[];
  readonly q?: readonly string[];
  readonly notQ?: readonly string[];
}

const lowered = (text: string): string => text.replaceAll(/[A-Z]/g, (letter) => letter.toLowerCase());

function matches(message: string, { words = [], q = [], notQ = [] }: TextFilter): boolean {
  const has = (text: string) =>
    /^[\0-\x7f]*$/.test(text) ? lowered(message).includes(lowered(text)) : message.toLowerCase().includes(text.toLowerCase());
  const own = new Set(lowered(message).split(/[\0-/:-@[-`{-\x7f]+/));
  const all = words.flatMap((text) => lowered(text).split(" "));
  return all.every((word) => own.has(word)) && q.every(has) && !notQ.some(has);
}

describe("counts by minute", () => {
  it("are read from the projection, also keys of attributes", async () => {
    const groups = splitByMinute({ start: START_NS, end: START_NS + 3600n * S }, [])?.groups ?? sql`0`;
    const counted = sql`SELECT level, intDiv(${GROUP_NS}, 7) AS b, count() FROM logs WHERE org_id = ${ORG} AND source = 's1' AND ${groups} GROUP BY level, b`;
    expect(await explained(counted)).toContain("ReadFromMergeTree (counts)");
    const keys = sql`SELECT ${GROUP_KEYS} AS keys FROM logs WHERE org_id = ${ORG} AND ${minutesAround(RANGE)}`;
    expect(await explained(keys)).toContain("ReadFromMergeTree (counts)");
    const [found] = await clickhouse.query<{ keys: string[] }>(keys);
    expect(found?.keys.toSorted()).toEqual(["a.key", "http.route"]);
  });

  it.each([
    ["cut at its ends", RANGE, 20],
    ["of whole minutes", { start: START_NS + 60n * S, end: START_NS + 3660n * S - 1n }, 10],
    ["whose last nanosecond begins a minute", { start: START_NS, end: START_NS + 3600n * S }, 6],
    ["of a few seconds", { start: START_NS + 3n * S, end: START_NS + 70n * S }, 5],
  ])("equal those of the rows, for a range %s", async (_, range, buckets) => {
    const ask = async (filter: object) =>
      JSON.parse((await store.histogram(ORG, { range, labels: [], ...filter }, buckets)).toString("utf8")) as { counts: object }[];
    const sum = async (filter: object) => (await ask(filter)).flatMap(({ counts }) => Object.values(counts) as number[]);
    // A filter on the message has the rows read.
    for (const filter of [{}, { level: "warn" }, { source: "s3", hostId: "h1" }])
      expect(await ask(filter)).toEqual(await ask({ ...filter, notQ: ["never there"] }));
    expect((await sum({})).length).toBeGreaterThan(5);
    const statements: string[] = [];
    const spy: Ask = (statement) => Promise.resolve(Buffer.from(statements.push(statement.text) ? "" : ""));
    await histogram(spy, ORG, { range, labels: [] }, buckets);
    expect(statements[0]).toMatch(buckets === 5 ? /^(?!.*toStartOfInterval)/s : /toStartOfInterval/);
    for (const by of [[], ["source"], ["level", "host_id"]]) {
      const question = { by, having: { operator: ">" as const, threshold: 10 }, maxGroups: 5, known: by.length === 1 ? [["s6"]] : [] };
      const counts = (filter: object) =>
        groupCounts(clickhouse, ORG, { ...question, filter: { range, labels: [], ...filter } }, { labelLimits: undefined });
      expect(await counts({})).toEqual(await counts({ notQ: ["never there"] }));
    }
  });
});

describe("an attribute with a column", () => {
  it("is equal to the one in the map, in parts of earlier versions too", async () => {
    for (const value of ["/a", "", "never"]) {
      const found = await clickhouse.query(
        sql`SELECT count() AS n FROM logs WHERE (${hasAttribute("http.route", value)}) != (mapContains(labels, 'http.route') AND labels['http.route'] = ${value})`,
      );
      expect(found).toEqual([{ n: "0" }]);
    }
    const counts = await clickhouse.query(
      sql`SELECT ${attributeOf("http.route")} AS value, count() AS n FROM logs GROUP BY value ORDER BY value`,
    );
    expect(counts).toEqual(
      await clickhouse.query(sql`SELECT labels['http.route'] AS value, count() AS n FROM logs GROUP BY value ORDER BY value`),
    );
    expect(counts).toHaveLength(2);
  });
});

// The last: it removes the records of the others.
describe("summaries by minute", () => {
  it("are exact in parts of earlier versions, after merges, and after retention has removed a day", async () => {
    await clickhouse.command(sql`SYSTEM START MERGES logs`);
    await clickhouse.command(
      sql`INSERT INTO logs (org_id, time, id, level, source) SELECT ${ORG}, now64(9) - toIntervalDay(if(number % 2, 0, 20)), number, 'info', 's' FROM numbers(1000)`,
    );
    await clickhouse.command(sql`ALTER TABLE logs MATERIALIZE PROJECTION counts SETTINGS mutations_sync = 2`);
    await clickhouse.command(sql`OPTIMIZE TABLE logs FINAL`);
    const all = await expectExactSummaries(clickhouse);
    await applyRetention(clickhouse, { logs: 10 }, log);
    await clickhouse.command(sql`ALTER TABLE logs MATERIALIZE TTL SETTINGS mutations_sync = 2`);
    await clickhouse.command(sql`OPTIMIZE TABLE logs FINAL`);
    await expect.poll(() => expectExactSummaries(clickhouse), { timeout: 30_000 }).toBeLessThan(all);
  });
});

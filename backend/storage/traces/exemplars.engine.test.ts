// Exemplars of the latency series on the real engine: equal to those calculated from the spans, only of one organisation, and limited in
// number.
import { afterAll, beforeAll, expect, it } from "vitest";
import { openTracesApp, type TracesApp } from "../../../test/fixtures/traces-app.ts";
import { sql } from "../../engines/clickhouse/sql.ts";
import { type ExemplarSelector, type LabelMatcher, readExemplars, type SeriesExemplars } from "./exemplars.ts";

const SPANS = 6000;
const startMs = Math.floor(Date.now() / 60_000) * 60_000 - 3_600_000;
const LIMITS_S = Array.from({ length: 14 }, (_, index) => 2 ** (index + 1) / 1000);
const range = { start: BigInt(startMs) * 1_000_000n, end: BigInt(startMs + 3_600_000) * 1_000_000n - 1n };
/** Milliseconds; 2 and 4,096 are limits of buckets. */
const durationMs = (n: number): number => [1, 2, 3, 40, 4096, 60_000][n % 6] ?? 0;
const timeMs = (n: number): number => startMs + n * 600;
const leOf = (ms: number): string => String(LIMITS_S.find((limit) => ms / 1000 <= limit) ?? "+Inf");
const matcher = (label: string, value: string, operator: LabelMatcher["operator"] = "="): LabelMatcher => ({ label, operator, value });

let app: TracesApp;
let orgId: string;
beforeAll(async () => {
  app = await openTracesApp();
  orgId = (await app.org()).orgId;
  const other = (await app.org()).orgId;
  for (const org of [orgId, other])
    await app.clickhouse
      .command(sql`INSERT INTO spans (org_id, time, id, trace_id, span_id, service, operation, kind, status_code, duration_ns)
      SELECT ${org}, fromUnixTimestamp64Milli(toInt64(${startMs} + number * 600), 'UTC'), number, concat(${org}, '-', toString(number)), 'span',
        if(number % 12 < 6, 'shop', 'web'), 'op', 'SERVER', if(number % 5 = 0, 'ERROR', ''), [1, 2, 3, 40, 4096, 60000][number % 6 + 1] * 1000000
      FROM numbers(${SPANS})`);
});
afterAll(() => app?.[Symbol.asyncDispose]());

async function read(...selectors: ExemplarSelector[]): Promise<SeriesExemplars[]> {
  return await app.clickhouse.read(orgId, { labelLimits: undefined }, (ask) => readExemplars(ask, orgId, selectors, range));
}

it("returns for each series the slowest span of each bucket and part of the range, of its own organisation", async () => {
  const found = await read([matcher("service", "shop"), matcher("status_code", "STATUS_CODE_UNSET")]);
  expect(new Set(found.map(({ seriesLabels }) => seriesLabels["le"]))).toEqual(new Set(["+Inf", "0.002", "0.004", "0.064", "4.096"]));
  for (const { seriesLabels, exemplars } of found) {
    expect(seriesLabels).toMatchObject({
      __name__: "traces_spanmetrics_latency_bucket",
      service: "shop",
      span_name: "op",
      span_kind: "SPAN_KIND_SERVER",
    });
    expect(exemplars).toHaveLength(20);
    for (const { labels, value, timestamp } of exemplars) {
      const n = Number(labels["trace_id"]?.replace(`${orgId}-`, ""));
      expect([n % 12 < 6, n % 5 === 0]).toEqual([true, false]);
      expect([Number(value), timestamp, leOf(durationMs(n))]).toEqual([durationMs(n) / 1000, timeMs(n) / 1000, seriesLabels["le"]]);
      // 2 ms are slower than 1 ms, and both are in the bucket of 2 ms.
      expect(value).not.toBe("0.001");
    }
  }
});

it.each([
  ["a bucket", [matcher("le", "4.096")], (n: number) => leOf(durationMs(n)) === "4.096"],
  ["a regular expression of the whole value", [matcher("service", "sh|we.", "=~")], (n: number) => n % 12 >= 6],
  [
    "values that are not wanted",
    [matcher("service", "shop", "!="), matcher("status_code", ".*ERROR", "!~")],
    (n: number) => n % 12 >= 6 && n % 5 !== 0,
  ],
  ["a label that the series do not have, empty", [matcher("job", "")], () => true],
])("%s selects", async (_, selector, isSelected) => {
  const found = await read(selector);
  const numbers = found.flatMap(({ exemplars }) => exemplars.map(({ labels }) => Number(labels["trace_id"]?.split("-").at(-1))));
  expect(numbers.length).toBeGreaterThan(0);
  expect(numbers.filter((n) => !isSelected(n))).toEqual([]);
});

it("selects nothing by a service or a label that does not exist", async () => {
  expect(await read([matcher("service", "none")], [matcher("job", "x")], [matcher("le", "0.003")])).toEqual([]);
  expect(await read([matcher("constructor", "x")], [matcher("__proto__", "x")], [matcher("toString", "x", "=~")])).toEqual([]);
});

it("returns at most 100 exemplars of each series for several selectors", async () => {
  const found = await read([matcher("service", "shop")], [matcher("service", "web")]);
  const bySeries = Map.groupBy(found, ({ seriesLabels: { service, status_code } }) => `${service} ${status_code}`);
  expect([...bySeries.keys()].toSorted()).toEqual([
    "shop STATUS_CODE_ERROR",
    "shop STATUS_CODE_UNSET",
    "web STATUS_CODE_ERROR",
    "web STATUS_CODE_UNSET",
  ]);
  for (const series of bySeries.values()) expect(series.flatMap(({ exemplars }) => exemplars).length).toBeLessThanOrEqual(100);
});

it("rejects an invalid regular expression", async () => {
  await expect(read([matcher("service", "(", "=~")])).rejects.toMatchObject({ code: "invalid_parameter" });
});

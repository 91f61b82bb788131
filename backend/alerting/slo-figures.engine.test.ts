// Figures of service level objectives on real engines, compared with a pass over every minute of generated data: calls of 90 days in
// ClickHouse, counted log records and counters in VictoriaMetrics; late data, gaps, minutes without traffic, changed objectives.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test, vi } from "vitest";
import { openStores, type Stores } from "../../test/conformance/telemetry-stores.ts";
import { alertingApp, type AlertingApp } from "../../test/fixtures/alerting-app.ts";
import { openEngine } from "../../test/fixtures/clickhouse-engine.ts";
import type { ClickHouse } from "../engines/clickhouse/clickhouse-client.ts";
import { sql } from "../engines/clickhouse/sql.ts";
import { createLog } from "../log.ts";
import type { AlertingTables } from "./alert-rule-table.ts";
import { RECORDED_BY, type Slo, type SloBody } from "./slo.ts";
import { budgetRemaining, exhaustedInS, readEvents, reportOf, sumEvents, windowAt } from "./slo-figures.ts";
import { SloRecorder } from "./slo-recorder.ts";
import { SloTable } from "./slo-table.ts";

vi.setConfig({ testTimeout: 180_000, hookTimeout: 180_000 });

const [MINUTE_MS, DAY_S] = [60_000, 86_400];
const NOW_S = Math.floor(Date.now() / MINUTE_MS) * 60;
const opened = new AsyncDisposableStack();
let clickhouse: ClickHouse;
let spans: Stores;
let service: AlertingApp;

beforeAll(async () => {
  clickhouse = await openEngine(opened);
  spans = opened.use(await openStores(clickhouse));
  service = opened.use(await alertingApp());
});
afterAll(async () => await opened.disposeAsync());

const body = (more: Partial<SloBody>): SloBody => ({
  name: randomUUID(),
  description: "",
  objective: 99.9,
  window: "90d",
  indicator: { availability: { service: "checkout" } },
  no_traffic: "ignore",
  alerts: true,
  labels: {},
  ...more,
});
const sloOf = (orgId: string, more: Partial<SloBody> & { definedAt?: Date } = {}): Slo => ({
  ...body(more),
  id: randomUUID(),
  orgId,
  definition: "d",
  definedAt: more.definedAt ?? new Date(0),
  createdAt: new Date(0),
  error: undefined,
});
const stores = () => ({ spans: spans.spans, metrics: service.metrics });

/** Calls of a minute by what they are: every minute has its own numbers, and one hour of twenty has none. */
const callsAt = (minute: number) => {
  if (Math.floor(minute / 60) % 20 === 0) return { fast: 0, slow: 0, failed: 0 };
  return { fast: 1 + ((minute * 7919) % 5), slow: (minute * 31) % 3, failed: minute % 97 < 2 ? 1 : 0 };
};

describe("over calls of 90 days", () => {
  const orgId = randomUUID();
  const [startS, minutes] = [NOW_S - 90 * DAY_S - 600, 90 * 1440 + 10];
  // Earlier minutes are read from their copies.
  const copiedUntilS = NOW_S - 30 * DAY_S;

  const insert = async (table: "spans" | "span_minutes"): Promise<void> => {
    const minute = sql`(intDiv(${startS}, 60) + number)`;
    const active = sql`(intDiv(${minute}, 60) % 20 != 0)`;
    for (const [operation, status, ms, count] of [
      ["pay", "OK", 90, sql`1 + (${minute} * 7919) % 5`],
      ["pay", "UNSET", 500, sql`(${minute} * 31) % 3`],
      ["list", "ERROR", 20, sql`if(${minute} % 97 < 2, 1, 0)`],
    ] as const) {
      const calls = sql`toUInt64(if(${active}, ${count}, 0))`;
      await (table === "spans"
        ? clickhouse.command(sql`INSERT INTO spans (org_id, host_id, node, received_at, body_hash, time, id, trace_id, span_id, parent_span_id, service, operation,
            kind, duration_ns, status_code)
            SELECT ${orgId}, 'h', 'n', now(), 1, toDateTime64(${minute} * 60 + 7, 9, 'UTC'), rowNumberInAllBlocks(), 't', 's', 'p', 'checkout', ${operation}, 'SERVER',
              ${ms * 1_000_000}, ${status}
            FROM numbers(${minutes}) ARRAY JOIN range(${calls}) AS each WHERE ${minute} * 60 >= ${copiedUntilS}`)
        : clickhouse.command(sql`INSERT INTO span_minutes (org_id, time, service, operation, kind, status_code, entry, calls, duration_ns, buckets)
            SELECT ${orgId}, toDateTime(${minute} * 60, 'UTC'), 'checkout', ${operation}, 'SERVER', ${status}, 1, ${calls}, 0,
              map(toInt16(${Math.ceil(Math.log2(ms) * 4)}), ${calls})
            FROM numbers(${minutes}) WHERE ${minute} * 60 < ${NOW_S - 29 * DAY_S} AND ${calls} > 0`));
    }
  };

  /** What a pass over all minutes finds. */
  const brute = (window: { startS: number; endS: number }, good: (calls: ReturnType<typeof callsAt>) => number, idleFromS = Infinity) => {
    let sum = { good: 0, total: 0 };
    for (let minuteS = window.startS; minuteS < window.endS; minuteS += 60) {
      const calls = callsAt(minuteS / 60);
      const total = calls.fast + calls.slow + calls.failed;
      sum = { good: sum.good + good(calls), total: sum.total + (total === 0 && minuteS >= idleFromS ? 1 : total) };
    }
    return sum;
  };
  const available = ({ fast, slow }: ReturnType<typeof callsAt>): number => fast + slow;

  beforeAll(async () => {
    // The copies end, and spans begin, where the store reads one or the other; between them, both exist.
    await insert("span_minutes");
    await insert("spans");
  });

  test("good and all events, history and budget are those of every minute", async () => {
    const slo = sloOf(orgId, { window: "90d" });
    const [began, cpuBefore] = [performance.now(), process.cpuUsage()];
    const report = await reportOf(stores(), slo, NOW_S * 1000);
    const [wallMs, cpu] = [performance.now() - began, process.cpuUsage(cpuBefore)];
    console.info(
      `90 days, ${minutes} minutes: first answer ${Math.round(wallMs)} ms, ${Math.round((cpu.user + cpu.system) / 1000)} ms of CPU`,
    );
    const expected = brute(windowAt("90d", NOW_S * 1000), available);
    expect({ good: report.good, total: report.total }).toEqual(expected);
    expect(report.budget_remaining).toBeCloseTo(1 - (expected.total - expected.good) / (0.001 * expected.total), 9);
    expect(report.history).toHaveLength(90);
    for (const point of report.history) {
      const range = { startS: Date.parse(point.start) / 1000, endS: Date.parse(point.end) / 1000 };
      expect({ good: point.good, total: point.total }).toEqual(brute(range, available));
    }
    expect(report.history.at(-1)?.budget_remaining).toBeCloseTo(report.budget_remaining, 9);
    for (const [name, hours] of Object.entries({ "1h": 1, "6h": 6, "3d": 72 })) {
      const { good, total } = brute({ startS: NOW_S - hours * 3600, endS: NOW_S }, available);
      expect(report.burn_rates[name]).toBeCloseTo(total === 0 ? 0 : (total - good) / total / 0.001, 9);
    }
  });

  test.each(["7d", "28d", "30d", "month"] as const)("a window of %s has the events of its minutes", async (window) => {
    const slo = sloOf(orgId, { window });
    expect(sumEvents(await readEvents(stores(), slo, windowAt(window, NOW_S * 1000)))).toEqual(
      brute(windowAt(window, NOW_S * 1000), available),
    );
  });

  test("latency counts calls up to the bucket of the bound, of one operation too", async () => {
    const window = windowAt("90d", NOW_S * 1000);
    const events = async (latency: object) =>
      sumEvents(await readEvents(stores(), sloOf(orgId, { indicator: { latency: latency as never } }), window));
    expect(await events({ service: "checkout", below: "100ms" })).toEqual(brute(window, ({ fast, failed }) => fast + failed));
    const pay = await events({ service: "checkout", operation: "pay", below: "100ms" });
    expect(pay.good).toBe(brute(window, ({ fast }) => fast).good);
    expect(pay.total).toBe(brute(window, available).good);
  });

  test("minutes without calls are nothing, or one bad event each from the time when the objective was set", async () => {
    const window = windowAt("30d", NOW_S * 1000);
    const definedAt = new Date((NOW_S - 3 * DAY_S) * 1000 + 1234);
    const slo = sloOf(orgId, { window: "30d", no_traffic: "bad", definedAt });
    expect(sumEvents(await readEvents(stores(), slo, window))).toEqual(brute(window, available, NOW_S - 3 * DAY_S + 60));
  });

  test("a changed objective applies to the whole window at once", async () => {
    const [strict, loose] = [99.99, 99].map((objective) => sloOf(orgId, { objective }));
    const sum = brute(windowAt("90d", NOW_S * 1000), available);
    const bad = (sum.total - sum.good) / sum.total;
    for (const [slo, budget] of [
      [strict, 0.0001],
      [loose, 0.01],
    ] as const)
      expect((await reportOf(stores(), slo as Slo, NOW_S * 1000)).budget_remaining).toBeCloseTo(1 - bad / budget, 9);
  });

  test("a late span counts in its minute", async () => {
    const slo = sloOf(orgId, { window: "7d" });
    const before = sumEvents(await readEvents(stores(), slo, windowAt("7d", NOW_S * 1000)));
    await clickhouse.command(sql`INSERT INTO spans (org_id, host_id, node, received_at, body_hash, time, id, trace_id, span_id, service, operation, kind, duration_ns,
      status_code) SELECT ${orgId}, 'h', 'n', now(), 2, toDateTime64(${NOW_S - 5 * DAY_S}, 9, 'UTC'), 1, 'u', 's', 'checkout', 'pay', 'SERVER', 1, 'ERROR'`);
    const after = sumEvents(await readEvents(stores(), slo, windowAt("7d", NOW_S * 1000)));
    expect(after).toEqual({ good: before.good, total: before.total + 1 });
  });
});

describe("over metrics and log records", () => {
  const at = (minute: number): string => String((NOW_S - 3 * DAY_S + minute * 60) * 1000 - 1);

  test("counters with a restart and a gap have the increase of every minute", async () => {
    const orgId = randomUUID();
    const [good, all]: [string[], string[]] = [[], []];
    let [goodCount, totalCount, sumGood, sumTotal] = [0, 0, 0, 0];
    for (let minute = 0; minute <= 3 * 1440; minute += 1) {
      // A gap of an hour, and a restart.
      if (minute > 1000 && minute < 1060) continue;
      if (minute === 2000) [goodCount, totalCount] = [0, 0];
      const [failed, calls] = [minute % 53 === 0 ? 1 : 0, 1 + (minute % 7)];
      goodCount += calls - failed;
      totalCount += calls;
      if (minute > 0) [sumGood, sumTotal] = [sumGood + calls - failed, sumTotal + calls];
      good.push(`shop_good ${goodCount} ${at(minute)}`);
      all.push(`shop_total ${totalCount} ${at(minute)}`);
    }
    await service.metrics.write({ orgId, hostId: "h", node: "n" }, Buffer.from(`${[...good, ...all].join("\n")}\n`), Date.now());
    await service.engine.flush();
    const expressions = { good: "increase(shop_good[$window])", total: "increase(shop_total[$window])" };
    const slo = sloOf(orgId, { window: "7d", indicator: { promql: expressions } });
    const range = { startS: NOW_S - 3 * DAY_S, endS: NOW_S, stepS: 7 * 3600 };
    expect(sumEvents(await readEvents(stores(), slo, range))).toEqual({ good: sumGood, total: sumTotal });
    const bad = { bad: "increase(shop_total[$window]) - increase(shop_good[$window])", total: expressions.total };
    const byBad = sloOf(orgId, { window: "7d", indicator: { promql: bad } });
    expect(sumEvents(await readEvents(stores(), byBad, range))).toEqual({ good: sumGood, total: sumTotal });
  });

  test("log records are counted by minute, late ones again, minutes without records as bad events, and a new definition from the start", async () => {
    const orgId = await service.makeOrg();
    const db = service.database.tables<AlertingTables>();
    const table = new SloTable(db);
    // The clock goes on between counts.
    let skippedMs = NOW_S * 1000 - performance.now();
    const now = (): number => Math.floor(skippedMs + performance.now());
    const receivedNow = () => sql`toDateTime(${Math.floor(now() / 1000)})`;
    const records = async (minutesAgo: number, level: string, count: number): Promise<void> => {
      await clickhouse.command(sql`INSERT INTO logs (org_id, host_id, node, received_at, body_hash, time, id, level, source, message)
        SELECT ${orgId}, 'h', 'n', ${receivedNow()}, ${Math.floor(Math.random() * 1e9)}, toDateTime64(${NOW_S - minutesAgo * 60 + 5}, 9, 'UTC'), number, ${level}, 'shop', 'x'
        FROM numbers(${count})`);
    };
    await records(30, "info", 9);
    await records(30, "error", 1);
    await records(20, "info", 5);
    const indicator = { logs: { total: { source: "shop" }, bad: { query: "level:error" } } };
    const { id } = await table.create(orgId, body({ window: "7d", indicator, objective: 90 }));
    const options = {
      db,
      stores: stores(),
      clickhouse,
      isUnused: () => false,
      log: createLog("silent"),
      pollMs: 20,
      pauseMs: () => 0,
      nowMs: now,
    };
    // The row is due in real time, which may be later than that of the test.
    await db
      .updateTable("slos")
      .set({ due_at: new Date(0) })
      .where("id", "=", id)
      .execute();
    await using recorder = new SloRecorder(options);
    const read = async () => {
      await service.engine.flush();
      return sumEvents(await readEvents(stores(), await table.find(orgId, id), windowAt("7d", now())));
    };
    const recordedUntil = (minuteS: number) =>
      vi.waitFor(
        async () => {
          const row = await db.selectFrom("slos").select(["counted_until", "error"]).where("id", "=", id).executeTakeFirstOrThrow();
          expect(row.error).toBeNull();
          expect(Number(row.counted_until)).toBeGreaterThanOrEqual(minuteS * 1000);
          return Number(row.counted_until) / 1000;
        },
        { timeout: 60_000, interval: 50 },
      );
    const pass = async (minutes: number): Promise<number> => {
      skippedMs += minutes * MINUTE_MS;
      return await recordedUntil(Math.floor(now() / MINUTE_MS) * 60);
    };
    await recordedUntil(NOW_S);
    expect(await read()).toEqual({ good: 14, total: 15 });
    await records(30, "error", 2);
    await records(25, "info", 1);
    await pass(1);
    expect(await read()).toEqual({ good: 15, total: 18 });
    // Of a host that was offline: a record in every second minute of three days.
    await clickhouse.command(sql`INSERT INTO logs (org_id, host_id, node, received_at, body_hash, time, id, level, source, message)
      SELECT ${orgId}, 'h', 'n', ${receivedNow()}, 1, toDateTime64(${NOW_S - 2 * 3600} - 120 * number, 9, 'UTC'), number, 'info', 'shop', 'x' FROM numbers(2000)`);
    await pass(1);
    expect(await read()).toEqual({ good: 2015, total: 2018 });
    await table.replace(orgId, id, body({ window: "7d", indicator, objective: 90, no_traffic: "bad" }));
    const definedMs = now();
    await db
      .updateTable("slos")
      .set({ defined_at: new Date(definedMs) })
      .where("id", "=", id)
      .execute();
    const untilS = await pass(11);
    const idleMinutes = untilS / 60 - Math.ceil(definedMs / MINUTE_MS);
    expect(idleMinutes).toBeGreaterThanOrEqual(10);
    expect(await read()).toEqual({ good: 2015, total: 2018 + idleMinutes });
    expect(recorder).toBeDefined();
    const written = new URLSearchParams({ query: `slo:error_budget_remaining{slo_id="${id}",host_id="${RECORDED_BY}"}` });
    await service.engine.flush();
    const answer = await service.metrics.query(orgId, "query", written);
    expect(JSON.parse(answer.body.toString()).data.result).toHaveLength(1);
  });
});

test.each([
  ["7d", 0.5, 2, (0.5 * 7 * DAY_S) / 2],
  ["30d", 0.5, 1, null],
  ["30d", -0.1, 0, 0],
  ["month", 0.5, 0, null],
  ["month", 0.9, 0.01, null],
] as const)("a budget of %s of which %d is left at a burn rate of %d is used up after %s s", (window, remaining, rate, seconds) => {
  expect(exhaustedInS({ ...sloOf("o"), window }, remaining, rate, Date.UTC(2026, 10, 15))).toBe(seconds);
});

test("without events the whole budget is left", () => {
  expect(budgetRemaining(sloOf("o"), { good: 0, total: 0 })).toBe(1);
});

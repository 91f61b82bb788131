// Rate, errors and latency on the real engine equal those calculated from the spans: after repeated bodies, with parts of the table that
// lack the projection, and after the spans have expired.
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openTracesApp, type TracesApp, type TracesOrg } from "../../../test/fixtures/traces-app.ts";
import { Sql, sql } from "../../engines/clickhouse/sql.ts";
import { applyRetention } from "../../engines/clickhouse/migrate.ts";
import { signingKey, span, stringAttribute, tracesBody } from "../../ingest/otlp/otlp-body.fixture.ts";
import { bucketOf, DURATION_BUCKETS, upperBoundMs } from "./span-histogram.ts";
import { keepMinutes, copiesUntilS, minutesOfHour } from "./keep-minutes.ts";
import { conditionsOf, minuteGroups, packedPoints } from "./red.ts";
import { expectExactSpanSummaries } from "../../../test/fixtures/exact-summaries.ts";
import type { OperationRow, RedFigures, RedPoint, ServiceRow } from "./service-rows.fixture.ts";

const MINUTE_MS = 60_000;
const DAY_MS = 86_400_000;
const now = new Date();
const startMs = Math.floor(now.getTime() / MINUTE_MS) * MINUTE_MS - 20 * MINUTE_MS;
const iso = (ms: number): string => new Date(ms).toISOString();
const KIND_NAMES = ["INTERNAL", "INTERNAL", "SERVER", "CLIENT", "PRODUCER", "CONSUMER"];

interface Made {
  readonly service: string;
  readonly operation: string;
  readonly kind: number;
  readonly timeMs: number;
  readonly durationNs: number;
  readonly isError: boolean;
  readonly hasParent: boolean;
}

let app: TracesApp;
beforeAll(async () => void (app = await openTracesApp()));
afterAll(() => app?.[Symbol.asyncDispose]());

let state = 7;
const random = (below: number): number => {
  state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
  return state % below;
};
const randomSpan = (): Made => ({
  service: `s${random(3)}`,
  operation: `op ${random(4)}`,
  kind: 1 + random(5),
  timeMs: startMs + random(20 * MINUTE_MS),
  durationNs: [0, 1, 999, 1000, 1_000_000, 2_000_000, 8_000_000, 8_000_001, 90_000_000_000][random(18)] ?? random(2_000_000_000),
  isError: random(5) === 0,
  hasParent: random(2) === 0,
});
const bodyOf = (all: readonly Made[], service: string): Buffer =>
  tracesBody(
    all.map((made, index) => {
      const start = BigInt(made.timeMs) * 1_000_000n;
      return span(start, "a".repeat(32), index.toString(16).padStart(16, "1"), {
        name: made.operation,
        kind: made.kind,
        endTimeUnixNano: String(start + BigInt(made.durationNs)),
        ...(made.hasParent && { parentSpanId: "f".repeat(16) }),
        ...(made.isError && { status: { code: 2 } }),
      });
    }),
    [stringAttribute("service.name", service)],
  );
const send = (org: TracesOrg, body: Buffer) => app.stores.ingestTraces(signingKey(org.orgId), body, { receivedAt: now });
const get = async <Row>(org: TracesOrg, path: string, query: Record<string, string>): Promise<Row[]> => {
  const answer = await org.get(`${path}?${new URLSearchParams(query).toString()}`);
  expect([answer.statusCode, answer.statusCode === 200 ? "" : answer.body]).toEqual([200, ""]);
  return answer.json();
};
const copiesOf = (orgId: string) =>
  app.clickhouse.query<{ time_s: number; operation: string; calls: number }>(
    sql`SELECT toUnixTimestamp(time) AS time_s, operation, toFloat64(calls) AS calls FROM span_minutes FINAL
      WHERE org_id = ${orgId} ORDER BY time_s, operation`,
  );
const isEntry = ({ kind, hasParent }: Made): boolean => kind === 2 || kind === 5 || !hasParent;

/** What a pass over the spans gives; quantiles as the two ends of the bucket that they have to be in. */
function expectFigures(figures: RedFigures, spans: readonly Made[], seconds: number): void {
  const errors = spans.filter(({ isError }) => isError).length;
  expect(figures).toMatchObject({ calls: spans.length, errors, error_ratio: spans.length === 0 ? 0 : errors / spans.length });
  expect(figures.rate).toBeCloseTo(spans.length / seconds, 9);
  const sorted = spans.map(({ durationNs }) => durationNs).toSorted((a, b) => a - b);
  for (const [name, quantile] of [
    ["p50_ms", 0.5],
    ["p95_ms", 0.95],
    ["p99_ms", 0.99],
  ] as const) {
    const exact = sorted[Math.max(1, Math.ceil(sorted.length * quantile)) - 1];
    expect({ name, isInBucket: isInBucketOf(exact, figures[name]), value: figures[name] }).toMatchObject({ isInBucket: true });
  }
}

function isInBucketOf(durationNs: number | undefined, valueMs: number | null): boolean {
  if (durationNs === undefined || valueMs === null) return durationNs === undefined && valueMs === null;
  const end = upperBoundMs(bucketOf(durationNs));
  return valueMs <= end * 1.000_001 && valueMs > (end / 2 ** 0.25) * 0.999_999;
}

const range = { start: iso(startMs), end: iso(startMs + 20 * MINUTE_MS - 1) };

describe("figures of services", () => {
  it("are returned for 100 services and every minute of a day", async () => {
    const org = await app.org();
    const dayStartMs = startMs - DAY_MS;
    const service = sql`concat('service-', leftPad(toString(number % 100), 2, '0'))`;
    await app.clickhouse.command(sql`INSERT INTO spans (org_id, time, id, service, operation, kind, duration_ns)
      SELECT ${org.orgId}, fromUnixTimestamp64Milli(toInt64(${dayStartMs} + intDiv(number, 100) * ${MINUTE_MS}), 'UTC'), number, ${service},
        'op', 'SERVER', (number % 100 + 1) * 1000000 FROM numbers(144000)`);
    await app.clickhouse.command(sql`INSERT INTO span_operations (org_id, service, operation, kind, time)
      SELECT ${org.orgId}, ${service}, 'op', 'SERVER', now() + 86400 FROM numbers(100)`);
    const day = { start: iso(dayStartMs), end: iso(startMs - 1), points: "1440" };
    const services = await get<ServiceRow>(org, "/query/services", day);
    expect(services).toHaveLength(100);
    for (const [index, { calls, series }] of services.entries()) {
      expect([calls, new Set(series.calls), new Set(series.errors)]).toEqual([1440, new Set([1]), new Set([0])]);
      expect(series.p95_ms).toHaveLength(1440);
      const values = series.p95_ms.filter((ms) => !isInBucketOf((index + 1) * 1e6, ms));
      expect(values).toEqual([]);
    }
  });

  it("equal a pass over the spans, in parts with and without the projection, also after repeated bodies", async () => {
    const [org, other] = [await app.org(), await app.org()];
    const all = Array.from({ length: 3000 }, randomSpan);
    for (const [turn, service] of ["s0", "s1", "s2", "s0", "s1", "s2"].entries()) {
      // The second half is stored as an earlier version would have: without the projection.
      for (const projection of turn === 3 ? ["minutes", "services"] : [])
        await app.clickhouse.command(sql`ALTER TABLE spans CLEAR PROJECTION ${new Sql(projection)} SETTINGS mutations_sync = 2`);
      const spans = all.filter((made) => made.service === service);
      const body = () => bodyOf(turn < 3 ? spans.slice(0, 400) : spans.slice(400), service);
      await Promise.all([send(org, body()), send(org, body())]);
      await send(org, body());
    }
    await send(other, bodyOf([randomSpan()], "secret"));

    const services = await get<ServiceRow>(org, "/query/services", { ...range, points: "7" });
    expect(services.map(({ service }) => service)).toEqual(["s0", "s1", "s2"]);
    for (const row of services) {
      const spans = all.filter((made) => made.service === row.service && isEntry(made));
      expectFigures(row, spans, 1200);
      const ofPoint = (point: number) => spans.filter(({ timeMs }) => Math.floor((timeMs - startMs) / (3 * MINUTE_MS)) === point);
      const points = [0, 1, 2, 3, 4, 5, 6];
      expect(row.series.calls).toEqual(points.map((point) => ofPoint(point).length));
      expect(row.series.errors).toEqual(points.map((point) => ofPoint(point).filter(({ isError }) => isError).length));
      expect(row.series.p95_ms).toHaveLength(7);
      for (const point of points) {
        const sorted = ofPoint(point)
          .map(({ durationNs }) => durationNs)
          .toSorted((a, b) => a - b);
        const exact = sorted[Math.max(1, Math.ceil(sorted.length * 0.95)) - 1];
        expect(isInBucketOf(exact, row.series.p95_ms[point] ?? null)).toBe(true);
      }
    }

    for (const [kind, isOfKind] of [
      ["all", () => true],
      ["client", (made: Made) => made.kind === 3],
    ] as const) {
      const rows = await get<ServiceRow>(org, "/query/services", { ...range, points: "7", kind });
      for (const row of rows)
        expectFigures(
          row,
          all.filter((made) => made.service === row.service && isOfKind(made)),
          1200,
        );
    }

    const operations = await get<OperationRow>(org, "/query/services/s1/operations", range);
    const ofS1 = all.filter(({ service }) => service === "s1");
    expect(operations.reduce((sum, { calls }) => sum + calls, 0)).toBe(ofS1.length);
    for (const row of operations)
      expectFigures(
        row,
        ofS1.filter(({ operation, kind }) => operation === row.operation && KIND_NAMES[kind] === row.kind),
        1200,
      );

    for (const [index, point] of (await get<RedPoint>(org, "/query/services/s2/timeseries", { ...range, points: "4" })).entries())
      expectFigures(
        point,
        all.filter((made) => made.service === "s2" && isEntry(made) && Math.floor((made.timeMs - startMs) / (5 * MINUTE_MS)) === index),
        300,
      );
    const points = await get<RedPoint>(org, "/query/services/s2/timeseries", { ...range, points: "20", kind: "client", operation: "op 1" });
    expect(points.map(({ start }) => Date.parse(start))).toEqual(Array.from({ length: 20 }, (_, n) => startMs + n * MINUTE_MS));
    for (const point of points)
      expectFigures(
        point,
        all.filter(
          ({ service, kind, operation, timeMs }) =>
            service === "s2" && kind === 3 && operation === "op 1" && timeMs >= Date.parse(point.start) && timeMs < Date.parse(point.end),
        ),
        60,
      );
  });

  it("are read from the projection, not from spans", async () => {
    const org = await app.org();
    await send(org, bodyOf([randomSpan(), randomSpan()], "s0"));
    const question = minuteGroups(org.orgId, {
      keys: (minuteS) => sql`service, intDiv(${minuteS}, 300) AS point`,
      groupBy: sql`service, point`,
      conditions: conditionsOf({ kind: "entry", service: "s0" }),
      startS: startMs / 1000,
      endS: startMs / 1000 + 1200,
      copiesUntilS: 0,
    });
    const lines = await app.clickhouse.query<{ explain: string }>(sql`EXPLAIN projections = 1 ${question}`);
    expect(lines.map(({ explain }) => explain).join("\n")).toMatch(/ReadFromMergeTree \(minutes\)/);
    const entries = { startS: startMs / 1000, endS: startMs / 1000 + 1200, points: 4, kind: "entry" } as const;
    const points = packedPoints(org.orgId, entries, (point) => sql`service, ${point}`, sql`service, point`);
    const plan = await app.clickhouse.query<{ explain: string }>(sql`EXPLAIN projections = 1 ${points}`);
    expect(plan.map(({ explain }) => explain).join("\n")).toMatch(/ReadFromMergeTree \(services\)/);
  });

  it("of a minute outlive its spans, and count each span once where copies and spans overlap", async () => {
    const org = await app.org();
    const borderMs = copiesUntilS(30) * 1000;
    const times = [borderMs - 30 * MINUTE_MS, borderMs - 1, borderMs, borderMs + 5 * MINUTE_MS, borderMs + DAY_MS];
    const all = times.map((timeMs, index) => ({ ...randomSpan(), service: "old", timeMs, durationNs: 1_000_000 * (index + 1), kind: 2 }));
    await send(org, bodyOf(all, "old"));
    const ask = async () =>
      (await get<ServiceRow>(org, "/query/services", { start: iso(borderMs - DAY_MS), end: iso(borderMs + 2 * DAY_MS) }))[0];
    const keep = () => keepMinutes(app.clickhouse, 30, new AbortController().signal);
    await keep();
    await keep();
    expect((await ask())?.calls).toBe(5);
    // Later, when the older three have expired.
    await app.clickhouse.command(
      sql`ALTER TABLE spans DELETE WHERE org_id = ${org.orgId} AND time < fromUnixTimestamp64Milli(${borderMs}) SETTINGS mutations_sync = 2`,
    );
    await keep();
    const row = await ask();
    expect(row?.calls).toBe(5);
    expectFigures(row as ServiceRow, all, 3 * 86_400 + 60);
  });

  it("are copied for every organisation, even if the copies of one fail", async () => {
    const [failing, org] = [await app.org(), await app.org()];
    const timeMs = copiesUntilS(30) * 1000 + DAY_MS;
    for (const { orgId } of [failing, org])
      await app.stores.ingestTraces(signingKey(orgId), bodyOf([{ ...randomSpan(), timeMs }], "s0"), { receivedAt: now });
    const command = async (statement: Sql) => {
      if (!statement.text.includes(`'${failing.orgId}'`) && statement.text.includes("org_id = "))
        return await app.clickhouse.command(statement);
      throw new Error("too many names");
    };
    const clickhouse = { ...app.clickhouse, command };
    await expect(keepMinutes(clickhouse, 30, new AbortController().signal)).rejects.toThrow("too many names");
    expect(await copiesOf(org.orgId)).toMatchObject([{ calls: 1 }]);
    expect(await copiesOf(failing.orgId)).toEqual([]);
  });

  it("are copied with truncated names, at most 10,000 rows per minute, those with most calls", async () => {
    const org = await app.org();
    const timeMs = Math.floor((copiesUntilS(30) * 1000 + DAY_MS) / MINUTE_MS) * MINUTE_MS;
    const spans = ["a", "b", "b"].map((letter) => ({
      ...randomSpan(),
      timeMs,
      kind: 1,
      isError: false,
      hasParent: true,
      operation: letter.repeat(100_000),
    }));
    const many = Array.from({ length: 10_100 }, (_, n) => ({ ...randomSpan(), timeMs: timeMs + MINUTE_MS, operation: `op ${n}` }));
    const frequent = Array.from({ length: 3 }, () => ({ ...randomSpan(), timeMs: timeMs + MINUTE_MS, kind: 1, operation: "x frequent" }));
    await send(org, bodyOf([...spans, ...many, ...frequent], "s0"));
    await keepMinutes(app.clickhouse, 30, new AbortController().signal);
    const copies = await copiesOf(org.orgId);
    const at = (ms: number) => copies.filter(({ time_s }) => time_s === ms / 1000);
    expect(at(timeMs)).toMatchObject([
      { operation: "a".repeat(256), calls: 1 },
      { operation: "b".repeat(256), calls: 2 },
    ]);
    expect(at(timeMs + MINUTE_MS)).toHaveLength(10_000);
    expect(at(timeMs + MINUTE_MS).some(({ operation }) => operation === "x frequent")).toBe(true);
  });

  it("are copied from the projection, not from spans", async () => {
    const org = await app.org();
    await send(org, bodyOf([randomSpan(), randomSpan()], "s0"));
    const hourS = Math.floor(startMs / 3_600_000) * 3600;
    const statements = [0, 3600].map((later) => sql`EXPLAIN projections = 1 ${minutesOfHour(org.orgId, hourS + later)}`);
    const lines = await Promise.all(statements.map((statement) => app.clickhouse.query<{ explain: string }>(statement)));
    expect(
      lines
        .flat()
        .map(({ explain }) => explain)
        .join("\n"),
    ).toMatch(/ReadFromMergeTree \(minutes\)/);
  });

  it.each(["start=yesterday", "points=0", "points=1501", "kind=none", "operation=x", "servcie=x"])("reject %s by name", async (query) => {
    const org = await app.org();
    const answer = await org.get(`/query/services?${query}`);
    expect([answer.statusCode, answer.json().error]).toEqual([400, "invalid_parameter"]);
    expect(answer.json().message).toContain(query.split("=")[0]);
  });
});

it("summaries of spans are exact after merges and after retention has removed a day", async () => {
  const org = await app.org();
  const oldMs = startMs - 20 * DAY_MS;
  for (const timeMs of [oldMs, startMs])
    await send(
      org,
      bodyOf(
        Array.from({ length: 300 }, () => ({ ...randomSpan(), timeMs: timeMs + random(20 * MINUTE_MS) })),
        "s0",
      ),
    );
  for (const projection of ["minutes", "services"])
    await app.clickhouse.command(sql`ALTER TABLE spans MATERIALIZE PROJECTION ${new Sql(projection)} SETTINGS mutations_sync = 2`);
  await app.clickhouse.command(sql`OPTIMIZE TABLE spans FINAL`);
  const all = await expectExactSpanSummaries(app.clickhouse);
  await applyRetention(app.clickhouse, { spans: 10 }, pino({ level: "silent" }));
  await app.clickhouse.command(sql`ALTER TABLE spans MATERIALIZE TTL SETTINGS mutations_sync = 2`);
  await app.clickhouse.command(sql`OPTIMIZE TABLE spans FINAL`);
  await expect.poll(() => expectExactSpanSummaries(app.clickhouse), { timeout: 30_000 }).toBeLessThanOrEqual(all - 300);
  const services = await get<ServiceRow>(org, "/query/services", { start: iso(oldMs - DAY_MS), end: iso(now.getTime()), kind: "all" });
  expect(services[0]?.calls).toBe(300);
});

it("histograms that are merged in any order and grouping count what one pass over all durations counts", async () => {
  for (let turn = 0; turn < 20; turn += 1) {
    const durations = Array.from({ length: 1 + random(200) }, () => Math.floor(2 ** (random(640) / 10)) + random(3) - 1).map((ns) =>
      Math.max(0, ns),
    );
    const parts = 1 + random(6);
    const rows = durations.map((ns) => sql`(${random(parts)}, ${random(3)}, ${BigInt(ns)})`.text).join(", ");
    const source = sql`(SELECT row.1 AS part, row.2 AS half, toUInt64(row.3) AS duration_ns FROM (SELECT arrayJoin([${new Sql(rows)}]) AS row))`;
    const [merged] = await app.clickhouse.query<{ merged: Record<string, string> }>(
      sql`SELECT sumMap(map) AS merged FROM (SELECT half, sumMap(map) AS map FROM
        (SELECT part, half, ${DURATION_BUCKETS} AS map FROM ${source} GROUP BY part, half) GROUP BY half)`,
    );
    const expected = Map.groupBy(durations, bucketOf);
    const counted = Object.entries(merged?.merged ?? {}).map(([bucket, n]) => [Number(bucket), Number(n)]);
    expect(new Map(counted as [number, number][])).toEqual(new Map([...expected].map(([bucket, { length }]) => [bucket, length])));
  }
});

it("merged buckets are the buckets of all durations", () => {
  expect([1_000_000, 1_000_001, 2_000_000, 500, 0].map(bucketOf)).toEqual([0, 1, 4, -39, -39]);
});

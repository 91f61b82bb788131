// Rules over log records on real engines, for each relational store: from records to an alert and back, separation of tenants, and the cost
// limits of an organisation's rules.
import { setTimeout as sleep } from "node:timers/promises";
import { randomUUID } from "node:crypto";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import { openStores, type Stores } from "../../test/conformance/telemetry-stores.ts";
import { alertingApp, type AlertingApp } from "../../test/fixtures/alerting-app.ts";
import { openEngine } from "../../test/fixtures/clickhouse-engine.ts";
import { describeOnEachStore } from "../../test/fixtures/each-store.ts";
import { eventually } from "../../test/fixtures/processes.ts";
import type { ClickHouse } from "../engines/clickhouse/clickhouse-client.ts";
import { ApiError } from "../errors.ts";
import { logRecord, logsBody, nanosecondsOf, signingKey, stringAttribute } from "../ingest/otlp/otlp-body.fixture.ts";
import { ActiveSeries } from "../storage/metrics/active-series.ts";
import { checkLogs, COUNTED_BY, countedExpression, countSamples, type LogCondition } from "./log-condition.ts";
import { claimDue, type LogCountTables, settleCount } from "./log-count-rows.ts";
import { countLogs, matchingGroups } from "./log-count.ts";
import { LogCounter } from "./log-counter.ts";
import { type CheckedRule, validateRule } from "./alert-rule.ts";
import { RuleTable } from "./alert-rule-table.ts";

vi.setConfig({ testTimeout: 120_000, hookTimeout: 120_000 });

const HOSTILE = `it's "quoted" \\ {{ .x }}\n`;
const log = pino({ level: "silent" });
const { signal } = new AbortController();

let clickhouse: ClickHouse;
let stores: Stores;
const opened = new AsyncDisposableStack();

beforeAll(async () => {
  clickhouse = await openEngine(opened);
  stores = opened.use(await openStores(clickhouse));
});
afterAll(async () => await opened.disposeAsync());

async function send(orgId: string, source: string, messages: readonly string[]): Promise<void> {
  const time = nanosecondsOf(new Date());
  const records = messages.map((message, at) => logRecord(time + BigInt(at), message, { severityText: "ERROR" }));
  await stores.ingestLogs(signingKey(orgId), logsBody(records, [stringAttribute("service.name", source)]), { receivedAt: new Date() });
}

test("counts records by window, filters and organisation", async () => {
  const [orgId, other] = [randomUUID(), randomUUID()];
  await send(orgId, HOSTILE, [`one ${HOSTILE}`, `two ${HOSTILE}`, "three"]);
  await send(orgId, "calm", [`one ${HOSTILE}`]);
  await send(other, HOSTILE, [`one ${HOSTILE}`]);
  const condition = { filter: { q: HOSTILE, "not_label.a'": "'" }, window: "10m", by: [], operator: ">", threshold: 1 } as const;
  const ask = async (more: Partial<LogCondition>, atMs = Date.now()): Promise<unknown> => {
    const groups = await countLogs({ clickhouse, isUnused: () => false }, orgId, { ...condition, ...more }, { atMs, signal });
    return groups.map(({ values, count }) => [...values, count]);
  };
  expect(await ask({})).toEqual([[3]]);
  expect(await ask({}, Date.now() + 600_000)).toEqual([[0]]);
  expect(await ask({ filter: {} })).toEqual([[4]]);
  expect(await ask({ by: ["source"] })).toEqual([[HOSTILE, 2]]);
  expect(await ask({ by: ["source", "label.none"], operator: "<=", threshold: 1 })).toEqual([["calm", "", 1]]);
});

test("does not open an unused engine to count", async () => {
  const read = async (): Promise<never> => await Promise.reject(new Error("opened"));
  const condition = { filter: {}, window: "10m", by: [], operator: "==", threshold: 0 } as const;
  const unused = { clickhouse: { read }, isUnused: () => true };
  expect(await countLogs(unused, randomUUID(), condition, { atMs: Date.now(), signal })).toEqual([{ values: [], count: 0 }]);
});

test("keeps the reported values when other values get more records", async () => {
  const orgId = randomUUID();
  const quote = "'";
  await send(orgId, `known ${quote}`, ["1", "2"]);
  for (const n of [1, 2, 3]) await send(orgId, `crowd ${n}`, ["1", "2", "3"]);
  const known = [
    { values: [`known ${quote}`], count: 9 },
    { values: ["gone"], count: 9 },
  ];
  const condition = { filter: {}, window: "10m", by: ["source"], operator: ">", threshold: 1 } as const;
  const counted = { clickhouse, isUnused: () => false };
  const groups = await countLogs(counted, orgId, condition, { atMs: Date.now(), signal, known, maxGroups: 2 });
  expect(groups).toEqual([
    { values: [`known ${quote}`], count: 2 },
    { values: ["crowd 1"], count: 3 },
  ]);
});

test("the engine accepts the largest filter that a rule can have", async () => {
  const name = `not_label.${"'".repeat(200)}`;
  const patterns = { regex: Array.from({ length: 20 }, () => "a.b"), not_regex: Array.from({ length: 20 }, () => "'".repeat(40)) };
  const filter = { ...patterns, [name]: Array.from({ length: 10 }, () => "'".repeat(200)) };
  const condition = { filter, window: "10m", by: [], operator: ">", threshold: 1 } as const;
  checkLogs(condition);
  const known = Array.from({ length: 50 }, (_, n) => ({ values: [`${n}`.padEnd(256, "'"), "\u{1F600}".repeat(256)], count: 1 }));
  const counted = { clickhouse, isUnused: () => false };
  const ask = { ...condition, by: ["source", "label.a"] };
  expect(await countLogs(counted, randomUUID(), ask, { atMs: Date.now(), signal, known })).toEqual([]);
});

describeOnEachStore((engine) => {
  let service: AlertingApp;
  let counter: LogCounter | undefined;
  /** Takes the place of the log store. */
  let read: ClickHouse["read"] | undefined;
  const logs = {
    clickhouse: { read: (async (...asked) => await (read?.(...asked) ?? clickhouse.read(...asked))) as ClickHouse["read"] },
    isUnused: () => false,
  };
  /** Samples of counts, as they were reported. */
  const written: string[] = [];
  /** Organisations whose own queries use all slots, next to the organisations of the test. */
  const full = new Set<string>();
  /** Simulates that an organisation has no matching records any more, for example because they are too old. */
  const noRecordsOf = (orgId: string): void => {
    read = async (asked, options, work) => (asked === orgId ? (Buffer.from("") as never) : await clickhouse.read(asked, options, work));
  };

  const startCounter = (limit?: number, intervalMs = 1000): LogCounter =>
    new LogCounter({
      ...(limit !== undefined && { series: new ActiveSeries({ limitOf: () => limit }) }),
      db: service.database.tables<LogCountTables>(),
      isAlone: true,
      logs,
      isFull: (orgId) => full.has(orgId) || clickhouse.isFull(orgId),
      metrics: {
        write: async (identity, samples, atMs) => {
          written.push(samples.toString());
          await service.metrics.write(identity, samples, atMs);
          // Otherwise, the evaluator sees the samples only some seconds later. It is not awaited, because it would count as time of the rule.
          void service.engine.flush().catch(() => undefined);
        },
      },
      intervalMs,
      counted: () => undefined,
      log,
      timing: { pollMs: 50 },
    });

  beforeAll(async () => {
    service = await alertingApp({
      database: engine.database,
      countLogs: async (orgId, condition, signal) =>
        matchingGroups(condition, await countLogs(logs, orgId, condition, { atMs: Date.now(), signal })),
    });
    counter = startCounter();
  });
  afterAll(async () => {
    await counter?.[Symbol.asyncDispose]();
    await service?.[Symbol.asyncDispose]();
  });
  afterEach(() => {
    read = undefined;
    full.clear();
  });

  const body = (more: object = {}, rule: object = {}): object => ({
    name: randomUUID(),
    severity: "critical",
    logs: { filter: { level: "error" }, window: "1h", operator: ">", threshold: 2, ...more },
    ...rule,
  });
  const create = async (bearer: string, sent: object): Promise<string> => {
    const answer = await service.call("POST", "/rules", bearer, sent);
    expect([answer.statusCode, answer.body]).toEqual([201, answer.body]);
    return answer.json().id as string;
  };
  const table = () => new RuleTable(service.database.tables());
  const least = (name: string, more: Partial<LogCondition> = {}): CheckedRule => {
    const logs = { filter: {}, window: "5m", by: [], operator: ">", threshold: 1, ...more } as const;
    return validateRule({ name, severity: "info", for: "0s", enabled: true, labels: {}, annotations: {}, logs });
  };
  /** Stores a rule without a request, which would try it. */
  const store = async (orgId: string, name: string, more?: Partial<LogCondition>): Promise<string> =>
    (await table().create(orgId, least(name, more))).id;
  const status = async (bearer: string, id: string) =>
    (await service.call("GET", `/rules/${id}/status`, bearer)).json<{
      state: string;
      active_alerts: number;
      last_eval?: string;
      error?: string;
    }>();
  const counts = () => service.database.tables<LogCountTables>();
  /** Makes the counts due now. Windows are long, so that no record leaves one during the test. */
  const countNow = async (ids: readonly string[], more: object = {}): Promise<void> =>
    void (await counts()
      .updateTable("log_counts")
      .set({ due_at: new Date(), ...more })
      .where("rule_id", "in", ids)
      .execute());
  const becomes = async (bearer: string, id: string, state: string, counted: readonly string[] = []): Promise<void> =>
    void (await eventually(`${id} is ${state}`, async () => {
      // A count that was under way says when the next one is.
      if (counted.length > 0) await countNow(counted);
      return (await status(bearer, id)).state === state;
    }));
  const org = async (): Promise<{ orgId: string; bearer: string }> => {
    const orgId = await service.makeOrg();
    return { orgId, bearer: `${orgId}:admin` };
  };

  test("fires per value and organisation above the threshold, and resolves when the records are too old", async () => {
    const [red, blue] = [await org(), await org()];
    const sent = body(
      { filter: { level: "error", q: [`it's "quoted" \\`], "not_label.x": "'" }, by: ["source"] },
      { annotations: { text: "{{ $labels.source }} has {{ $value }}" } },
    );
    const crowd = Array.from({ length: 5 }, (_, n) => `${n} ${HOSTILE}`);
    await send(red.orgId, HOSTILE, crowd);
    await send(red.orgId, "calm", ["one", HOSTILE]);
    const [foreign, id] = [await create(blue.bearer, sent), await create(red.bearer, sent)];
    await becomes(red.bearer, id, "firing");
    const { alerts } = (await service.call("GET", "/prometheus/api/v1/alerts", red.bearer)).json().data;
    expect(alerts).toEqual([
      expect.objectContaining({
        labels: { alertname: expect.any(String), severity: "critical", source: HOSTILE },
        annotations: { text: `${HOSTILE} has 5` },
        value: "5",
      }),
    ]);
    const row = counts().selectFrom("log_counts").select("counted_at").where("rule_id", "=", foreign);
    await eventually("that of blue is counted", async () => (await row.executeTakeFirst())?.counted_at);
    expect(await status(blue.bearer, foreign)).toMatchObject({ state: "inactive", active_alerts: 0 });
    noRecordsOf(red.orgId);
    await becomes(red.bearer, id, "inactive", [id]);
    expect(await status(red.bearer, id)).not.toHaveProperty("error");
    const periods = await eventually("the history has it", async () => {
      const found = (await service.call("GET", `/rules/${id}/history`, red.bearer)).json();
      return found.length > 0 && found;
    });
    expect(periods).toEqual([expect.objectContaining({ state: "firing", labels: expect.objectContaining({ source: HOSTILE }) })]);
  });

  engine.once("an alert has field values under the field names, even if the counted series use the same names", async () => {
    const { orgId } = await org();
    const labelsOf = async (by: readonly string[]): Promise<object> => {
      const [id, condition] = [randomUUID(), { filter: {}, window: "5m", by, operator: ">", threshold: 1 } as const];
      const samples = countSamples(id, condition, [{ values: ["first", "second"], count: 2 }]);
      await service.metrics.write({ orgId, hostId: COUNTED_BY, node: COUNTED_BY }, Buffer.from(samples), Date.now());
      await service.engine.flush();
      const query = new URLSearchParams({ query: countedExpression(id, condition) });
      const found = await eventually("the series is seen", async () => {
        const answer = await service.metrics.query(orgId, "query", query);
        return (JSON.parse(String(answer.body)) as { data: { result: { metric: object }[] } }).data.result[0];
      });
      return found.metric;
    };
    const both = await Promise.all([labelsOf(["label.by_2", "source"]), labelsOf(["label.by_2", "label.by_1"])]);
    expect(both).toEqual([
      { by_2: "first", source: "second" },
      { by_2: "first", by_1: "second" },
    ]);
  });

  engine.once("fires without records, is returned as sent, and restarts when its condition changes", async () => {
    const { bearer } = await org();
    const sent = body({ filter: { source: "heart" }, operator: "==", threshold: 0 });
    const id = await create(bearer, sent);
    await becomes(bearer, id, "firing");
    const [stored] = (await service.call("GET", "/rules", bearer)).json();
    expect(stored).toMatchObject({ expr: 'count_logs({source="heart"}[1h]) == 0', logs: { filter: { source: "heart" }, by: [] } });
    const { id: _id, created_at: _at, ...again } = stored;
    expect((await service.call("PUT", `/rules/${id}`, bearer, again)).json()).toEqual(stored);
    const rules = (await service.call("GET", "/prometheus/api/v1/rules", bearer)).json().data.groups[0].rules;
    expect(rules).toEqual([expect.objectContaining({ query: stored.expr, type: "alerting" })]);
    const changed = { ...again, expr: undefined, logs: { ...again.logs, threshold: 1 } };
    expect((await service.call("PUT", `/rules/${id}`, bearer, changed)).statusCode).toBe(200);
    await becomes(bearer, id, "inactive");
    const metrics = { ...again, logs: undefined, expr: "vector(1) > 0" };
    expect((await service.call("PUT", `/rules/${id}`, bearer, metrics)).json()).not.toHaveProperty("logs");
    await becomes(bearer, id, "firing");
    expect((await service.call("DELETE", `/rules/${id}`, bearer)).statusCode).toBe(204);
  });

  engine.once("a condition that is changed and restored does not fire by its old count", async () => {
    const { orgId, bearer } = await org();
    await send(orgId, "shop", ["a", "b", "c"]);
    const sent = body({ by: ["source"] });
    const id = await create(bearer, sent);
    await becomes(bearer, id, "firing");
    const change = async (logs: object): Promise<void> => {
      const changed = await service.call("PUT", `/rules/${id}`, bearer, { ...sent, ...logs });
      expect([changed.statusCode, changed.json().logs]).toEqual([200, expect.not.objectContaining({ since: expect.anything() })]);
    };
    noRecordsOf(orgId);
    await change(body({ by: ["source"], threshold: 100 }));
    await becomes(bearer, id, "inactive");
    await change(sent);
    const row = counts().selectFrom("log_counts").select("counted_at").where("rule_id", "=", id);
    const countedAt = await eventually("counted again", async () => (await row.executeTakeFirst())?.counted_at?.getTime());
    const last = await eventually("evaluated since", async () => {
      const now = await status(bearer, id);
      return Date.parse(now.last_eval ?? "") > countedAt + 1000 && now;
    });
    expect(last).toMatchObject({ state: "inactive", active_alerts: 0 });
    // Unchanged conditions keep their counts, whatever other field of the rule changes.
    read = undefined;
    await becomes(bearer, id, "firing", [id]);
    await change({ ...sent, severity: "info" });
    expect(
      JSON.parse(
        (await counts().selectFrom("log_counts").select("last_reported").where("rule_id", "=", id).executeTakeFirstOrThrow()).last_reported,
      ),
    ).toEqual([{ values: ["shop"], count: 3 }]);
  });

  engine.once("keeps firing while nothing is counted, and resolves after another process took over", async () => {
    const { orgId, bearer } = await org();
    await send(orgId, "shop", ["a", "b", "c"]);
    const id = await create(bearer, body({ by: ["source"] }));
    await becomes(bearer, id, "firing");
    await counter?.[Symbol.asyncDispose]();
    // Simulates a process that was killed while it counted.
    await countNow([id], { locked_until: new Date(Date.now() + 3600_000) });
    process.kill(service.evaluator.child.pid ?? 0, "SIGKILL");
    const before = await eventually("evaluated again", async () => {
      const found = await service.call("GET", `/rules/${id}/status`, bearer);
      return found.statusCode === 200 && found.json().last_eval && found.json();
    });
    expect(before).toMatchObject({ state: "firing", active_alerts: 1 });
    noRecordsOf(orgId);
    counter = startCounter();
    await becomes(bearer, id, "inactive");
  });

  engine.once("keeps its last counts while the log store or one of its shards is unavailable, so that no alert resolves", async () => {
    const { orgId, bearer } = await org();
    await send(orgId, "shop", ["a", "b", "c"]);
    const id = await create(bearer, body({ by: ["source"] }));
    await becomes(bearer, id, "firing");
    read = async () => {
      throw new ApiError("storage_unavailable", "a shard is away");
    };
    written.length = 0;
    await eventually("reported again", async () => {
      await countNow([id]);
      return written.some((samples) => samples.includes(`rule="${id}"`) && samples.endsWith('by_1="shop"} 3\n'));
    });
    await eventually("the status has the failure", async () => (await status(bearer, id)).error?.includes("cannot be counted"));
    expect(await status(bearer, id)).toMatchObject({ state: "firing", active_alerts: 1 });
  });

  describe("the cost of rules", () => {
    engine.once("a failed count is reported in the rule's status and delays no other organisation", async () => {
      const [slow, quick] = [await org(), await org()];
      const own = [await create(slow.bearer, body()), await create(slow.bearer, body())];
      const id = own[0] ?? "";
      read = async (orgId, options, work) => {
        if (orgId !== slow.orgId) return await clickhouse.read(orgId, options, work);
        throw new ApiError("query_too_expensive", "too much");
      };
      const isReported = async (rule: string): Promise<boolean> => (await status(slow.bearer, rule)).error === "too much";
      for (const one of own) {
        await eventually("reported", async () => {
          await countNow([one]);
          return await isReported(one);
        });
      }
      await becomes(quick.bearer, await create(quick.bearer, body({ operator: "<=" })), "firing");
      const rules = (await service.call("GET", "/prometheus/api/v1/rules", slow.bearer)).json().data.groups[0].rules;
      expect(rules[0]).toMatchObject({ health: "err", lastError: "too much" });
      read = undefined;
      await eventually("counted", async () => {
        await countNow([id]);
        return (await status(slow.bearer, id)).error === undefined;
      });
    });

    engine.once("an organisation has one count in progress, and a slow one delays all its rules", async () => {
      const slow = await org();
      const ids = [await create(slow.bearer, body()), await create(slow.bearer, body()), await create(slow.bearer, body())];
      await counter?.[Symbol.asyncDispose]();
      let [running, atOnce, begun] = [0, 0, 0];
      read = async (orgId, options, work) => {
        if (orgId !== slow.orgId) return await clickhouse.read(orgId, options, work);
        return await clickhouse.read(orgId, options, async (ask, signal) => {
          running += 1;
          begun += 1;
          atOnce = Math.max(atOnce, running);
          // A slow count.
          await sleep(400);
          running -= 1;
          return await work(ask, signal);
        });
      };
      // Quick counts, so that both queues would take them.
      await countNow(ids, { took_ms: 1, counted_at: null });
      counter = startCounter();
      const rows = counts().selectFrom("log_counts").selectAll().where("org_id", "=", slow.orgId);
      const first = await eventually("the first is counted", async () => (await rows.execute()).find((row) => row.counted_at !== null));
      const waitsUntil = (first.counted_at?.getTime() ?? 0) + 9 * 399;
      for (const row of await rows.execute()) expect(row.due_at?.getTime()).toBeGreaterThanOrEqual(waitsUntil);
      expect(first.took_ms).toBeGreaterThanOrEqual(400);
      await eventually("the next", async () => begun > 1);
      expect(atOnce).toBe(1);
      await eventually("each has its turn", async () => (await rows.execute()).every((row) => row.counted_at !== null));
    });

    engine.once("a count that waits for slots of its organisation's queries delays no other organisation", async () => {
      const [busy, quick] = [await org(), await org()];
      const [waiting, id] = [await create(busy.bearer, body()), await create(quick.bearer, body())];
      await counter?.[Symbol.asyncDispose]();
      const { promise: over, resolve: end } = Promise.withResolvers<void>();
      // All turns that it has.
      const queries = [1, 2].map(async () => await clickhouse.read(busy.orgId, { labelLimits: undefined }, async () => await over));
      const rowOf = (rule: string) => counts().selectFrom("log_counts").selectAll().where("rule_id", "=", rule).executeTakeFirstOrThrow();
      try {
        await counts().updateTable("log_counts").set({ due_at: null, counted_at: null, took_ms: null, error: null }).execute();
        await countNow([waiting], { locked_until: null, due_at: new Date(0) });
        await countNow([id], { locked_until: null });
        counter = startCounter();
        await eventually("the other is counted", async () => (await rowOf(id)).counted_at);
        expect(await rowOf(waiting)).toMatchObject({ counted_at: null, error: null, locked_until: expect.any(Date) });
      } finally {
        end();
        await Promise.all(queries);
      }
      await eventually("it has its turn", async () => (await rowOf(waiting)).counted_at);
    });

    engine.once("does not count the wait for queries of other organisations as the organisation's own time", async () => {
      const { orgId } = await org();
      await counter?.[Symbol.asyncDispose]();
      const [id, next] = [await store(orgId, "1", { by: ["source"] }), await store(orgId, "2", { by: ["source"] })];
      await counts().updateTable("log_counts").set({ due_at: null }).where("rule_id", "not in", [id, next]).execute();
      read = async (_orgId, { admit }) => {
        // The wait for queries of others, before the count is admitted.
        await sleep(600);
        admit?.();
        return Buffer.from("") as never;
      };
      counter = startCounter();
      const rows = counts().selectFrom("log_counts").selectAll().where("rule_id", "in", [id, next]);
      const [first, other] = await eventually("one is counted", async () => {
        const found = (await rows.execute()).toSorted((a, b) => Number(b.counted_at !== null) - Number(a.counted_at !== null));
        return found[0]?.counted_at ? found : undefined;
      });
      expect(first?.took_ms).toBeGreaterThanOrEqual(599);
      expect(other?.due_at?.getTime()).toBeLessThan((first?.counted_at?.getTime() ?? 0) + 5 * 599);
    });

    engine.once("organisations whose queries leave no slot for their own rules delay no other organisation", async () => {
      await counter?.[Symbol.asyncDispose]();
      const blocked = await Promise.all(Array.from({ length: 20 }, async () => await service.makeOrg()));
      const { orgId } = await org();
      const ids: string[] = [];
      for (const one of blocked) ids.push(await store(one, "n", { by: ["source"] }));
      const id = await store(orgId, "n", { by: ["source"] });
      await counts()
        .updateTable("log_counts")
        .set({ due_at: null })
        .where("rule_id", "not in", [...ids, id])
        .execute();
      await countNow(ids, { due_at: new Date(0) });
      for (const one of blocked) full.add(one);
      const { promise: over, resolve: end } = Promise.withResolvers<void>();
      read = async (asked, ...rest) => {
        if (full.has(asked)) await over;
        return await clickhouse.read(asked, ...rest);
      };
      counter = startCounter();
      const row = counts().selectFrom("log_counts").select("counted_at").where("rule_id", "=", id);
      try {
        await eventually("the other is counted", async () => (await row.executeTakeFirst())?.counted_at);
        const waiting = counts()
          .selectFrom("log_counts")
          .select("rule_id")
          .where("counted_at", "is", null)
          .where("locked_until", "is not", null);
        expect((await waiting.execute()).map(({ rule_id }) => rule_id).toSorted()).toEqual(ids.toSorted());
      } finally {
        end();
      }
    });

    test("writing a rule again does not count it earlier", async () => {
      const { orgId } = await org();
      const begun: number[] = [];
      read = async (asked, options, work) => {
        if (asked !== orgId) return await clickhouse.read(asked, options, work);
        return await clickhouse.read(asked, options, async (ask, signal) => {
          begun.push(Date.now());
          // A slow count.
          await sleep(200);
          return await work(ask, signal);
        });
      };
      const id = await store(orgId, "n");
      const row = counts().selectFrom("log_counts").selectAll().where("rule_id", "=", id);
      const first = await eventually("counted", async () => {
        const { counted_at: at } = await row.executeTakeFirstOrThrow();
        return at !== null && { atMs: at.getTime() };
      });
      await table().delete(orgId, id);
      await store(orgId, "n", { threshold: 2 });
      await eventually("counted again", async () => begun.length > 1);
      expect(begun[1]).toBeGreaterThanOrEqual(first.atMs + 9 * 199);
    });

    engine.once("writes no more series than the organisation's limit, and keeps the known ones", async () => {
      const { orgId, bearer } = await org();
      for (const source of ["a", "b"]) await send(orgId, source, ["1", "2", "3"]);
      await counter?.[Symbol.asyncDispose]();
      counter = startCounter(3);
      const [first, second] = [
        await create(bearer, body({ by: ["source"] })),
        await create(bearer, body({ by: ["source"], threshold: 1 })),
      ];
      const reported = async (ids: readonly string[]): Promise<number> => {
        const rows = await counts().selectFrom("log_counts").select(["last_reported", "error"]).where("rule_id", "in", ids).execute();
        return rows.reduce((sum, { last_reported: groups }) => sum + (JSON.parse(groups) as unknown[]).length, 0);
      };
      await eventually("both are counted", async () => (await reported([first])) > 0 && (await reported([second])) > 0);
      expect(await reported([first, second])).toBe(3);
      const errors = await Promise.all([first, second].map(async (id) => (await status(bearer, id)).error));
      expect(errors.filter((error) => error?.includes("produced more than 10000 series"))).toHaveLength(1);
      // After another count, nothing that was reported is lost.
      await counts().updateTable("log_counts").set({ counted_at: null }).where("rule_id", "in", [first, second]).execute();
      await countNow([first, second]);
      const row = counts().selectFrom("log_counts").select("rule_id").where("counted_at", "is not", null);
      await eventually("again", async () => (await row.where("rule_id", "in", [first, second]).execute()).length === 2);
      expect(await reported([first, second])).toBe(3);
      await counter[Symbol.asyncDispose]();
      counter = startCounter();
    });

    test("several processes never count the same rule at the same time", async () => {
      const { bearer } = await org();
      await counter?.[Symbol.asyncDispose]();
      const ids = [await create(bearer, body()), await create(bearer, body()), await create(bearer, body())];
      await counts().updateTable("log_counts").set({ due_at: null }).where("rule_id", "not in", ids).execute();
      const claims = await Promise.all(Array.from({ length: 5 }, () => claimDue(counts(), new Date(), { busy: [] })));
      expect(claims.flatMap((claim) => claim?.ruleId ?? []).sort()).toEqual(ids.sort());
      counter = startCounter();
    });

    test("a rule that was due or claimed before the clock was set back by an hour is counted", async () => {
      const { bearer } = await org();
      await counter?.[Symbol.asyncDispose]();
      const [due, claimed] = [await create(bearer, body()), await create(bearer, body())];
      await counts().updateTable("log_counts").set({ due_at: null }).where("rule_id", "not in", [due, claimed]).execute();
      const inAnHour = new Date(Date.now() + 3_600_000);
      await counts().updateTable("log_counts").set({ due_at: inAnHour }).where("rule_id", "=", due).execute();
      await counts().updateTable("log_counts").set({ locked_until: inAnHour }).where("rule_id", "=", claimed).execute();
      const claims = [await claimDue(counts(), new Date(), { busy: [] }), await claimDue(counts(), new Date(), { busy: [] })];
      expect(claims.flatMap((claim) => claim?.ruleId ?? []).sort()).toEqual([due, claimed].sort());
      expect(await claimDue(counts(), new Date(), { busy: [] })).toBeUndefined();
      counter = startCounter();
    });

    test("rotates the organisation's rules after a count, with as many statements for fifty as for one", async () => {
      const [{ orgId }, { orgId: other }] = [await org(), await org()];
      await counter?.[Symbol.asyncDispose]();
      const now = new Date(Date.now() + 3_600_000);
      const ids: string[] = [];
      for (let n = 0; n < 50; n += 1) {
        const id = await store(orgId, String(n));
        await countNow([id], { due_at: new Date(now.getTime() - 100_000 + n) });
        ids.push(id);
      }
      const foreign = await store(other, "other");
      const [last = ""] = ids.splice(49);
      await countNow([last], { due_at: new Date(now.getTime() + 100_000) });
      await counts()
        .updateTable("log_counts")
        .set({ due_at: null })
        .where("rule_id", "not in", [...ids, last, foreign])
        .execute();
      const due = await claimDue(counts(), now, { busy: [other] });
      if (!due) throw new Error("none is due");
      expect(due.ruleId).toBe(ids[0]);
      let statements = 0;
      const counting = counts().withPlugin({
        transformQuery: ({ node }) => {
          statements += 1;
          return node;
        },
        transformResult: async ({ result }) => result,
      });
      await settleCount(counting, due, { now, tookMs: 5000, busyMs: 1000, nextAt: now, reported: [], error: null });
      expect(statements).toBe(3);
      const rows = await counts().selectFrom("log_counts").selectAll().where("due_at", "is not", null).orderBy("due_at").execute();
      expect(rows.map(({ rule_id }) => rule_id)).toEqual([foreign, ...ids.slice(1), ids[0], last]);
      expect(rows[1]?.due_at).toEqual(new Date(now.getTime() + 9000));
      counter = startCounter();
    });

    test("a condition with reordered filters keeps its state", async () => {
      const { orgId } = await org();
      await counter?.[Symbol.asyncDispose]();
      const id = await store(orgId, "n", { by: ["source"], filter: { level: "error", q: "a" } });
      const reported = JSON.stringify([{ values: ["shop"], count: 2 }]);
      await countNow([id], { last_reported: reported });
      const row = counts().selectFrom("log_counts").select("last_reported").where("rule_id", "=", id);
      await table().replace(orgId, id, least("n", { by: ["source"], filter: { q: "a", level: "error" } }));
      expect(await row.executeTakeFirst()).toEqual({ last_reported: reported });
      await table().replace(orgId, id, least("n", { by: ["source"], filter: { q: "b", level: "error" } }));
      expect(await row.executeTakeFirst()).toEqual({ last_reported: "[]" });
      counter = startCounter();
    });

    engine.once("an organisation can have 50 rules over logs, apart from rules over metrics", async () => {
      const { orgId, bearer } = await org();
      for (let n = 0; n < 50; n += 1) await table().create(orgId, { ...least(String(n)), enabled: false });
      const refused = await service.call("POST", "/rules", bearer, { ...body(), enabled: false });
      expect([refused.statusCode, refused.json().error]).toEqual([400, "invalid_field"]);
      expect(refused.json().message).toMatch(/^logs: an organisation has at most 50 log rules/);
      const id = await create(bearer, { name: "over metrics", severity: "info", expr: "up == 0", enabled: false });
      expect((await service.call("PUT", `/rules/${id}`, bearer, { ...body(), name: "over metrics" })).statusCode).toBe(400);
    });

    engine.once("reports in the status a rule whose window is too short for the evaluation interval, and counts it", async () => {
      const { orgId, bearer } = await org();
      await send(orgId, "shop", ["a", "b", "c"]);
      await counter?.[Symbol.asyncDispose]();
      counter = startCounter(undefined, 60_000);
      const id = await create(bearer, body({ window: "1m59s" }));
      await becomes(bearer, id, "firing");
      expect((await status(bearer, id)).error).toMatch(/^logs\.window: must be at least 120s: rules are evaluated every 60s, so/);
      await counter[Symbol.asyncDispose]();
      counter = startCounter();
    });

    test("reports in its status a rule that no replica counts", async () => {
      const { bearer } = await org();
      const id = await create(bearer, body());
      await eventually(
        "counted",
        async () => (await counts().selectFrom("log_counts").selectAll().where("rule_id", "=", id).executeTakeFirst())?.counted_at,
      );
      expect(await status(bearer, id)).not.toHaveProperty("error");
      const long = new Date("2026-11-01T00:00:00Z");
      await countNow([id], { since_at: long, counted_at: long, due_at: null });
      expect((await status(bearer, id)).error).toMatch(/^its records were last counted at 2026-11-01T00:00:00\.000Z: /);
    });
  });

  engine.once("the preview of a draft returns its number of alerts, and rejects an invalid regular expression with its field", async () => {
    const { orgId, bearer } = await org();
    await send(orgId, "one", ["a", "b", "c"]);
    await send(orgId, "two", ["a", "b", "c"]);
    const draft = async (more: object): Promise<unknown> => {
      const { logs: condition } = body(more) as { logs: object };
      return (await service.call("POST", "/rules/validate", bearer, { logs: condition })).json();
    };
    expect(await draft({ by: ["source"] })).toEqual({ valid: true, matching_series: 2 });
    expect(await draft({ threshold: 100 })).toEqual({ valid: true, matching_series: 0 });
    const why = expect.stringMatching(/^logs\.filter\.regex: not a regular expression of RE2: /);
    expect(await draft({ filter: { regex: "[" } })).toEqual({ valid: false, message: why });
    const refused = await service.call("POST", "/rules", bearer, body({ filter: { regex: "(" } }));
    expect([refused.statusCode, refused.json()]).toEqual([400, { error: "invalid_field", message: why }]);
  });
});

// Burn rate rules on a real vmalert: their recorded burn rates and alerts over four days of generated events, by vmalert's replay, compared
// with a pass over every minute; and a rule that fires and resolves in a running service.
import { randomUUID } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { toolPath } from "../../hack/fetch-tools.ts";
import { alertingApp, type AlertingApp } from "../../test/fixtures/alerting-app.ts";
import { temporaryFolder } from "../../test/fixtures/processes.ts";
import { renderGroup, renderRuleFile, type RuleGroup } from "../engines/vmalert/rule-files.ts";
import type { AlertingTables } from "./alert-rule-table.ts";
import { groupOf } from "./rule-groups.ts";
import { RuleTable } from "./alert-rule-table.ts";
import { EVENTS, RECORDED_BY, type SloBody } from "./slo.ts";
import { BURN_RATE_ALERTS, recordingGroup } from "./slo-rules.ts";
import { SloTable } from "./slo-table.ts";

vi.setConfig({ testTimeout: 240_000, hookTimeout: 120_000 });

const [MINUTE_MS, DAY_MINUTES] = [60_000, 1440];
const MINUTES: Readonly<Record<string, number>> = { "5m": 5, "30m": 30, "1h": 60, "2h": 120, "6h": 360, "1d": 1440, "3d": 4320 };
const BODY: SloBody = {
  name: "checkout",
  description: "",
  objective: 99.9,
  window: "30d",
  indicator: { availability: { service: "checkout" } },
  no_traffic: "ignore",
  alerts: true,
  labels: { team: "shop" },
};

let service: AlertingApp;
beforeAll(async () => void (service = await alertingApp()));
afterAll(async () => await service?.[Symbol.asyncDispose]());

/** Events of a minute, as the recorder writes them. */
function lines(slo: { id: string; definition: string }, minuteMs: number, { good, total }: { good: number; total: number }): string {
  const labels = (event: string): string => `${EVENTS}{slo_id="${slo.id}",definition="${slo.definition}",event="${event}"}`;
  const atMs = minuteMs + MINUTE_MS - 1;
  return `${labels("good")} ${good} ${atMs}\n${labels("total")} ${total} ${atMs}\n`;
}

test("alerts of every row of the table fire and resolve where both windows burn at its rate, and at no other time", async () => {
  using folder = temporaryFolder();
  const orgId = await service.makeOrg();
  const db = service.database.tables<AlertingTables>();
  const slo = await new SloTable(db).create(orgId, BODY);
  const endMs = Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS - 10 * MINUTE_MS;
  const days = 9;
  const startMs = endMs - days * DAY_MINUTES * MINUTE_MS;
  /** Share of bad events in budgets, by minute: incidents at and just below each rate of the table. */
  const burnAt = (minute: number): number => {
    const day = minute / DAY_MINUTES;
    if (day >= 4 && day < 4 + 70 / DAY_MINUTES) return 16;
    if (day >= 4.3 && day < 4.3 + 70 / DAY_MINUTES) return 14;
    if (day >= 5 && day < 5.3) return 7;
    if (day >= 6 && day < 7.2) return 3.5;
    if (day >= 7.4) return day < 8.6 ? 0.9 : 0;
    return 0;
  };
  // An hour without traffic.
  const totalAt = (minute: number): number =>
    minute >= 4.5 * DAY_MINUTES && minute < 4.5 * DAY_MINUTES + 60 ? 0 : 10_000 + (minute % 7) * 10;
  const events = Array.from({ length: days * DAY_MINUTES }, (_, minute) => {
    const total = totalAt(minute);
    return { good: total - Math.round(total * 0.001 * burnAt(minute)), total };
  });
  const text = events.map((event, minute) => (event.total === 0 ? "" : lines(slo, startMs + minute * MINUTE_MS, event))).join("");
  await service.metrics.write({ orgId, hostId: RECORDED_BY, node: RECORDED_BY }, Buffer.from(text), Date.now());
  const forged = ["1h", "5m"].map(
    (window) => `slo:burn_rate{slo_id="${slo.id}",window="${window}"} 99 ${startMs + 3.5 * DAY_MINUTES * MINUTE_MS}\n`,
  );
  await service.metrics.write({ orgId, hostId: "a sender", node: "n" }, Buffer.from(forged.join("")), Date.now());
  await service.engine.flush();

  const rules = await new RuleTable(db).list(orgId);
  const alerts = { ...groupOf(orgId, 1, rules), intervalMs: MINUTE_MS };
  const recording = recordingGroup(groupOf(orgId, 1, []), [slo], MINUTE_MS);
  const fromMs = startMs + 3 * DAY_MINUTES * MINUTE_MS;
  const replay = async (name: string, group: RuleGroup): Promise<void> => {
    const file = join(folder.path, `${name}.yml`);
    writeFileSync(file, renderRuleFile([renderGroup(group)]));
    const engine = [`-datasource.url=${service.engine.queryUrl}`, `-remoteWrite.url=${service.engine.writeUrl}`];
    const range = [`-replay.timeFrom=${new Date(fromMs).toISOString()}`, `-replay.timeTo=${new Date(endMs).toISOString()}`];
    const listen = [
      "-httpListenAddr=127.0.0.1:0",
      "-replay.disableProgressBar",
      "-replay.rulesDelay=100ms",
      "-replay.maxDatapointsPerQuery=9000",
    ];
    await execa(await toolPath("vmalert"), [`-rule=${file}`, ...engine, ...range, ...listen, "-loggerLevel=ERROR"]);
    await service.engine.flush();
  };
  await replay("recording", recording);
  await replay("alerts", alerts);

  const sums = { bad: [0], total: [0] };
  for (const { good, total } of events) {
    sums.bad.push((sums.bad.at(-1) ?? 0) + total - good);
    sums.total.push((sums.total.at(-1) ?? 0) + total);
  }
  const burnRate = (endMinute: number, window: string): number => {
    const from = Math.max(0, endMinute - (MINUTES[window] ?? 0));
    const [bad, total] = [(sums.bad[endMinute] ?? 0) - (sums.bad[from] ?? 0), (sums.total[endMinute] ?? 0) - (sums.total[from] ?? 0)];
    return total === 0 ? 0 : bad / total / 0.001;
  };
  const ask = async (query: string) => {
    const range = { start: String(fromMs / 1000), end: String(endMs / 1000), step: "60s", nocache: "1" };
    const answer = await service.metrics.query(orgId, "query_range", new URLSearchParams({ query, ...range }));
    const { result } = JSON.parse(answer.body.toString()).data as { result: { values: [number, string][] }[] };
    return new Map(result.flatMap(({ values }) => values.map(([seconds, value]) => [seconds * 1000, Number(value)])));
  };
  for (const { burnRate: threshold, long, short, severity } of BURN_RATE_ALERTS) {
    const firing = await ask(
      `last_over_time(ALERTS{alertstate="firing",slo_id="${slo.id}",window="${long}",team="shop",severity="${severity}"}[30s])`,
    );
    const recorded = await ask(`last_over_time(slo:burn_rate{slo_id="${slo.id}",window="${long}",slo="checkout"}[30s])`);
    const [expected, actual]: [number[], number[]] = [[], []];
    let differences = 0;
    for (let atMs = fromMs; atMs < endMs; atMs += MINUTE_MS) {
      const minute = (atMs - startMs) / MINUTE_MS;
      if (burnRate(minute, long) > threshold && burnRate(minute, short) > threshold) expected.push(minute);
      if (firing.has(atMs)) actual.push(minute);
      if (Math.abs((recorded.get(atMs) ?? Number.NaN) - burnRate(minute, long)) > 1e-6) differences += 1;
    }
    console.info(
      `${threshold} × ${long}/${short}: ${expected.length} minutes expected, ${actual.length} firing, ${differences} differing burn rates`,
    );
    expect({ long, differences }).toEqual({ long, differences: 0 });
    expect(expected.length, `some incident reaches ${threshold} over ${long}`).toBeGreaterThan(10);
    expect(expected.at(-1), "and ends").toBeLessThan(days * DAY_MINUTES - 5);
    expect({ long, actual }).toEqual({ long, actual: expected });
  }
});

test("a rule fires in a running service when its budget burns, and resolves when good events outnumber the bad ones", async () => {
  const orgId = await service.makeOrg();
  const admin = `${orgId}:admin`;
  const { name, objective, indicator } = BODY;
  const created = await service.call("POST", "/slos", admin, { name, objective, indicator });
  expect(created.statusCode, created.body).toBe(201);
  const slo = await new SloTable(service.database.tables<AlertingTables>()).find(orgId, created.json().id);
  const rules = (await service.call("GET", "/rules", admin)).json<{ id: string; name: string; slo_id: string }[]>();
  expect(rules.map((rule) => [rule.name, rule.slo_id])).toEqual(
    BURN_RATE_ALERTS.map(({ burnRate, long }) => [`SLO checkout: burn rate ${burnRate} over ${long}`, slo.id]),
  );
  const write = async (total: number): Promise<void> => {
    const nowMs = Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS;
    const minutes = Array.from({ length: 90 }, (_, at) => lines(slo, nowMs - (at + 1) * MINUTE_MS, { good: total - 20, total }));
    await service.metrics.write({ orgId, hostId: RECORDED_BY, node: RECORDED_BY }, Buffer.from(minutes.join("")), Date.now());
  };
  const [fast] = rules;
  const state = async (): Promise<string> => (await service.call("GET", `/rules/${fast?.id}/status`, admin)).json().state;
  await write(1000);
  await vi.waitFor(async () => expect(await state()).toBe("firing"), { timeout: 60_000, interval: 500 });
  await write(1_000_000);
  await vi.waitFor(async () => expect(await state()).toBe("inactive"), { timeout: 60_000, interval: 500 });

  for (const [method, more] of [
    ["PUT", { name: "x", severity: "info", expr: "up == 0" }],
    ["DELETE", undefined],
  ] as const) {
    const refused = await service.call(method, `/rules/${fast?.id}`, admin, more);
    expect({ status: refused.statusCode, ...refused.json() }).toMatchObject({ status: 409, message: expect.stringContaining("generated") });
  }
  // The ids stay, so that alerts keep their state; without alerts there are no rules.
  const changed = { name: "new name", objective: 99, indicator };
  expect((await service.call("PUT", `/slos/${slo.id}`, admin, changed)).statusCode).toBe(200);
  const renamed = (await service.call("GET", "/rules", admin)).json<{ id: string; name: string }[]>();
  expect(renamed.map(({ id }) => id)).toEqual(rules.map(({ id }) => id));
  expect(renamed[0]?.name).toBe("SLO new name: burn rate 14.4 over 1h");
  expect((await service.call("PUT", `/slos/${slo.id}`, admin, { ...changed, alerts: false })).statusCode).toBe(200);
  expect((await service.call("GET", "/rules", admin)).json()).toEqual([]);
  const other = `${await service.makeOrg(randomUUID())}:admin`;
  expect((await service.call("DELETE", `/slos/${slo.id}`, other)).statusCode).toBe(404);
  expect((await service.call("DELETE", `/slos/${slo.id}`, admin)).statusCode).toBe(204);
});

test("an objective that is wrong is refused with its field", async () => {
  const admin = `${await service.makeOrg()}:admin`;
  const availability = { service: "a" };
  const total = "increase(a[$window])";
  const wrong: readonly (readonly [more: object, field: string])[] = [
    [{ indicator: { promql: { good: "sum(", total } } }, "indicator.promql.good"],
    [{ indicator: { promql: { good: "sum(increase(a[$window])", total } } }, "indicator.promql.good"],
    [{ indicator: { promql: { good: "a[$window]) + (a", total: "a[$window]" } } }, "indicator.promql.good"],
    [{ indicator: { promql: { good: "up", total: "up" } } }, "indicator.promql"],
    [{ indicator: { promql: { total } } }, "promql"],
    [{ indicator: { logs: { total: { query: "level:error AND (" }, bad: {} } } }, "query"],
    [{ indicator: { latency: { service: "a", below: "soon" } } }, "below"],
    [{ indicator: {} }, "indicator"],
    [{ indicator: { availability, latency: { service: "a", below: "1s" } } }, "indicator"],
    [{ objective: 100 }, "objective"],
    [{ window: "3d" }, "window"],
    [{ labels: { slo_id: "x" } }, "labels.slo_id"],
  ];
  for (const [more, field] of wrong) {
    const answer = await service.call("POST", "/slos", admin, { name: "x", objective: 99, indicator: { availability }, ...more });
    expect([more, answer.statusCode, answer.json().message]).toEqual([more, 400, expect.stringContaining(field)]);
  }
});

test("a comment at the end of an expression does not hide what follows it", async () => {
  const orgId = await service.makeOrg();
  const indicator = { promql: { good: "increase(a[$window]) # )", total: "increase(a[$window])" } };
  const answer = await service.call("POST", "/slos", `${orgId}:admin`, { name: "x", objective: 99, indicator });
  expect(answer.statusCode, answer.body).toBe(201);
});

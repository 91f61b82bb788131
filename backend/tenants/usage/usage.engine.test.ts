// Limits and usage of organisations over HTTP, on both engines of the relational store. Two replicas share the database.
import { randomUUID } from "node:crypto";
import type { FastifyInstance } from "fastify";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { sign } from "../../../common/protocol/signature.ts";
import {
  accountsApp,
  type AccountsApp,
  type AccountsAppOptions,
  brief,
  type Clock,
  directKey,
  makeOrg,
  type Org,
} from "../../../test/fixtures/accounts-app.ts";
import { describeOnEachStore } from "../../../test/fixtures/each-store.ts";
import type { Guards } from "../../http/request-identity.ts";
import { registerIngestRoutes } from "../../ingest/ingest-routes.ts";
import { createLog } from "../../log.ts";
import { createOwnMetrics } from "../../operations/own-metrics.ts";
import { UsageCounter } from "./counter.ts";
import { OrgLimits, type UsageTables } from "./usage-limits.ts";
import { stub } from "../../../test/fixtures/stub.ts";
import { registerUsageRoutes } from "./usage-routes.ts";

const DAY_MS = 86_400_000;

describeOnEachStore((store) => {
  let backend: AccountsApp;
  let replica: AccountsApp;
  let org: Org;
  let other: Org;
  let operator: string;
  let key: string;
  const counters: UsageCounter[] = [];
  const limits: OrgLimits[] = [];
  const clock: Clock = { ms: Date.parse("2026-11-21T23:59:00Z") };

  const opened = async (): Promise<AccountsApp> => {
    const db = store.database.tables<UsageTables>();
    const usage = new UsageCounter({ db, log: createLog("silent"), now: () => clock.ms, writeEveryMs: 2 ** 30 });
    const orgLimits = new OrgLimits({ db, defaults: { bytesPerSecond: 0, recordsPerSecond: 1000, activeSeries: 0 } });
    counters.push(usage);
    limits.push(orgLimits);
    const routes = (app: FastifyInstance, guards: Guards): void => {
      registerUsageRoutes(app, { db: store.database.tables(), limits: orgLimits, guards, now: () => clock.ms });
      const stored = async (_key: unknown, body: Buffer) => ({
        accepted: body.length,
        dropped: { too_old: 3 },
        storedBytes: 2 * body.length,
      });
      registerIngestRoutes(app, {
        guards,
        metrics: async (signer, body) => ({ ...(await stored(signer, body)), activeSeries: body.length }),
        logs: stored,
        traces: async () => ({ accepted: 0, dropped: {} }),
        ownMetrics: createOwnMetrics({ defaults: false }),
        memoryBytes: 64 * 1024 * 1024,
        limitsOf: (orgId) => orgLimits.of(orgId),
        usage,
        draining: () => false,
      });
    };
    const options: AccountsAppOptions = { clock, routes, hasIngest: false };
    return await accountsApp(store.database, options);
  };

  beforeAll(async () => {
    backend = await opened();
    replica = await opened();
    org = await makeOrg(backend);
    other = await makeOrg(backend);
    key = (await directKey(backend, org.token)).api_key;
  });
  beforeEach(async () => {
    operator = await backend.login();
    org.token = await backend.login(org.email, org.password);
  });
  afterAll(async () => {
    await replica?.[Symbol.asyncDispose]();
    await backend?.[Symbol.asyncDispose]();
  });

  const send = (path: string, bytes: number, on = backend) =>
    on.call("POST", path, {
      headers: sign(key, "POST", path, clock.ms / 1000),
      body: "x".repeat(bytes),
    });
  const set = (bearer: string, body: object, id = org.orgId) => backend.call("PUT", `/api/orgs/${id}/limits`, { bearer, body });
  const usage = async (query = "", bearer = org.token) => (await backend.call("GET", `/api/usage${query}`, { bearer })).json();
  const written = async () => {
    for (const counter of counters) await counter.write();
  };

  test("usage counts stored data by day and signal, of all replicas, for the own organisation only", async () => {
    await send("/ingest", 10);
    await send("/ingest", 5, replica);
    await send("/ingest/logs/otlp", 7);
    await send("/ingest/traces", 7);
    await send("/ingest", 0);
    await written();
    clock.ms += 60_000;
    await send("/ingest", 1);
    await written();
    await written();
    expect(await usage()).toEqual([
      { day: "2026-11-22", signal: "metrics", bytes: 2, records: 1, active_series: 1 },
      { day: "2026-11-21", signal: "logs", bytes: 14, records: 7, active_series: null },
      { day: "2026-11-21", signal: "metrics", bytes: 30, records: 15, active_series: 10 },
    ]);
    expect(await usage("?days=1")).toEqual([{ day: "2026-11-22", signal: "metrics", bytes: 2, records: 1, active_series: 1 }]);
    expect(await usage("", await backend.login(other.email, other.password))).toEqual([]);
    for (const days of ["0", "367", "x"])
      expect(brief(await backend.call("GET", `/api/usage?days=${days}`, { bearer: org.token }))).toEqual([400, "invalid_parameter"]);
  });

  test("operators see the usage of all organisations with shares of their limits, those with the most bytes first", async () => {
    const otherKey = (await directKey(backend, await backend.login(other.email, other.password))).api_key;
    const headers = sign(otherKey, "POST", "/ingest/logs/otlp", clock.ms / 1000);
    await backend.call("POST", "/ingest/logs/otlp", { headers, body: "x".repeat(100) });
    await written();
    await set(operator, { bytes_per_second: 1, active_series: 20 });
    const all = (bearer: string, query = "") => backend.call("GET", `/api/orgs/usage${query}`, { bearer });
    const rows = (await all(operator, "?days=2")).json<Record<string, unknown>[]>();
    expect(rows.map(({ org_id, signal, bytes, records }) => [org_id, signal, bytes, records])).toEqual([
      [other.orgId, "logs", 200, 100],
      [org.orgId, "metrics", 32, 16],
      [org.orgId, "logs", 14, 7],
    ]);
    // From midnight of 21 November until now is a day and a few seconds.
    const seconds = (clock.ms - Date.parse("2026-11-21")) / 1000;
    expect(rows[1]).toMatchObject({
      name: expect.any(String),
      active_series: 10,
      limits: { bytes_per_second: 1, records_per_second: 1000, active_series: 20 },
      bytes_share: expect.closeTo(32 / seconds, 6),
      records_share: expect.closeTo(16 / seconds / 1000, 9),
      series_share: 0.5,
      share_of_all: expect.closeTo(32 / 246, 6),
    });
    expect(rows[0]).toMatchObject({ bytes_share: null, series_share: null });
    expect((await all(operator, "?days=1")).json()).toHaveLength(2);
    expect(brief(await all(org.token))).toEqual([403, "forbidden"]);
    await set(operator, {});
    await store.database.tables<UsageTables>().deleteFrom("usage_days").where("org_id", "=", other.orgId).execute();
  });

  test("writes failed updates later, and keeps the rest for a year", async () => {
    const db = store.database.tables<UsageTables>();
    const failing = stub<typeof db>({
      insertInto: () => {
        throw new Error("away");
      },
    });
    let at: typeof db = failing;
    const flaky = new Proxy(db, { get: (_target, name) => bound(at, name) });
    const counter = new UsageCounter({ db: flaky, log: createLog("silent"), now: () => clock.ms + 400 * DAY_MS, writeEveryMs: 2 ** 30 });
    counter.count(other.orgId, "traces", 5, 2, 6);
    // Usage of an organisation that was removed by hand.
    counter.count(randomUUID(), "traces", 1, 1);
    await counter.write();
    counter.count(other.orgId, "traces", 5, 2);
    at = db;
    await counter[Symbol.asyncDispose]();
    expect(await db.selectFrom("usage_days").selectAll().execute()).toEqual([
      { org_id: other.orgId, day: "2027-12-27", signal: "traces", bytes: 10, records: 4, active_series: 6 },
    ]);
  });

  test("only operators set limits, and users see the limits of their organisation", async () => {
    const own = async (bearer = org.token) => (await backend.call("GET", "/api/limits", { bearer })).json();
    expect(await own()).toEqual({ bytes_per_second: 0, records_per_second: 1000, active_series: 0 });
    expect((await set(operator, { bytes_per_second: 50 })).json()).toEqual({
      bytes_per_second: 50,
      records_per_second: 1000,
      active_series: 0,
    });
    expect(await own()).toEqual({ bytes_per_second: 50, records_per_second: 1000, active_series: 0 });
    expect((await backend.call("GET", `/api/orgs/${org.orgId}/limits`, { bearer: operator })).json()).toEqual(await own());
    expect((await set(operator, { active_series: 9 })).json()).toEqual({ bytes_per_second: 0, records_per_second: 1000, active_series: 9 });
    expect((await set(operator, {})).json()).toEqual({ bytes_per_second: 0, records_per_second: 1000, active_series: 0 });
    for (const body of [
      { bytes_per_second: -1 },
      { records_per_second: 1.5 },
      { bytes_per_second: "1" },
      { series: 1 },
      { active_series: -1 },
    ])
      expect(brief(await set(operator, body))).toEqual([400, "invalid_field"]);
  });

  test("ingest above a limit gets 429 with its name, at every replica within 5 seconds; another organisation continues", async () => {
    const otherKey = (await directKey(backend, await backend.login(other.email, other.password))).api_key;
    await set(operator, { records_per_second: 1 });
    for (const one of limits) await one.refresh();
    for (const on of [backend, replica]) {
      expect((await send("/ingest", 100, on)).statusCode).toBe(204);
      const refused = await send("/ingest", 1, on);
      expect([...brief(refused), refused.json().message]).toEqual([429, "over_quota", expect.stringContaining("records_per_second is 1")]);
      expect(Number(refused.headers["retry-after"])).toBeGreaterThan(0);
      const path = "/ingest";
      const free = sign(otherKey, "POST", path, clock.ms / 1000);
      expect((await on.call("POST", path, { headers: free, body: "xx" })).statusCode).toBe(204);
    }
    await set(operator, { records_per_second: 0 });
    for (const one of limits) await one.refresh();
    for (const on of [backend, replica]) expect((await send("/ingest", 1, on)).statusCode).toBe(204);
  });
});

/** Accesses private members of kysely. */
function bound(of: object, name: string | symbol): unknown {
  const value: unknown = Reflect.get(of, name);
  return typeof value === "function" ? value.bind(of) : value;
}

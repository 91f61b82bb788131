// Retention and deletion of organisations over HTTP, on both engines of the relational store.
import { randomUUID } from "node:crypto";
import type { FastifyInstance } from "fastify";
import { afterAll, beforeAll, expect, test } from "vitest";
import { accountsApp, type AccountsApp, directKey, makeOrg, OPERATOR, type Org } from "../../../test/fixtures/accounts-app.ts";
import { describeOnEachStore } from "../../../test/fixtures/each-store.ts";
import { type AllTables, fillAccounts } from "../../../test/fixtures/filled-accounts.ts";
import { stub } from "../../../test/fixtures/stub.ts";
import type { Guards } from "../../http/request-identity.ts";
import { TENANT_TABLES, tenantDatabase } from "../../engines/relational/tenant-database.ts";
import type { Telemetry } from "../../telemetry.ts";
import { beginDeletion, settleDeletion } from "./deletion.ts";
import { OrgRetention } from "./retention.ts";
import { DataRemoval, type RemovalTables } from "./removal-loop.ts";
import { registerRemovalRoutes } from "./removal-routes.ts";
import { createLog } from "../../log.ts";

type Rows = Record<string, Record<string, unknown>>;

describeOnEachStore((store) => {
  let backend: AccountsApp;
  let operator: string;
  let org: Org;
  const retention = new OrgRetention({ logsDays: 30, tracesDays: 30, metricsDays: 30 });

  beforeAll(async () => {
    const routes = (app: FastifyInstance, guards: Guards): void =>
      registerRemovalRoutes(app, { db: store.database.tables(), retention, sessions: { forget: () => undefined }, guards });
    backend = await accountsApp(store.database, { routes });
    retention.useDatabase(store.database.tables());
    operator = await backend.login();
    org = await makeOrg(backend);
  });
  afterAll(async () => await backend?.[Symbol.asyncDispose]());

  /** The number of rows of an organisation by table, without empty tables. */
  const rowsOf = async (orgId: string): Promise<Record<string, number>> => {
    const own = tenantDatabase(store.database.tables<Rows>(), orgId);
    const counts: Record<string, number> = {};
    for (const table of Object.keys(TENANT_TABLES)) {
      const { length } = await own.selectFrom(table).selectAll().execute();
      if (length > 0) counts[table] = length;
    }
    return counts;
  };

  test("an operator sets the retention of an organisation, which its users see; null restores the default", async () => {
    const set = { logs_days: 7, metrics_days: 20, log_rules: [{ level: "DEBUG", days: 1 }] };
    const path = `/api/orgs/${org.orgId}/retention`;
    const whole = { logs_days: 7, traces_days: 30, metrics_days: 20, log_rules: [{ level: "debug", days: 1 }] };
    expect((await backend.call("PUT", path, { bearer: operator, body: set })).json()).toEqual(whole);
    expect((await backend.call("GET", "/api/retention", { bearer: org.token })).json()).toEqual(whole);
    expect(retention.of(org.orgId)).toMatchObject({ logsDays: 7, tracesDays: 30 });
    expect((await backend.call("PUT", path, { bearer: operator, body: {} })).json()).toMatchObject({ logs_days: 30, log_rules: [] });
    const tooLong = await backend.call("PUT", path, { bearer: operator, body: { metrics_days: 31 } });
    expect([tooLong.statusCode, tooLong.json().message]).toEqual([400, expect.stringContaining("METRICS_RETENTION")]);
    for (const body of [
      { logs_days: 0 },
      { logs_days: 9999 },
      { log_rules: [{ level: "debug" }] },
      { log_rules: [{ days: 1, host: "x" }] },
      // PostgreSQL stores no such text.
      { log_rules: [{ days: 1, source: "a\0" }] },
    ])
      expect((await backend.call("PUT", path, { bearer: operator, body })).statusCode, JSON.stringify(body)).toBe(400);
    expect((await backend.call("PUT", path, { bearer: org.token, body: {} })).statusCode).toBe(403);
  });

  test("a rule that an earlier version stored with a level in upper case applies to stored records", async () => {
    const rules = JSON.stringify([
      { level: "WARN", days: 1 },
      { source: "Shop", days: 2 },
    ]);
    await store.database
      .tables<RemovalTables>()
      .updateTable("org_retention")
      .set({ log_rules: rules })
      .where("org_id", "=", org.orgId)
      .execute();
    expect((await retention.readAll()).get(org.orgId)?.logRules).toEqual([
      { level: "warn", days: 1 },
      { source: "Shop", days: 2 },
    ]);
  });

  test("a deleted organisation is locked out immediately, and listed until and after it is erased", async () => {
    const leaving = await makeOrg(backend, "leaving");
    const { api_key: key } = await directKey(backend, leaving.token);
    const path = `/api/orgs/${leaving.orgId}`;
    expect((await backend.call("DELETE", `${path}?name=other`, { bearer: operator })).statusCode).toBe(409);
    expect((await backend.call("DELETE", `${path}?name=leaving`, { bearer: org.token })).statusCode).toBe(403);
    const own = (await backend.call("GET", "/api/orgs", { bearer: operator }))
      .json()
      .find(({ name }: { name: string }) => name === "default");
    const refused = await backend.call("DELETE", `/api/orgs/${own.org_id}?name=default`, { bearer: operator });
    expect([refused.statusCode, refused.json().message]).toEqual([409, expect.stringContaining("operators")]);

    expect((await backend.call("DELETE", `${path}?name=leaving`, { bearer: operator })).statusCode).toBe(202);
    backend.clock.ms += 10_000;
    expect((await backend.call("POST", "/ingest", { key, body: "x" })).statusCode).toBe(401);
    expect((await backend.call("GET", "/api/users", { bearer: leaving.token })).statusCode).toBe(401);
    expect((await backend.call("POST", "/api/auth/login", { body: { email: leaving.email, password: leaving.password } })).statusCode).toBe(
      401,
    );
    expect((await backend.call("DELETE", `${path}?name=leaving`, { bearer: operator })).statusCode).toBe(404);
    // The name can be used again.
    await makeOrg(backend, "leaving");

    let series = 1;
    let nowMs = Date.now();
    const removal = new DataRemoval({
      db: store.database.tables<RemovalTables>(),
      telemetry: stub<Telemetry>({ isUnused: true }),
      metrics: { erase: async () => series, eraseDeadLetters: async () => 0 },
      retention,
      log: createLog("silent"),
      nowMs: () => nowMs,
      everyMs: 2 ** 30,
    });
    await using _removal = removal;
    const listed = async () => (await backend.call("GET", "/api/deletions", { bearer: operator })).json()[0];
    await removal.pass();
    expect(await listed()).toMatchObject({
      org_id: leaving.orgId,
      name: "leaving",
      requested_by: OPERATOR.email,
      found: { metrics: 1 },
      erased_at: null,
    });
    series = 0;
    nowMs += 1_100_000;
    await removal.pass();
    expect(await listed()).toMatchObject({ found: {}, erased_at: null });
    nowMs += 200_000;
    await removal.pass();
    expect((await listed()).erased_at).toBe(new Date(nowMs).toISOString());
    expect(await rowsOf(leaving.orgId)).toEqual({ org_deletions: 1 });
  });

  test("many organisations that are removed at once are erased by the same passes", async () => {
    const db = store.database.tables<RemovalTables>();
    const orgs = Array.from({ length: 45 }, (_, at) => ({ id: randomUUID(), name: `many-${at}`, created_at: new Date() }));
    await db.insertInto("orgs").values(orgs).execute();
    let nowMs = Date.now();
    for (const { id: orgId, name } of orgs) await beginDeletion(db, { orgId, name, by: "x", at: new Date(nowMs) });
    const removal = new DataRemoval({
      db,
      telemetry: stub<Telemetry>({ isUnused: true }),
      metrics: { erase: async () => 0, eraseDeadLetters: async () => 0 },
      retention,
      log: createLog("silent"),
      nowMs: () => nowMs,
      everyMs: 2 ** 30,
    });
    await using _removal = removal;
    await removal.pass();
    nowMs += 1_200_000;
    await removal.pass();
    const erased = db.selectFrom("org_deletions").selectAll().where("name", "like", "many-%").where("erased_at", "is not", null);
    expect(await erased.execute()).toHaveLength(45);
  });

  test("removes data that a replica accepted during the deletion in the next pass", async () => {
    const leaving = await makeOrg(backend, "still-leaving");
    expect((await backend.call("GET", "/api/users", { bearer: leaving.token })).statusCode).toBe(200);
    // Another replica accepts its sessions for up to 5 seconds.
    await beginDeletion(store.database.tables<RemovalTables>(), { orgId: leaving.orgId, name: "still-leaving", by: "x", at: new Date() });
    const straggler = { email: "straggler@x.example", password: "a long password" };
    const created = await backend.call("POST", "/api/users", { bearer: leaving.token, body: { ...straggler, role: "admin" } });
    expect(created.statusCode).toBe(201);
    const login = async () => (await backend.call("POST", "/api/auth/login", { body: straggler })).statusCode;
    expect(await login()).toBe(200);
    const db = store.database.tables<RemovalTables>();
    await settleDeletion(db, { org_id: leaving.orgId, last_found_at: new Date() }, { logs: 1 }, { at: new Date(), quietMs: 1 });
    expect(await login()).toBe(401);
    expect(Object.keys(await rowsOf(leaving.orgId))).toEqual(["orgs", "org_deletions"]);
  });

  test("no table keeps a row of an organisation that had rows in all of them, and others keep theirs", async () => {
    const db = store.database.tables<AllTables & RemovalTables>();
    const before = await rowsOf(org.orgId);
    await fillAccounts(db);
    const filled = await db.selectFrom("orgs").selectAll().where("name", "like", "%'org'%").executeTakeFirstOrThrow();
    expect(Object.keys(await rowsOf(filled.id)).length).toBeGreaterThan(10);
    await beginDeletion(db, { orgId: filled.id, name: filled.name, by: "x", at: new Date(0) });
    expect(Object.keys(await rowsOf(filled.id))).toEqual(["orgs", "org_deletions", "rule_sets"]);
    expect(await settleDeletion(db, { org_id: filled.id, last_found_at: new Date(0) }, {}, { at: new Date(), quietMs: 1 })).toBe(true);
    expect(await rowsOf(filled.id)).toEqual({ org_deletions: 1 });
    expect(await rowsOf(org.orgId)).toEqual(before);
  });
});

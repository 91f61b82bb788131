// The audit log over HTTP, with both relational databases: its entries, who may read it, and the limits for unauthenticated clients.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import {
  accountsApp,
  type AccountsApp,
  brief,
  type Clock,
  directKey,
  makeOrg,
  type Org,
  registerCluster,
} from "../../../test/fixtures/accounts-app.ts";
import { describeOnEachStore } from "../../../test/fixtures/each-store.ts";
import { createLog } from "../../log.ts";
import { type AuditTables, AuditTrail } from "./trail.ts";

const DAY_MS = 86_400_000;

type Answer = Awaited<ReturnType<AccountsApp["call"]>>;
interface Entry {
  id: string;
  at: string;
  action: string;
  org_id: string | null;
  actor: string | null;
  actor_id: string | null;
  address: string | null;
  request_id: string;
  subject: Record<string, unknown>;
}

describeOnEachStore((store) => {
  let backend: AccountsApp;
  let org: Org;
  let other: Org;
  let operator: string;
  const clock: Clock = { ms: Date.parse("2026-11-21T09:00:00Z") };

  beforeAll(async () => {
    backend = await accountsApp(store.database, { clock, pageRows: 5 });
    org = await makeOrg(backend);
    other = await makeOrg(backend);
  });
  beforeEach(async () => {
    operator = await backend.login();
    org.token = await backend.login(org.email, org.password);
    await backend.trail.settled();
  });
  afterAll(async () => await backend?.[Symbol.asyncDispose]());

  const read = async (bearer: string, query = ""): Promise<Entry[]> => {
    await backend.trail.settled();
    return (await backend.call("GET", `/api/audit${query}`, { bearer })).json();
  };
  const db = () => store.database.tables<AuditTables>();
  const entry = { actor: undefined, actorId: undefined, actorOrgId: undefined, address: "192.0.2.9", requestId: "r" };

  test("lists who changed what, newest first, and contains no secret", async () => {
    clock.ms += 1000;
    const { key_id, api_key } = await directKey(backend, org.token, "loader");
    clock.ms += 1000;
    await registerCluster(backend, org.token, { cluster_name: "north" });
    const [cluster, token, key] = await read(org.token);
    expect(key).toEqual({
      id: expect.any(String),
      at: new Date(clock.ms - 1000).toISOString(),
      action: "key.create",
      org_id: org.orgId,
      actor: org.email,
      actor_id: expect.any(String),
      address: "192.0.2.1",
      request_id: expect.any(String),
      subject: { key_id, name: "loader" },
    });
    expect([token?.action, cluster?.action, cluster?.org_id]).toEqual(["install_token.create", "cluster.register", org.orgId]);
    const all = JSON.stringify(await read(operator));
    for (const secret of [api_key, org.password, org.token]) expect(all).not.toContain(secret);
  });

  test("shows an administrator the own organisation, and an operator all", async () => {
    expect(new Set((await read(org.token)).map(({ org_id }) => org_id))).toEqual(new Set([org.orgId]));
    expect((await read(operator, `?org_id=${other.orgId}`)).every(({ org_id }) => org_id === other.orgId)).toBe(true);
    expect((await read(operator, "?action=org.create")).map(({ org_id }) => org_id)).toEqual([other.orgId, org.orgId]);
  });

  test("contains an operator's change of an organisation without the operator's address", async () => {
    const email = `${randomUUID()}@example.com`;
    await backend.call("POST", `/api/orgs/${org.orgId}/admins`, {
      bearer: operator,
      body: { email, password: randomUUID() },
      address: "198.51.100.7",
    });
    const [mine] = await read(org.token, "?action=org.add_admin");
    expect(mine).toMatchObject({ actor: "root@localhost", address: null, subject: { email } });
    const [theirs] = await read(operator, "?action=org.add_admin");
    expect(theirs?.address).toBe("198.51.100.7");
  });

  test("shows a failed login of an account to its organisation, of an unknown account to operators", async () => {
    const failed = (email: string) => backend.call("POST", "/api/auth/login", { body: { email, password: "wrong password" } });
    const [known, unknown] = [await failed(org.email), await failed("unknown@example.com")];
    expect([known.statusCode, known.body]).toEqual([401, unknown.body]);
    expect((await read(org.token, "?action=login.failed")).map(({ subject }) => subject["email"])).toEqual([org.email]);
    expect((await read(operator, "?action=login.failed")).map(({ org_id }) => org_id)).toEqual(expect.arrayContaining([null, org.orgId]));
  });

  test("pages neither omit nor repeat an entry, and keep the filters", async () => {
    for (let at = 0; at < 12; at++) await backend.call("POST", "/api/keys", { bearer: org.token, body: { name: `page-${at}` } });
    await backend.trail.settled();
    const seen: Entry[] = [];
    for (let next: string | undefined = "/api/audit?action=key.create"; next !== undefined;) {
      const answer: Answer = await backend.call("GET", next, { bearer: org.token });
      expect(answer.json().length).toBeLessThanOrEqual(5);
      seen.push(...answer.json());
      next = /<([^>]*)>/.exec(String(answer.headers.link ?? ""))?.[1];
    }
    const names = seen.filter(({ action }) => action === "key.create").map(({ subject }) => String(subject["name"]));
    expect(names.length).toBe(seen.length);
    expect(names.filter((name) => name.startsWith("page-")).length).toBe(12);
    expect(new Set(seen.map(({ id }) => id)).size).toBe(seen.length);
    const cursorAt = (at: string): string => `cursor=${Buffer.from(JSON.stringify([at, randomUUID()])).toString("base64url")}`;
    for (const query of [
      "cursor=x",
      cursorAt("never"),
      cursorAt("0000-01-01T00:00:00.000Z"),
      cursorAt("+275760-09-13"),
      "action=%00",
      "org_id=x",
    ])
      expect(brief(await backend.call("GET", `/api/audit?${query}`, { bearer: org.token })), query).toEqual([400, "invalid_parameter"]);
  });

  test("a flood of failed logins creates a limited number of entries, and the next one contains the number omitted", async () => {
    await using trail = new AuditTrail({ db: db(), log: createLog("silent"), now: () => clock.ms });
    const failed = () => trail.add({ ...entry, action: "login.failed", orgId: other.orgId, subject: { email: "x@example.com" } });
    for (let at = 0; at < 5000; at++) failed();
    await trail.settled();
    const kept = async () =>
      (await db().selectFrom("audit_log").selectAll().where("org_id", "=", other.orgId).where("action", "=", "login.failed").execute())
        .length;
    expect(await kept()).toBe(200);
    clock.ms += 60_000;
    failed();
    await trail.settled();
    expect(await kept()).toBe(201);
    const [newest] = await read(operator, `?org_id=${other.orgId}&action=login.failed`);
    expect(newest?.subject).toEqual({ email: "x@example.com", omitted_before: 4800 });
  });

  test("an entry that cannot be written blocks no other, and a flood in one organisation hides nothing of another", async () => {
    await using trail = new AuditTrail({ db: db(), log: createLog("silent"), now: () => clock.ms });
    trail.add({ ...entry, action: "of.unknown", orgId: randomUUID(), subject: {} });
    for (let at = 0; at < 500; at++)
      trail.add({ ...entry, action: "login.failed", orgId: undefined, subject: { email: "flood@example.com" } });
    trail.add({ ...entry, action: "login.failed", orgId: org.orgId, subject: { email: "hidden@example.com" } });
    await trail.settled();
    const [newest] = await read(org.token, "?action=login.failed");
    expect(newest?.subject).toEqual({ email: "hidden@example.com" });
    expect(await read(operator, "?action=of.unknown")).toEqual([]);
  });

  test("accepts any text, up to 4 KiB of it", async () => {
    const subject = { name: "a\u0000b\u001b[31m\ud800\u202e" };
    backend.trail.add({ ...entry, action: "odd", orgId: org.orgId, subject });
    backend.trail.add({ ...entry, action: "large", orgId: org.orgId, subject: { name: "x".repeat(100_000) } });
    expect((await read(org.token, "?action=odd"))[0]?.subject).toEqual({ name: "a\ufffdb\u001b[31m\ufffd\u202e" });
    expect((await read(org.token, "?action=large"))[0]?.subject).toEqual({ too_large: 100_011 });
  });

  test("deletes entries older than 90 days, and the oldest beyond the organisation's limit", async () => {
    await using trail = new AuditTrail({ db: db(), log: createLog("silent"), now: () => clock.ms, maxPerOrg: 10 });
    const before = await read(operator);
    expect(before.length).toBeGreaterThan(0);
    clock.ms += 91 * DAY_MS;
    for (let at = 0; at < 30; at++) {
      clock.ms += 1000;
      trail.add({ ...entry, action: "many", orgId: org.orgId, subject: { at } });
      await trail.settled();
    }
    const left = await db().selectFrom("audit_log").selectAll().orderBy("at").execute();
    expect(left.length).toBeLessThan(22);
    expect(left.at(-1)?.subject).toEqual({ at: 29 });
    expect(left.every(({ action }) => action === "many")).toBe(true);
  });

  test("logs an entry that the database rejects with all its fields, also at LOG_LEVEL=warn", async () => {
    const lines: unknown[] = [];
    const log = createLog("warn", "test", { write: (line) => void lines.push(JSON.parse(line)) });
    const execute = () => Promise.reject(Object.assign(new Error("rejected"), { code: "22001" }));
    const rejecting = new Proxy(db(), {
      get: (target, name) => (name === "insertInto" ? () => ({ values: () => ({ execute }) }) : bound(target, name)),
    });
    await using trail = new AuditTrail({ db: rejecting, log, now: () => clock.ms });
    trail.add({ ...entry, action: "rule.create", orgId: org.orgId, actor: "a@x.example", subject: { rule_id: "7" } });
    await trail.settled();
    expect(lines).toMatchObject([
      {
        event: "audit.entry_dropped",
        audit: true,
        action: "rule.create",
        org_id: org.orgId,
        at: new Date(clock.ms).toISOString(),
        actor: "a@x.example",
        address: "192.0.2.9",
        request_id: "r",
        subject: { rule_id: "7" },
      },
    ]);
  });

  test("blocks nothing while the database is unavailable, and writes its entries afterwards", async () => {
    let isAway = true;
    const refused = Promise.withResolvers<void>();
    const flaky = new Proxy(db(), {
      get: (target, name) => {
        if (isAway && name === "insertInto") {
          refused.resolve();
          throw new Error("away");
        }
        return bound(target, name);
      },
    });
    await using trail = new AuditTrail({ db: flaky, log: createLog("silent"), now: () => clock.ms, waiting: 6 });
    for (let at = 0; at < 9; at++) trail.add({ ...entry, action: "away", orgId: org.orgId, subject: { at } });
    // Entries of one organisation do not displace those of another.
    trail.add({ ...entry, action: "away", orgId: undefined, subject: { at: "other" } });
    await refused.promise;
    isAway = false;
    await trail.settled();
    const rows = await db().selectFrom("audit_log").selectAll().where("action", "=", "away").execute();
    expect(new Set(rows.map(({ subject }) => subject["at"]))).toEqual(new Set([0, 1, 2, "other"]));
  });
});

/** Accesses private members of kysely. */
function bound(of: object, name: string | symbol): unknown {
  const value: unknown = Reflect.get(of, name);
  return typeof value === "function" ? value.bind(of) : value;
}

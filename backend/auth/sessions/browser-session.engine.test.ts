// Browser sessions over HTTP, on both engines of the relational store: the cookie, what it gives access to, and when it ends. Two replicas
// share the database and the clock.
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { accountsApp, type AccountsApp, brief, type Clock, makeOrg, type Org } from "../../../test/fixtures/accounts-app.ts";
import { describeOnEachStore } from "../../../test/fixtures/each-store.ts";
import { insertBrowserSession } from "./browser-session.ts";
import type { AccountTables } from "./account-tables.ts";

const HOUR_MS = 3_600_000;
const ASKED = { "x-requested-with": "atherops" };

interface Asking {
  url?: string;
  method?: string;
  on?: AccountsApp;
  headers?: Record<string, string>;
}

type Answer = Awaited<ReturnType<AccountsApp["call"]>>;

describeOnEachStore((store) => {
  let backend: AccountsApp;
  let replica: AccountsApp;
  let org: Org;
  const clock: Clock = { ms: Date.parse("2026-11-21T09:00:00Z") };

  beforeAll(async () => {
    backend = await accountsApp(store.database, { clock });
    replica = await accountsApp(store.database, { clock });
    org = await makeOrg(backend);
  });
  beforeEach(async () => {
    org.token = await backend.login(org.email, org.password);
  });
  afterAll(async () => {
    await replica?.[Symbol.asyncDispose]();
    await backend?.[Symbol.asyncDispose]();
  });

  const ask = (cookie: string, { url = "/api/auth/session", method = "GET", on = backend, headers = ASKED }: Asking = {}) =>
    on.call(method, url, { headers: { cookie, ...headers } });
  const opened = async ({ email, password }: { email: string; password: string } = org, headers = {}) =>
    await backend.call("POST", "/api/auth/session", { body: { email, password }, headers });
  const cookieOf = (answer: Answer): string => String(answer.headers["set-cookie"]).split(";", 1)[0] ?? "";
  const user = async (role: string) => {
    const made = { email: `${randomUUID()}@example.com`, password: randomUUID() };
    const answer = await backend.call("POST", "/api/users", { bearer: org.token, body: { ...made, role } });
    return { ...made, id: answer.json().user_id as string };
  };

  store.once("is a __Host cookie hidden from scripts over TLS, and a plain one on loopback without TLS", async () => {
    const remote = await opened(org, { host: "telemetry.example.com" });
    expect([remote.statusCode, remote.headers["set-cookie"]]).toEqual([
      204,
      expect.stringMatching(/^__Host-atherops=[\w.-]+; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict; Secure$/),
    ]);
    const local = await opened(org, { host: "127.0.0.1:8080" });
    expect(local.headers["set-cookie"]).toMatch(/^atherops=[\w.-]+; Path=\/; Max-Age=43200; HttpOnly; SameSite=Strict$/);
    const plainName = cookieOf(remote).replace("__Host-", "");
    expect(brief(await ask(plainName, { headers: { ...ASKED, host: "telemetry.example.com" } }))).toEqual([401, "invalid_token"]);
  });

  test("is rejected with 409 for any method if X-Session-User names another user or organisation, and changes nothing", async () => {
    const other = await makeOrg(backend);
    const cookie = cookieOf(await opened());
    const named = (orgId: string, email: string) => ({ ...ASKED, "x-session-user": `${orgId} ${encodeURIComponent(email)}` });
    const save = async (headers: Record<string, string>) =>
      await backend.call("POST", "/api/read-tokens", { headers: { cookie, ...headers }, body: { name: randomUUID() } });
    for (const headers of [
      named(other.orgId, other.email),
      named(org.orgId, other.email),
      named(other.orgId, org.email),
      { ...ASKED, "x-session-user": "" },
    ]) {
      expect(brief(await save(headers))).toEqual([409, "session_changed"]);
      expect(brief(await ask(cookie, { headers }))).toEqual([409, "session_changed"]);
      expect(brief(await ask(cookie, { url: "/api/users", headers }))).toEqual([409, "session_changed"]);
    }
    expect((await ask(cookie, { url: "/api/read-tokens" })).json()).toEqual([]);
    expect((await save(named(org.orgId, org.email))).statusCode).toBe(201);
  });

  test("is accepted with X-Requested-With: atherops on every session route, but not as a bearer token", async () => {
    const cookie = cookieOf(await opened());
    expect((await ask(cookie)).json()).toEqual({
      email: org.email,
      role: "admin",
      org: { id: org.orgId, name: expect.any(String) },
      expires_at: new Date(clock.ms + 12 * HOUR_MS).toISOString(),
      label_limits: null,
    });
    expect(brief(await ask(cookie, { headers: { "x-requested-with": "XMLHttpRequest" } }))).toEqual([401, "invalid_token"]);
    expect((await ask(cookie, { url: "/api/users", on: replica })).statusCode).toBe(200);
    const value = cookie.slice(cookie.indexOf("=") + 1);
    expect(brief(await backend.call("GET", "/api/users", { bearer: value }))).toEqual([401, "invalid_token"]);
    expect(brief(await ask(`atherops=${org.token}`))).toEqual([401, "invalid_token"]);
    expect(brief(await ask(`${cookie.slice(0, -4)}AAAA`))).toEqual([401, "invalid_token"]);
  });

  test("ends after 12 hours without a request, and 7 days after the login", async () => {
    let cookie = cookieOf(await opened());
    const began = clock.ms;
    const idle = cookie;
    for (let hours = 0; hours < 7 * 24 - 11; hours += 11) {
      clock.ms += 11 * HOUR_MS;
      const answer = await ask(cookie);
      expect(answer.statusCode).toBe(200);
      cookie = cookieOf(answer);
    }
    expect(brief(await ask(idle))).toEqual([401, "invalid_token"]);
    clock.ms = began + 7 * 24 * HOUR_MS - 1000;
    expect((await ask(cookie)).json().expires_at).toBe(new Date(began + 7 * 24 * HOUR_MS).toISOString());
    clock.ms += 1000;
    expect(brief(await ask(cookie))).toEqual([401, "invalid_token"]);
  });

  test("ends when its browser logs out: at once here, within 5 seconds at another replica", async () => {
    const cookie = cookieOf(await opened());
    expect((await ask(cookie, { on: replica })).statusCode).toBe(200);
    const out = await ask(cookie, { method: "DELETE" });
    expect([out.statusCode, out.headers["set-cookie"]]).toEqual([204, expect.stringMatching(/^atherops=; Path=\/; Max-Age=0;/)]);
    expect(brief(await ask(cookie))).toEqual([401, "invalid_token"]);
    clock.ms += 5000;
    expect(brief(await ask(cookie, { on: replica }))).toEqual([401, "invalid_token"]);
  });

  test("ends after a new password, a demotion, and with the user", async () => {
    const change = async (role: string, method: string, path: string, body?: object) => {
      const { id, ...credentials } = await user(role);
      const cookie = cookieOf(await opened(credentials));
      expect((await ask(cookie)).statusCode).toBe(200);
      expect((await backend.call(method, `/api/users/${id}${path}`, { bearer: org.token, ...(body && { body }) })).statusCode).toBeLessThan(
        300,
      );
      return await ask(cookie);
    };
    expect(brief(await change("viewer", "PUT", "/password", { password: randomUUID() }))).toEqual([401, "invalid_token"]);
    expect(brief(await change("admin", "PUT", "/role", { role: "viewer" }))).toEqual([401, "invalid_token"]);
    expect(brief(await change("viewer", "DELETE", ""))).toEqual([401, "invalid_token"]);
    expect((await change("viewer", "PUT", "/role", { role: "admin" })).json().role).toBe("admin");
  });

  test("sessions of a user are limited, the oldest are evicted, and expired ones are deleted", async () => {
    const one = await user("viewer");
    const db = store.database.tables<AccountTables>();
    const row = (at: number, expires: number) => ({
      id: randomUUID(),
      user_id: one.id,
      created_at: new Date(at),
      expires_at: new Date(expires),
    });
    await db
      .insertInto("browser_sessions")
      .values([row(clock.ms - 9, clock.ms - 1), ...Array.from({ length: 120 }, (_, at) => row(clock.ms - 1000 + at, clock.ms + HOUR_MS))])
      .execute();
    clock.ms += 1000;
    const cookie = cookieOf(await opened(one));
    const kept = await db.selectFrom("browser_sessions").selectAll().where("user_id", "=", one.id).execute();
    expect(kept).toHaveLength(100);
    expect((await ask(cookie)).statusCode).toBe(200);
  });

  test("pending logins of command lines are limited, and do not evict browser sessions of their user", async () => {
    const one = await user("viewer");
    const db = store.database.tables<AccountTables>();
    const cookie = cookieOf(await opened(one));
    for (let n = 0; n < 110; n += 1) {
      clock.ms += 10;
      const [created_at, expires_at] = [new Date(clock.ms), new Date(clock.ms + 360_000)];
      await insertBrowserSession(db, { id: randomUUID(), user_id: one.id, created_at, expires_at });
    }
    expect((await ask(cookie)).statusCode).toBe(200);
    await opened(one);
    const kept = await db.selectFrom("browser_sessions").selectAll().where("user_id", "=", one.id).execute();
    expect(kept).toHaveLength(102);
  });
});

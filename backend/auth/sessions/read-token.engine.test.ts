// Read tokens over HTTP, on both engines of the relational store: what they give access to, when they end, and what an invalid one costs.
// Two replicas share the database and the clock. It is one file, because each case is a few lines for these two.
import { randomUUID } from "node:crypto";
import { Writable } from "node:stream";
import { decodeJwt, decodeProtectedHeader, type JWTPayload, SignJWT } from "jose";
import { pino } from "pino";
import { afterAll, beforeAll, beforeEach, expect, test } from "vitest";
import { accountsApp, type AccountsApp, brief, type Clock, directKey, makeOrg, type Org } from "../../../test/fixtures/accounts-app.ts";
import { describeOnEachStore } from "../../../test/fixtures/each-store.ts";
import { addServiceRoutes } from "../../alerting/mount.ts";
import { createRuleRoutes } from "../../alerting/alert-rule-routes.ts";
import { RuleTable, type AlertingTables } from "../../alerting/alert-rule-table.ts";
import { ResponseBudget } from "../../http/response-budget.ts";
import { registerLogRoutes } from "../../query/native/log-routes.ts";
import { ReadTokens } from "./read-token.ts";
import type { AccountTables } from "./account-tables.ts";

const MINUTE_MS = 60_000;
const DAY_MS = 1440 * MINUTE_MS;
const JWT_SECRET = Buffer.from("s".repeat(48));
const PREVIOUS_SECRET = "p".repeat(48);
const RULE = { name: "r", severity: "info", expr: "up == 0", for: "0s", enabled: true, labels: {}, annotations: {} } as const;

interface Made {
  id: string;
  name: string;
  token: string;
  expires_at: string;
}

const basic = (password: string, user = "anybody") => `Basic ${Buffer.from(`${user}:${password}`).toString("base64")}`;

/** A JWT with the claims of `like` and these. */
async function forge(like: string, claims: JWTPayload, { secret = JWT_SECRET, alg = "HS256" } = {}): Promise<string> {
  return await new SignJWT({ ...decodeJwt(like), ...claims }).setProtectedHeader({ alg, typ: "JWT" }).sign(secret);
}

describeOnEachStore((store) => {
  let backend: AccountsApp;
  let replica: AccountsApp;
  let red: Org;
  let blue: Org;
  const clock: Clock = { ms: Date.parse("2026-11-21T09:00:00.700Z") };
  const began = clock.ms;
  const logged: string[] = [];

  beforeAll(async () => {
    const { database } = store;
    const sink = new Writable({ write: (chunk, _encoding, done) => (logged.push(String(chunk)), done()) });
    const rules = new RuleTable(database.tables<AlertingTables>());
    const options: Parameters<typeof accountsApp>[1] = {
      clock,
      log: pino({ level: "trace" }, sink),
      env: { JWT_PREVIOUS_SECRET: PREVIOUS_SECRET },
      pageRows: 3,
      routes: (app, guards) => {
        const store = { query: async (orgId: string) => ({ json: Buffer.from(JSON.stringify([{ node: orgId }])), next: undefined }) };
        registerLogRoutes(app, { store, answers: new ResponseBudget(), guards } as never);
        addServiceRoutes(app, guards, createRuleRoutes({ rules, changed: () => undefined } as never));
      },
    };
    backend = await accountsApp(database, options);
    replica = await accountsApp(database, options);
    red = await makeOrg(backend);
    blue = await makeOrg(backend);
    for (const { orgId } of [red, blue]) await rules.create(orgId, { ...RULE, name: orgId, forMs: 0 });
  });
  beforeEach(async () => {
    clock.ms = Math.max(clock.ms, began);
    for (const org of [red, blue]) org.token = await backend.login(org.email, org.password);
  });
  afterAll(async () => {
    await replica?.[Symbol.asyncDispose]();
    await backend?.[Symbol.asyncDispose]();
  });

  const make = (body: object, bearer = red.token) => backend.call("POST", "/api/read-tokens", { bearer, body });
  const made = async (body: object = {}, bearer = red.token): Promise<Made> => (await make({ name: "grafana", ...body }, bearer)).json();
  const ask = (
    url: string,
    authorization: string,
    { method = "GET", on = backend, body }: { method?: string; on?: AccountsApp; body?: object } = {},
  ) => on.call(method, url, { headers: { authorization }, ...(body && { body }) });
  const logs = (authorization: string, on = backend) => ask("/query/logs", authorization, { on });

  test("is created by an administrator for 90 days, and listed without its secret, also to viewers", async () => {
    const answer = await make({ name: "grafana" });
    const token = answer.json<Made>();
    expect([answer.statusCode, Object.keys(token)]).toEqual([201, ["id", "name", "token", "expires_at"]]);
    const ends = Math.floor((clock.ms + 90 * DAY_MS) / 1000);
    expect(token).toMatchObject({ name: "grafana", expires_at: new Date(ends * 1000).toISOString() });
    expect(decodeProtectedHeader(token.token)).toEqual({ alg: "HS256", typ: "JWT" });
    expect(decodeJwt(token.token)).toEqual({
      jti: token.id,
      org_id: red.orgId,
      role: "viewer",
      iss: "atherops",
      aud: "atherops-read",
      iat: Math.floor(clock.ms / 1000),
      exp: ends,
    });
    const user = { email: `viewer-${randomUUID()}@example.com`, password: randomUUID() };
    await backend.call("POST", "/api/users", { bearer: red.token, body: { ...user, role: "viewer" } });
    const viewer = await backend.login(user.email, user.password);
    const listed = await backend.call("GET", "/api/read-tokens", { bearer: viewer });
    expect(listed.body).not.toContain(token.token.split(".")[2]);
    expect(listed.json()).toEqual([
      {
        id: token.id,
        name: "grafana",
        created_by: red.email,
        created_at: new Date(clock.ms).toISOString(),
        expires_at: token.expires_at,
        label_limits: null,
      },
    ]);
  });

  test.each([
    { name: "x", ttl: "soon" },
    { name: "x", ttl: "0" },
    { name: "x", ttl: "59s" },
    { name: "x", ttl: "366d" },
    { name: "x", ttl: 90 },
    {},
    { name: "" },
    { name: "a\nb" },
  ])("rejects %j as a read token", async (body) => {
    expect(brief(await make(body))).toEqual([400, "invalid_field"]);
  });

  test("reads as a bearer token and as the password of any user, until it expires", async () => {
    const { token } = await made({ ttl: "90d" });
    const ways = [`Bearer ${token}`, `bearer ${token}`, basic(token), basic(token, ""), basic(token, "é".repeat(100))];
    const reading = async () => await Promise.all(ways.flatMap((way) => [logs(way), ask("/rules", way)]));
    const statuses = async () => (await reading()).map(({ statusCode }) => statusCode);
    expect(await statuses()).toEqual(ways.flatMap(() => [200, 200]));
    clock.ms += 20 * MINUTE_MS;
    expect(brief(await logs(`Bearer ${red.token}`))).toEqual([401, "invalid_token"]);
    expect(await statuses()).toEqual(ways.flatMap(() => [200, 200]));
    clock.ms += 90 * DAY_MS - 21 * MINUTE_MS;
    expect(await statuses()).toEqual(ways.flatMap(() => [200, 200]));
    clock.ms += MINUTE_MS;
    for (const answer of await reading()) expect(brief(answer)).toEqual([401, "invalid_token"]);
    clock.ms += DAY_MS;
    for (const answer of await reading()) expect(brief(answer)).toEqual([401, "invalid_token"]);
  });

  test("is rejected immediately where it was removed, and within 5 seconds by every other replica", async () => {
    const { id, token } = await made();
    for (const on of [backend, replica]) expect((await logs(basic(token), on)).statusCode).toBe(200);
    const remove = () => backend.call("DELETE", `/api/read-tokens/${id}`, { bearer: red.token });
    expect((await remove()).statusCode).toBe(204);
    expect(brief(await logs(basic(token)))).toEqual([401, "invalid_token"]);
    clock.ms += 4_900;
    expect(brief(await logs(basic(token), replica))).toEqual([401, "invalid_token"]);
    expect(brief(await ask("/api/users", `Bearer ${token}`, { on: replica }))).toEqual([401, "invalid_token"]);
    expect(brief(await remove())).toEqual([404, "not_found"]);
  });

  test("outlives the administrator who created it, and still names its creator", async () => {
    const user = { email: `leaver-${randomUUID()}@example.com`, password: randomUUID() };
    const { user_id } = (await backend.call("POST", "/api/users", { bearer: red.token, body: { ...user, role: "admin" } })).json();
    const { token } = await made({ name: "0 first of its page" }, await backend.login(user.email, user.password));
    expect((await backend.call("DELETE", `/api/users/${user_id}`, { bearer: red.token })).statusCode).toBe(204);
    clock.ms += 10_000;
    expect((await logs(basic(token))).statusCode).toBe(200);
    const listed = (await backend.call("GET", "/api/read-tokens", { bearer: red.token })).json();
    expect(listed[0]).toMatchObject({ name: "0 first of its page", created_by: user.email });
  });

  store.once("is accepted under the previous secret, but not with another secret, algorithm, issuer, end or organisation", async () => {
    const { token } = await made();
    expect((await logs(basic(await forge(token, {}, { secret: Buffer.from(PREVIOUS_SECRET) })))).statusCode).toBe(200);
    const [header, payload, signature] = token.split(".");
    const longer = { ...decodeJwt(token), exp: 4e9 };
    const wrong = [
      await forge(token, {}, { secret: Buffer.from("x".repeat(48)) }),
      await forge(token, {}, { alg: "HS384" }),
      await forge(token, { iss: "elsewhere" }),
      await forge(token, { exp: clock.ms / 1000 - 1 }),
      await forge(token, { exp: undefined }),
      await forge(token, { org_id: blue.orgId }),
      await forge(token, { jti: randomUUID() }),
      await forge(token, { jti: undefined }),
      await forge(token, { jti: "x' OR true --" }),
      await forge(token, { aud: "elsewhere" }),
      `${Buffer.from('{"alg":"none"}').toString("base64url")}.${payload}.`,
      `${header}.${Buffer.from(JSON.stringify(longer)).toString("base64url")}.${signature}`,
      `${header}.${payload}.${signature?.slice(0, -2)}`,
      `${header}.${Buffer.from("null").toString("base64url")}.${signature}`,
      `${header}.e.${signature}`,
    ];
    for (const one of wrong)
      for (const way of [`Bearer ${one}`, basic(one)]) expect(brief(await logs(way)), one).toEqual([401, "invalid_token"]);
  });

  store.once("and a session are not interchangeable", async () => {
    const { token } = await made();
    expect(brief(await logs(basic(red.token)))).toEqual([401, "invalid_token"]);
    const { sub, epoch } = decodeJwt(red.token);
    const asSession = await forge(token, { aud: "atherops-api", sub, epoch });
    expect((await ask("/api/users", `Bearer ${asSession}`)).statusCode).toBe(200);
    const asRead = await forge(red.token, { aud: "atherops-read" });
    const both = await forge(token, { aud: ["atherops-api", "atherops-read"] as never });
    const readAsSession = await forge(token, { aud: "atherops-api" });
    for (const one of [asRead, both, readAsSession])
      for (const way of [`Bearer ${one}`, basic(one)])
        for (const url of ["/query/logs", "/api/users"]) expect(brief(await ask(url, way)), one).toEqual([401, "invalid_token"]);
  });

  store.once("an agent's key or an invalid credential reads nothing", async () => {
    const { token } = await made();
    const { api_key: key } = await directKey(backend, red.token);
    const none = [
      "",
      "Bearer",
      "Basic",
      "Basic :",
      `Basic ${token}`,
      basic(`${token} `),
      basic(token, "x".repeat(8_000)),
      `Digest ${token}`,
    ];
    for (const way of [`Bearer ${key}`, basic(key), basic(key, token), ...none])
      expect(brief(await logs(way)), way).toEqual([401, "invalid_token"]);
  });

  test("a forged token costs no statement, a removed one one a second, one in use one in two seconds", async () => {
    const { id, token } = await made();
    let statements = 0;
    const db = new Proxy(store.database.tables<AccountTables>(), {
      get: (target, name) => {
        if (name === "selectFrom") statements++;
        const value: unknown = Reflect.get(target, name, target);
        return typeof value === "function" ? value.bind(target) : value;
      },
    });
    const tokens = new ReadTokens({ db, jwtSecret: JWT_SECRET, now: () => clock.ms });
    const forged = await forge(token, { jti: randomUUID() }, { secret: Buffer.from("x".repeat(48)) });
    const asked = async (one: string) => await tokens.find(`Bearer ${one}`).catch(() => "refused");
    const often = async (one: string) => new Set(await Promise.all(Array.from({ length: 200 }, () => asked(one))));
    expect(await often(forged)).toEqual(new Set(["refused"]));
    expect(statements).toBe(0);
    expect(await often(token)).toEqual(new Set([{ tokenId: id, orgId: red.orgId }]));
    expect(await asked(token)).toMatchObject({ tokenId: id });
    expect(statements).toBe(1);
    const unknown = await forge(token, { jti: randomUUID() });
    expect([await often(unknown), await often(unknown), statements]).toEqual([new Set(["refused"]), new Set(["refused"]), 2]);
  });

  test("is listed in pages by name, for 30 days after it expired", async () => {
    const { token: bearer } = await makeOrg(backend);
    for (const name of ["b", "a", "c", "a", "e", "d", "f"]) await made({ name, ttl: "1h" }, bearer);
    const names: string[][] = [];
    for (let next: string | undefined = "/api/read-tokens"; next !== undefined;) {
      const page = await backend.call("GET", next, { bearer });
      names.push(page.json<Made[]>().map(({ name }) => name));
      next = /<(.*)>; rel="next"/.exec(String(page.headers["link"] ?? ""))?.[1];
    }
    expect(names).toEqual([["a", "a", "b"], ["c", "d", "e"], ["f"]]);
    expect(brief(await backend.call("GET", "/api/read-tokens?cursor=x", { bearer }))).toEqual([400, "invalid_parameter"]);
  });

  test("is limited to 5,000 per organisation, without those that expired a month ago", async () => {
    const org = await makeOrg(backend);
    const db = store.database.tables<AccountTables>();
    const common = { org_id: org.orgId, name: "n", created_by: "e", created_at: new Date(clock.ms) };
    const ends = [new Date(clock.ms - 30 * DAY_MS + MINUTE_MS), ...Array.from({ length: 4999 }, () => new Date(clock.ms + DAY_MS))];
    for (let from = 0; from < ends.length; from += 1000) {
      const rows = ends.slice(from, from + 1000).map((expires_at) => ({ ...common, id: randomUUID(), expires_at }));
      await db.insertInto("read_tokens").values(rows).execute();
    }
    expect(brief(await make({ name: "one too many" }, org.token))).toEqual([409, "limit_reached"]);
    clock.ms += MINUTE_MS;
    const both = await Promise.all([make({ name: "late" }, org.token), make({ name: "later" }, org.token)]);
    expect(both.map(({ statusCode }) => statusCode).sort((a, b) => a - b)).toEqual([201, 409]);
    expect(await db.selectFrom("read_tokens").select("id").where("org_id", "=", org.orgId).execute()).toHaveLength(5000);
  });

  test("creation and removal are audited, and no log line contains a token", async () => {
    logged.length = 0;
    const { id, token } = await made({ name: "audited" });
    await logs(basic(token));
    await ask("/api/users", basic(token));
    await ask("/rules?limit=x", `Bearer ${token}`);
    await backend.call("DELETE", `/api/read-tokens/${id}`, { bearer: red.token });
    const removed = await logs(basic(token));
    const lines = logged.map((line) => JSON.parse(line)).filter((line) => line.audit && String(line.action).startsWith("read_token."));
    const common = { read_token_id: id, name: "audited", actor: red.email, org_id: red.orgId };
    expect(lines).toMatchObject([
      { action: "read_token.create", ...common },
      { action: "read_token.delete", ...common },
    ]);
    for (const text of [logged.join(""), removed.body])
      for (const secret of [token.split(".")[2], basic(token).slice(-20)]) expect(text).not.toContain(secret);
  });
});

// Invitations and changes of the own password over HTTP, on both engines of the relational store: which roles can invite to which, how a
// link is used once, and what makes it invalid.
import { randomUUID } from "node:crypto";
import { Writable } from "node:stream";
import { pino } from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { accountsApp, makeOrg, type AccountsApp, type Org } from "../../../test/fixtures/accounts-app.ts";
import type { AccountTables } from "../../auth/sessions/account-tables.ts";
import { describeOnEachStore } from "../../../test/fixtures/each-store.ts";

const DAY_MS = 86_400_000;
const PASSWORD = "chosen by the person";

describeOnEachStore((store) => {
  let backend: AccountsApp;
  let org: Org;
  let addresses = 0;
  const logged: string[] = [];

  beforeAll(async () => {
    const sink = new Writable({ write: (chunk, _encoding, done) => (logged.push(String(chunk)), done()) });
    backend = await accountsApp(store.database, { log: pino({ level: "debug" }, sink) });
    org = await makeOrg(backend);
  });
  afterAll(async () => await backend?.[Symbol.asyncDispose]());

  const newAddress = (): string => `192.0.${2 + Math.floor(++addresses / 250)}.${addresses % 250}`;
  const invite = async (bearer: string, body: object = {}) =>
    await backend.call("POST", "/api/invitations", { bearer, body: { email: `${randomUUID()}@example.com`, role: "viewer", ...body } });
  const accept = async (token: string, password = PASSWORD, address = newAddress()) =>
    await backend.call("POST", "/api/auth/invitation/accept", { body: { token, password }, address });
  const show = async (token: string, address = newAddress()) =>
    await backend.call("POST", "/api/auth/invitation", { body: { token }, address });
  const listed = async () => (await backend.call("GET", "/api/invitations", { bearer: org.token })).json<{ email: string }[]>();
  const newUser = async (role: string, bearer = org.token) => {
    const user = { email: `${role}-${randomUUID()}@example.com`, password: randomUUID() };
    const made = await backend.call("POST", "/api/users", { bearer, body: { ...user, role } });
    expect(made.statusCode, made.body).toBe(201);
    return { ...user, id: made.json().user_id as string, token: await backend.login(user.email, user.password) };
  };

  test("a link shows its organisation, creates the user with the invited role, logs the browser in, and works once", async () => {
    const made = (await invite(org.token, { email: "Ana@Example.com", role: "admin" })).json();
    expect(made).toMatchObject({ email: "ana@example.com", role: "admin", created_by: org.email });
    expect((await show(made.token)).json()).toMatchObject({ email: "ana@example.com", role: "admin" });
    const answers = await Promise.all([accept(made.token), accept(made.token)]);
    expect(answers.map(({ statusCode }) => statusCode).toSorted((a, b) => a - b)).toEqual([204, expect.toBeOneOf([401, 409])]);
    const cookie = String(answers.find(({ statusCode }) => statusCode === 204)?.headers["set-cookie"]).split(";", 1)[0] ?? "";
    const session = await backend.call("GET", "/api/auth/session", { headers: { cookie, "x-requested-with": "atherops" } });
    expect(session.json()).toMatchObject({ email: "ana@example.com", role: "admin", org: { id: org.orgId } });
    expect((await backend.call("GET", "/api/users", { bearer: await backend.login("ana@example.com", PASSWORD) })).statusCode).toBe(200);
    for (const again of [await show(made.token), await accept(made.token)]) expect(again.json().error).toBe("invalid_credentials");
    expect(await listed()).toEqual([]);
  });

  test("its token is in no log line, in no list and not in the database", async () => {
    const { token, email } = (await invite(org.token)).json();
    await show(token);
    await accept(`${token}x`);
    expect(JSON.stringify(await listed())).toContain(email);
    expect(JSON.stringify(await listed())).not.toContain(token);
    expect(logged.join("")).toContain("invitation.create");
    expect(logged.join("")).not.toContain(token);
    const tables = store.database.tables<{ invitations: object }>();
    expect(JSON.stringify(await tables.selectFrom("invitations").selectAll().execute())).not.toContain(token);
  });

  test("a viewer cannot invite, and an administrator cannot invite an operator", async () => {
    const viewer = await newUser("viewer");
    expect((await invite(viewer.token)).statusCode).toBe(403);
    expect((await invite(org.token, { role: "operator" })).statusCode).toBe(403);
    expect((await invite(await backend.login(), { role: "operator" })).statusCode).toBe(201);
  });

  test("ends when it expires, is removed or replaced, and with the user who invited", async () => {
    const [expiring, removed, replaced] = [
      (await invite(org.token, { ttl: "1h" })).json(),
      (await invite(org.token)).json(),
      (await invite(org.token)).json(),
    ];
    expect((await backend.call("DELETE", `/api/invitations/${removed.invitation_id}`, { bearer: org.token })).statusCode).toBe(204);
    const newer = (await invite(org.token, { email: replaced.email })).json();
    const colleague = await newUser("admin");
    const demoted = await newUser("admin");
    const [ofColleague, ofDemoted] = [(await invite(colleague.token)).json(), (await invite(demoted.token)).json()];
    await backend.call("DELETE", `/api/users/${colleague.id}`, { bearer: org.token });
    await backend.call("PUT", `/api/users/${demoted.id}/role`, { bearer: org.token, body: { role: "viewer" } });
    expect((await accept(expiring.token, "short")).statusCode).toBe(400);
    backend.clock.ms += 3_600_000;
    for (const { token } of [expiring, removed, replaced, ofColleague, ofDemoted])
      expect((await accept(token)).json().error).toBe("invalid_credentials");
    org.token = await backend.login(org.email, org.password);
    expect((await accept(newer.token)).statusCode).toBe(204);
    expect((await invite(org.token, { ttl: "31d" })).json().message).toContain("ttl");
  });

  test("keeps the password of an address that became a user in the meantime", async () => {
    const { token, email } = (await invite(org.token)).json();
    const user = { email, password: randomUUID(), role: "viewer" };
    expect((await backend.call("POST", "/api/users", { bearer: org.token, body: user })).statusCode).toBe(201);
    expect((await accept(token)).statusCode).toBe(409);
    await backend.login(email, user.password);
    expect((await invite(org.token, { email })).statusCode).toBe(409);
  });

  test("slows down guesses from one network, and accepts a link from another one", async () => {
    const { token } = (await invite(org.token)).json();
    const statuses = [];
    for (let attempt = 0; attempt < 6; attempt++) statuses.push((await show(randomUUID(), "198.51.100.7")).statusCode);
    expect(statuses).toEqual([401, 401, 401, 401, 401, 429]);
    expect((await show(token, "203.0.113.7")).statusCode).toBe(200);
  });

  test("an organisation has at most 200 valid invitations; expired ones do not count", async () => {
    const full = await makeOrg(backend);
    const first = (await invite(full.token, { ttl: "1d" })).json();
    const tables = store.database.tables<AccountTables>();
    const row = await tables.selectFrom("invitations").selectAll().where("id", "=", first.invitation_id).executeTakeFirstOrThrow();
    const others = Array.from({ length: 199 }, (_, at) => ({
      ...row,
      id: randomUUID(),
      email: `${at}@full.example`,
      token_hash: randomUUID(),
    }));
    await tables.insertInto("invitations").values(others).execute();
    expect((await invite(full.token)).json().error).toBe("limit_reached");
    backend.clock.ms += DAY_MS;
    full.token = await backend.login(full.email, full.password);
    org.token = await backend.login(org.email, org.password);
    expect((await invite(full.token)).statusCode).toBe(201);
  });

  test("a user changes the own password with the current one, which ends all other sessions", async () => {
    const user = await newUser("viewer");
    const asked = { "x-requested-with": "atherops" };
    const open = async () => {
      const answer = await backend.call("POST", "/api/auth/session", { body: { email: user.email, password: user.password } });
      return { ...asked, cookie: String(answer.headers["set-cookie"]).split(";", 1)[0] ?? "" };
    };
    const [mine, other] = [await open(), await open()];
    const change = async (current: string, headers: Record<string, string>) =>
      await backend.call("PUT", "/api/auth/password", { headers, body: { current, password: PASSWORD } });
    expect((await change("wrong", mine)).json()).toMatchObject({ error: "forbidden", message: "current: this is not your password" });
    const changed = await change(user.password, mine);
    expect(changed.statusCode).toBe(204);
    const renewed = { ...asked, cookie: String(changed.headers["set-cookie"]).split(";", 1)[0] ?? "" };
    const statusOf = async (headers: Record<string, string>) => (await backend.call("GET", "/api/auth/session", { headers })).statusCode;
    expect([await statusOf(renewed), await statusOf(mine), await statusOf(other)]).toEqual([200, 401, 401]);
    expect((await backend.call("GET", "/api/users", { bearer: user.token })).statusCode).toBe(401);
    await backend.login(user.email, PASSWORD);
  });

  test("slows down guesses of a session's current password, or of invitations, across all replicas", async () => {
    const user = await newUser("viewer");
    await using replica = await accountsApp(store.database, { clock: backend.clock });
    const [guesses, invitations] = [[] as number[], [] as number[]];
    const address = newAddress();
    for (let attempt = 0; attempt < 6; attempt++) {
      const at = attempt % 2 === 0 ? backend : replica;
      const body = { current: `guess ${attempt}`, password: PASSWORD };
      guesses.push((await at.call("PUT", "/api/auth/password", { bearer: user.token, body })).statusCode);
      invitations.push((await at.call("POST", "/api/auth/invitation", { body: { token: "0".repeat(64) }, address })).statusCode);
    }
    expect(guesses).toEqual([403, 403, 403, 403, 403, 429]);
    expect(invitations).toEqual([401, 401, 401, 401, 401, 429]);
  });

  test("audits each change", async () => {
    const { token, email } = (await invite(org.token)).json();
    await accept(token);
    await backend.trail.settled();
    const entries = (await backend.call("GET", "/api/audit", { bearer: org.token })).json<{ action: string; subject: object }[]>();
    const actions = entries.filter(({ subject }) => JSON.stringify(subject).includes(email)).map(({ action }) => action);
    expect(actions.toSorted()).toEqual(["invitation.accept", "invitation.create"]);
  });
});

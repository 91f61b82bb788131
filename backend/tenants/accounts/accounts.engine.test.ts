// Login, sessions, users and organisations over HTTP, on both engines of the relational store. It is one file, because its last test reads
// the audit lines of all others.
import { pbkdf2, randomUUID } from "node:crypto";
import { Writable } from "node:stream";
import { promisify } from "node:util";
import { SignJWT, decodeJwt, decodeProtectedHeader } from "jose";
import { pino } from "pino";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { accountsApp, type AccountsApp, brief, directKey, makeOrg, OPERATOR, type Org } from "../../../test/fixtures/accounts-app.ts";
import { describeOnEachStore } from "../../../test/fixtures/each-store.ts";

const JWT_SECRET = Buffer.from("s".repeat(48));

describeOnEachStore((store) => {
  let backend: AccountsApp;
  let org: Org;
  const logged: string[] = [];

  beforeAll(async () => {
    const sink = new Writable({ write: (chunk, _encoding, done) => (logged.push(String(chunk)), done()) });
    backend = await accountsApp(store.database, { log: pino({ level: "info" }, sink), env: { JWT_PREVIOUS_SECRET: "p".repeat(48) } });
    org = await makeOrg(backend);
  });
  afterAll(async () => await backend?.[Symbol.asyncDispose]());

  const users = (bearer: string | undefined) => backend.call("GET", "/api/users", { bearer });
  const newUser = async (bearer: string, role: string) => {
    const user = { email: `${role}-${randomUUID()}@example.com`, password: randomUUID() };
    const made = await backend.call("POST", "/api/users", { bearer, body: { ...user, role } });
    return { ...user, made, id: made.json().user_id as string };
  };
  const token = async (
    claims: object,
    { secret = JWT_SECRET, issuer = "atherops", audience = "atherops-api", alg = "HS256", nowS = backend.clock.ms / 1000 } = {},
  ) =>
    await new SignJWT({ ...decodeJwt(org.token), ...claims })
      .setProtectedHeader({ alg })
      .setIssuer(issuer)
      .setAudience(audience)
      .setExpirationTime(nowS + 60)
      .sign(secret);

  const login = (email: string, password: string, address?: string) =>
    backend.call("POST", "/api/auth/login", { body: { email, password }, address });

  describe("login", () => {
    test("returns for e-mail, in any case, and password a token for the user's organisation for 15 minutes", async () => {
      const answer = await login(org.email.toUpperCase(), org.password);
      expect(Object.keys(answer.json())).toEqual(["token"]);
      const { token: session } = answer.json();
      expect(decodeProtectedHeader(session).alg).toBe("HS256");
      expect(decodeJwt(session)).toMatchObject({ org_id: org.orgId, role: "admin", iss: "atherops", aud: "atherops-api" });
      expect((await users(session)).json()).toHaveLength(1);
      backend.clock.ms += 15 * 60_000 - 1000;
      expect((await users(session)).statusCode).toBe(200);
      backend.clock.ms += 1000;
      expect(brief(await users(session))).toEqual([401, "invalid_token"]);
      org.token = await backend.login(org.email, org.password);
    });

    test("returns the same response for a wrong password and an unknown e-mail", async () => {
      const wrong = await login(org.email, "wrong password", "192.0.2.50");
      const unknown = await login("unknown@example.com", "wrong password", "192.0.2.50");
      expect([wrong.statusCode, wrong.body]).toEqual([401, unknown.body]);
      expect(wrong.json().error).toBe("invalid_credentials");
    });

    test("slows down guesses from one address, and accepts the correct password from another", async () => {
      const user = await newUser(org.token, "viewer");
      const from = (password: string, address: string) => login(user.email, password, address);
      for (let attempt = 0; attempt < 5; attempt++) expect((await from("guess", "192.0.2.66")).statusCode).toBe(401);
      const slowed = await from(user.password, "192.0.2.66");
      expect([...brief(slowed), slowed.headers["retry-after"]]).toEqual([429, "login_backoff", "1"]);
      expect((await from(user.password, "192.0.2.67")).statusCode).toBe(200);
      expect((await login(org.email, org.password, "192.0.2.66")).statusCode).toBe(200);
      backend.clock.ms += 1000;
      expect((await from("guess", "192.0.2.66")).statusCode).toBe(401);
      expect((await from("guess", "192.0.2.66")).headers["retry-after"]).toBe("2");
      backend.clock.ms += 2000;
      expect((await from(user.password, "192.0.2.66")).statusCode).toBe(200);
      expect((await from("guess", "192.0.2.66")).statusCode).toBe(401);
    });

    store.once("waiting attempts keep nothing of their bodies in memory", async () => {
      let answered = 0;
      const attempts = Array.from({ length: 40 }, async (_, at) => {
        const body = `${" ".repeat(7000)}{"email":"nobody-${at}@x.example","password":"${"x".repeat(12)}"}`;
        const headers = { "content-type": "application/json" };
        await backend.call("POST", "/api/auth/login", { body, headers, address: `192.0.2.${at}` });
        answered += 1;
      });
      await expect.poll(() => answered > 3 && backend.app.smallBodies.heldBytes, { timeout: 50_000 }).toBe(0);
      expect(answered).toBeLessThan(40);
      await Promise.all(attempts);
    });

    store.once("slows down guesses for an account that does not exist in the same way", async () => {
      const statuses = [];
      for (let attempt = 0; attempt < 6; attempt++) statuses.push((await login("ghost@example.com", "guess", "192.0.2.77")).statusCode);
      expect(statuses).toEqual([401, 401, 401, 401, 401, 429]);
    });
  });

  describe("a session token", () => {
    store.once("of the previous secret is accepted, but not with any other secret, issuer, audience or algorithm", async () => {
      const ok = [await token({}), await token({}, { secret: Buffer.from("p".repeat(48)) })];
      for (const session of ok) expect((await users(session)).statusCode).toBe(200);
      const unsigned = `${Buffer.from('{"alg":"none"}').toString("base64url")}.${org.token.split(".")[1]}.`;
      const refused = [
        await token({}, { secret: Buffer.from("x".repeat(48)) }),
        await token({}, { issuer: "elsewhere" }),
        await token({}, { audience: "elsewhere" }),
        await token({}, { alg: "HS512", secret: Buffer.from("s".repeat(64)) }),
        await token({}, { alg: "HS384" }),
        await token({}, { nowS: backend.clock.ms / 1000 - 61 }),
        unsigned,
        `${org.token}x`,
        "",
      ];
      for (const session of refused) expect(brief(await users(session)), session).toEqual([401, "invalid_token"]);
    });

    store.once("expires, even if it was used before", async () => {
      const session = await token({}, { nowS: backend.clock.ms / 1000 - 50 });
      expect((await users(session)).statusCode).toBe(200);
      backend.clock.ms += 11_000;
      expect(brief(await users(session))).toEqual([401, "invalid_token"]);
    });

    store.once("is verified while many passwords and bodies wait for a thread", async () => {
      expect((await users(await token({}))).statusCode).toBe(200);
      const session = await token({ jti: "never seen before" });
      let done = 0;
      const jobs = Array.from({ length: 64 }, async () => {
        await promisify(pbkdf2)("password", "salt", 100_000, 32, "sha512");
        done += 1;
      });
      expect((await users(session)).statusCode).toBe(200);
      expect(done).toBeLessThan(32);
      await Promise.all(jobs);
    });

    test("is checked against the database: another organisation, epoch or an unknown user is rejected", async () => {
      for (const claims of [{ org_id: randomUUID() }, { epoch: 99 }, { sub: randomUUID() }, { sub: undefined }])
        expect(brief(await users(await token(claims))), JSON.stringify(claims)).toEqual([401, "invalid_token"]);
      expect(brief(await backend.call("GET", "/api/orgs", { bearer: await token({ role: "operator" }) }))).toEqual([403, "forbidden"]);
    });

    test("ends with its user, and has fewer permissions after a demotion", async () => {
      const [gone, demoted, moved] = [
        await newUser(org.token, "admin"),
        await newUser(org.token, "admin"),
        await newUser(org.token, "viewer"),
      ];
      const sessions = await Promise.all([gone, demoted, moved].map((user) => backend.login(user.email, user.password)));
      for (const session of sessions) expect((await users(session)).statusCode).toBe(200);
      expect((await backend.call("DELETE", `/api/users/${gone.id}`, { bearer: org.token })).statusCode).toBe(204);
      const role = await backend.call("PUT", `/api/users/${demoted.id}/role`, { bearer: org.token, body: { role: "viewer" } });
      expect([role.statusCode, role.json().role]).toEqual([200, "viewer"]);
      const password = await backend.call("PUT", `/api/users/${moved.id}/password`, {
        bearer: org.token,
        body: { password: "another password" },
      });
      expect(password.statusCode).toBe(204);
      expect(brief(await users(sessions[0]))).toEqual([401, "invalid_token"]);
      expect((await users(sessions[1])).statusCode).toBe(200);
      expect(brief(await backend.call("POST", "/api/keys", { bearer: sessions[1], body: { name: "k" } }))).toEqual([403, "forbidden"]);
      expect(brief(await users(sessions[2]))).toEqual([401, "invalid_token"]);
      await backend.login(moved.email, "another password");
    });
  });

  describe("privileges", () => {
    test("an administrator can neither grant nor change nor remove an operator", async () => {
      const operator = await backend.login();
      const admin = await newUser(operator, "admin");
      const second = await newUser(operator, "operator");
      const session = await backend.login(admin.email, admin.password);
      const answers = [
        await backend.call("POST", "/api/users", { bearer: session, body: { email: "x@y", password: "long enough", role: "operator" } }),
        await backend.call("PUT", `/api/users/${admin.id}/role`, { bearer: session, body: { role: "operator" } }),
        await backend.call("PUT", `/api/users/${second.id}/role`, { bearer: session, body: { role: "viewer" } }),
        await backend.call("PUT", `/api/users/${second.id}/password`, { bearer: session, body: { password: "long enough" } }),
        await backend.call("DELETE", `/api/users/${second.id}`, { bearer: session }),
      ];
      expect(answers.map(brief)).toEqual(answers.map(() => [403, "forbidden"]));
      expect((await backend.call("DELETE", `/api/users/${second.id}`, { bearer: operator })).statusCode).toBe(204);
      await backend.call("DELETE", `/api/users/${admin.id}`, { bearer: operator });
    });

    store.once("a password for an unknown user costs no hash: hundreds of concurrent requests get 404", async () => {
      const body = { password: randomUUID() };
      const ask = () => backend.call("PUT", `/api/users/${randomUUID()}/password`, { bearer: org.token, body });
      const answers = await Promise.all(Array.from({ length: 300 }, ask));
      // More than 256 logins that wait for a hash would be answered 503.
      expect(new Set(answers.map((answer) => answer.statusCode))).toEqual(new Set([404]));
    });

    test("the last administrator of an organisation cannot be removed or demoted, even if two remove each other concurrently", async () => {
      const lonely = await makeOrg(backend);
      const firstId = (await users(lonely.token)).json()[0].user_id;
      const demote = (id: string, bearer: string) => backend.call("PUT", `/api/users/${id}/role`, { bearer, body: { role: "viewer" } });
      expect(brief(await backend.call("DELETE", `/api/users/${firstId}`, { bearer: lonely.token }))).toEqual([409, "conflict"]);
      expect(brief(await demote(firstId, lonely.token))).toEqual([409, "conflict"]);
      await newUser(lonely.token, "viewer");
      expect(brief(await demote(firstId, lonely.token))).toEqual([409, "conflict"]);
      const second = await newUser(lonely.token, "admin");
      const secondSession = await backend.login(second.email, second.password);
      const answers = await Promise.all([demote(firstId, secondSession), demote(second.id, lonely.token)]);
      const [won, lost] = answers.map((answer) => answer.statusCode).sort((one, two) => one - two);
      expect(won).toBe(200);
      expect([403, 409]).toContain(lost);
      const roles = (await users(lonely.token)).json().map((user: { role: string }) => user.role);
      expect(roles.filter((role: string) => role === "admin")).toHaveLength(1);
    });

    test("an operator adds an administrator to any organisation and frees an address in another one, both audited", async () => {
      const operator = await backend.login();
      const helped = await makeOrg(backend);
      const rescuer = { email: `Rescue-${randomUUID()}@example.com`, password: randomUUID() };
      const made = await backend.call("POST", `/api/orgs/${helped.orgId}/admins`, { bearer: operator, body: rescuer });
      expect([made.statusCode, made.json()]).toMatchObject([201, { email: rescuer.email.toLowerCase(), role: "admin" }]);
      const session = await backend.login(rescuer.email, rescuer.password);
      expect((await users(session)).json()).toHaveLength(2);
      const squatted = { email: `new.hire-${randomUUID()}@bravo.example`, password: randomUUID(), role: "viewer" };
      await backend.call("POST", "/api/users", { bearer: helped.token, body: squatted });
      expect(brief(await backend.call("POST", "/api/users", { bearer: org.token, body: squatted }))).toEqual([409, "conflict"]);
      const find = () =>
        backend.call("GET", `/api/accounts?email=${encodeURIComponent(squatted.email.toUpperCase())}`, { bearer: operator });
      const [account] = (await find()).json();
      expect(account).toMatchObject({ email: squatted.email, org_id: helped.orgId, role: "viewer" });
      expect((await backend.call("DELETE", `/api/accounts/${account.user_id}`, { bearer: operator })).statusCode).toBe(204);
      expect((await find()).json()).toEqual([]);
      expect((await backend.call("POST", "/api/users", { bearer: org.token, body: squatted })).statusCode).toBe(201);
      const audited = logged.join("");
      expect(audited).toContain(`"action":"org.add_admin"`);
      expect(audited).toContain(`"of_org_id":"${helped.orgId}"`);
    });

    test("an operator cannot remove the last administrator of another organisation", async () => {
      const lonely = await makeOrg(backend);
      const id = (await users(lonely.token)).json()[0].user_id;
      const operator = await backend.login();
      expect(brief(await backend.call("DELETE", `/api/accounts/${id}`, { bearer: operator }))).toEqual([409, "conflict"]);
    });

    store.once("a login through an untrusted proxy is logged once", async () => {
      const ask = (address: string) =>
        backend.call("POST", "/api/auth/login", {
          body: { email: org.email, password: org.password },
          headers: { "x-forwarded-for": "203.0.113.9" },
          address,
        });
      for (const address of ["192.0.2.77", "192.0.2.77", "192.0.2.78"]) expect((await ask(address)).statusCode).toBe(200);
      const lines = logged.filter((line) => line.includes("TRUSTED_PROXIES"));
      expect(lines.map((line) => JSON.parse(line).proxy)).toEqual(["192.0.2.77", "192.0.2.78"]);
    });

    test("the last operator cannot be removed or demoted, even if two remove each other concurrently", async () => {
      const first = await backend.login();
      const firstId = (await users(first)).json().find((user: { email: string }) => user.email === OPERATOR.email).user_id;
      expect(brief(await backend.call("DELETE", `/api/users/${firstId}`, { bearer: first }))).toEqual([409, "conflict"]);
      expect(brief(await backend.call("PUT", `/api/users/${firstId}/role`, { bearer: first, body: { role: "admin" } }))).toEqual([
        409,
        "conflict",
      ]);
      const second = await newUser(first, "operator");
      const secondSession = await backend.login(second.email, second.password);
      const answers = await Promise.all([
        backend.call("PUT", `/api/users/${firstId}/role`, { bearer: secondSession, body: { role: "admin" } }),
        backend.call("PUT", `/api/users/${second.id}/role`, { bearer: first, body: { role: "admin" } }),
      ]);
      // The slower of the two meets either the rule (409), or its own demotion (403).
      const [won, lost] = answers.map((answer) => answer.statusCode).sort((one, two) => one - two);
      expect(won).toBe(200);
      expect([403, 409]).toContain(lost);
      const survivor = answers[0]?.statusCode === 200 ? secondSession : first;
      for (const id of [firstId, second.id])
        await backend.call("PUT", `/api/users/${id}/role`, { bearer: survivor, body: { role: "operator" } });
      expect((await backend.call("DELETE", `/api/users/${second.id}`, { bearer: await backend.login() })).statusCode).toBe(204);
    });
  });

  describe("organisations and users", () => {
    test("an operator creates organisations; a name or e-mail in use is 409 and changes nothing", async () => {
      const operator = await backend.login();
      const create = (name: string, email: string) =>
        backend.call("POST", "/api/orgs", { bearer: operator, body: { name, admin: { email, password: "long enough" } } });
      const made = await create("new", "new@example.com");
      expect([made.statusCode, made.json()]).toEqual([201, { org_id: expect.any(String), name: "new", created_at: expect.any(String) }]);
      expect(brief(await create("new", "other@example.com"))).toEqual([409, "conflict"]);
      expect(brief(await create("half", "NEW@example.com"))).toEqual([409, "conflict"]);
      const names = (await backend.call("GET", "/api/orgs", { bearer: operator })).json().map((row: { name: string }) => row.name);
      expect(names).toContain("new");
      expect(names).not.toContain("half");
    });

    test.each([
      [{ email: "no-at-sign", password: "long enough", role: "viewer" }],
      [{ email: "a b@c", password: "long enough", role: "viewer" }],
      [{ email: "a@b", password: "long enough" }],
      [{ email: "a@b", password: "short", role: "viewer" }],
      [{ email: "a@b", password: "long enough", role: "root" }],
      [{ email: "a@b", password: "long enough", role: "viewer", org_id: "x" }],
    ])("rejects a new user like %j with 400", async (body) => {
      expect(brief(await backend.call("POST", "/api/users", { bearer: org.token, body }))).toEqual([400, "invalid_field"]);
    });

    test("a list of users contains no hash", async () => {
      const listed = (await users(org.token)).json();
      expect(Object.keys(listed[0]).sort()).toEqual(["created_at", "email", "label_limits", "role", "user_id"]);
    });
  });

  test("audits every login and change with who, what and from where, and logs no secret", async () => {
    await directKey(backend, org.token);
    const audits = logged.map((line) => JSON.parse(line)).filter((line) => line.audit);
    const actions = new Set(audits.map((line) => line.action));
    const expected = "bootstrap login login.failed login.refused user.create user.role user.password user.delete org.create key.create";
    for (const action of expected.split(" ")) expect(actions).toContain(action);
    const login = audits.find((line) => line.action === "login" && line.email === org.email);
    expect(login).toMatchObject({ org_id: org.orgId, address: "192.0.2.1", request_id: expect.any(String) });
    const everything = logged.join("");
    for (const secret of [OPERATOR.password, org.password, org.token, JWT_SECRET.toString(), "ak_"])
      expect(everything).not.toContain(secret);
  });
});

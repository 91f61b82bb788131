// Single sign-on over HTTP, on both engines of the relational store, with a real identity provider in a separate process. It is one file,
// because every case is a few lines for one provider and one browser.
import { randomUUID } from "node:crypto";
import { Writable } from "node:stream";
import { pino } from "pino";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { accountsApp, type AccountsApp, brief, type Clock, makeOrg, OPERATOR, type Org } from "../../../test/fixtures/accounts-app.ts";
import { describeOnEachStore } from "../../../test/fixtures/each-store.ts";
import { CLIENT_SECRET, IdentityProvider } from "../../../test/fixtures/identity-provider.ts";

/** Below the ports of test/fixtures/processes.ts, so that the provider never has this origin. No server listens there. */
const HOST = "127.0.0.1:8080";
const CALLBACK = `http://${HOST}/api/auth/oidc/callback`;
const HOUR_MS = 3_600_000;
const SHOP = { "k8s.namespace.name": ["shop"] };

type Answer = Awaited<ReturnType<AccountsApp["call"]>>;

/** The cookies that an answer leaves in a browser, by name. */
function cookiesOf(answer: Answer): Record<string, string> {
  return Object.fromEntries(answer.cookies.filter(({ value }) => value !== "").map(({ name, value }) => [name, value]));
}

function cookieText(cookies: Record<string, string>): string {
  return Object.entries(cookies)
    .map(([name, value]) => `${name}=${value}`)
    .join("; ");
}

let provider: IdentityProvider;
let slow: IdentityProvider;
beforeAll(async () => {
  provider = await IdentityProvider.start(CALLBACK);
  slow = await IdentityProvider.start(CALLBACK, -2 * HOUR_MS);
});
afterAll(async () => {
  await provider?.[Symbol.asyncDispose]();
  await slow?.[Symbol.asyncDispose]();
});

describeOnEachStore((store) => {
  let backend: AccountsApp;
  let replica: AccountsApp;
  let org: Org;
  let orgName: string;
  let otherName: string;
  let other: Org;
  const logged: string[] = [];
  const clock: Clock = { ms: Date.now() };

  const settings = (issuer = provider.issuer) => ({
    OIDC_ISSUER: issuer,
    OIDC_CLIENT_ID: "atherops",
    OIDC_CLIENT_SECRET: CLIENT_SECRET,
    OIDC_SCOPES: "openid email groups",
    OIDC_GROUPS: JSON.stringify({
      readers: { org: orgName, role: "viewer" },
      owners: { org: orgName, role: "admin" },
      others: { org: otherName, role: "viewer" },
      shop: { org: orgName, role: "viewer", label_limits: SHOP },
      all: { org: orgName, role: "viewer", label_limits: null },
      root: { org: "default", role: "operator" },
      lost: { org: "an organisation that is not there", role: "admin" },
    }),
  });
  const opened = (env: NodeJS.ProcessEnv) => {
    const sink = new Writable({ write: (chunk, _encoding, done) => (logged.push(String(chunk)), done()) });
    return accountsApp(store.database, { clock, env, log: pino({ level: "trace" }, sink) });
  };

  beforeAll(async () => {
    orgName = randomUUID();
    otherName = randomUUID();
    backend = await opened(settings());
    replica = await opened(settings());
    org = await makeOrg(backend, orgName);
    other = await makeOrg(backend, otherName);
  });
  beforeEach(() => {
    clock.ms = Math.max(clock.ms, Date.now());
  });
  afterAll(async () => {
    await replica?.[Symbol.asyncDispose]();
    await backend?.[Symbol.asyncDispose]();
  });

  const get = (url: string, cookies: Record<string, string> = {}, on = backend, headers = {}) =>
    on.call("GET", url, { headers: { host: HOST, ...(Object.keys(cookies).length > 0 && { cookie: cookieText(cookies) }), ...headers } });
  const start = (query = "", on = backend) => get(`/api/auth/oidc/start${query}`, {}, on);
  const callback = (at: URL, cookies: Record<string, string>, on = backend) => get(`${at.pathname}${at.search}`, cookies, on);

  /** From start to the provider's answer; `alter` changes the address that the browser is sent to. */
  async function answered(account: string, { alter = (_url: URL): void => undefined, query = "", via = provider, on = backend } = {}) {
    const began = await start(query, on);
    expect(began.statusCode, began.body).toBe(302);
    const url = new URL(String(began.headers.location));
    alter(url);
    return { at: await via.through(url.href, account), cookies: cookiesOf(began) };
  }
  const person = async (claims: Record<string, unknown>, account: string = randomUUID()) => {
    const all = { email: `${account}@example.com`, email_verified: true, ...claims };
    await provider.account(account, all);
    return account;
  };
  async function login(account: string, query = ""): Promise<Answer> {
    const { at, cookies } = await answered(account, { query });
    return await callback(at, cookies);
  }
  const asBrowser = (url: string, from: Answer, on = backend) => get(url, cookiesOf(from), on, { "x-requested-with": "atherops" });
  const users = async (of: Org): Promise<{ email: string; role: string; user_id: string }[]> => {
    of.token = await backend.login(of.email, of.password);
    return (await backend.call("GET", "/api/users", { bearer: of.token })).json();
  };

  describe("a login", () => {
    test("creates the user that the groups grant, and a session of this browser", async () => {
      const account = await person({ groups: ["readers", "unknown"] });
      const done = await login(account);
      expect([done.statusCode, done.json()]).toMatchObject([
        200,
        { email: `${account}@example.com`, role: "viewer", org: { id: org.orgId, name: orgName } },
      ]);
      expect((await users(org)).find(({ email }) => email === `${account}@example.com`)?.role).toBe("viewer");
      expect((await asBrowser("/api/auth/session", done)).json()).toMatchObject({ email: `${account}@example.com`, role: "viewer" });
      expect((await asBrowser("/api/users", done, replica)).statusCode).toBe(200);
      expect(brief(await get("/api/users", cookiesOf(done)))).toEqual([401, "invalid_token"]);
    });

    test("removes the limits of a viewer who becomes an administrator or moves to another organisation", async () => {
      const email = `${randomUUID()}@example.com`;
      const subject = randomUUID();
      for (const [group, label_limits] of [
        ["shop", SHOP],
        ["owners", null],
        ["shop", SHOP],
        ["others", null],
      ] as const) {
        const done = await login(await person({ email, groups: [group] }, subject));
        expect([done.statusCode, done.json()], group).toMatchObject([200, { email, label_limits }]);
      }
    });

    test("sets the limits of the group; a group without limits keeps them, and one with null removes them", async () => {
      const email = `${randomUUID()}@example.com`;
      const subject = randomUUID();
      for (const [group, label_limits] of [
        ["shop", SHOP],
        ["readers", SHOP],
        ["all", null],
        ["readers", null],
        ["shop", SHOP],
      ] as const) {
        const done = await login(await person({ email, groups: [group] }, subject));
        expect([done.statusCode, done.json()], group).toMatchObject([200, { email, role: "viewer", label_limits }]);
        expect((await users(org)).find((user) => user.email === email)).toMatchObject({ label_limits });
      }
      await backend.trail.settled();
      const audited = (await backend.call("GET", "/api/audit", { bearer: org.token })).json<{ action: string; subject: object }[]>();
      const changes = audited.filter(
        (entry) => entry.action.startsWith("user.") && "email" in entry.subject && entry.subject.email === email,
      );
      expect(changes.map(({ action }) => action)).toEqual(["user.label_limits", "user.label_limits", "user.create"]);
      expect(changes.at(-1)?.subject).toMatchObject({ label_limits: JSON.stringify(SHOP) });
    });

    store.once("can start at one replica and end at another", async () => {
      const { at, cookies } = await answered(await person({ groups: ["readers"] }));
      expect((await callback(at, cookies, replica)).statusCode).toBe(200);
    });

    store.once("uses PKCE, state and nonce, and a cookie for this host for ten minutes", async () => {
      const began = await backend.call("GET", "/api/auth/oidc/start", { headers: { host: "telemetry.example.com" } });
      const asked = new URL(String(began.headers.location)).searchParams;
      expect(Object.fromEntries(asked)).toMatchObject({
        client_id: "atherops",
        response_type: "code",
        code_challenge_method: "S256",
        redirect_uri: "https://telemetry.example.com/api/auth/oidc/callback",
      });
      for (const name of ["state", "nonce", "code_challenge"]) expect(asked.get(name)).toMatch(/^[\w-]{43}$/);
      expect(String(began.headers["set-cookie"])).toMatch(
        /^__Host-atherops-oidc=[\w.-]+; Path=\/; Max-Age=600; HttpOnly; SameSite=Lax; Secure$/,
      );
      expect(began.headers["cache-control"]).toBe("no-store");
    });

    store.once("redirects only to paths of this host", async () => {
      const account = await person({ groups: ["readers"] });
      const done = await login(account, `?return_to=${encodeURIComponent("/console/?view=logs#now")}`);
      expect([done.statusCode, done.headers.location]).toEqual([303, "/console/?view=logs#now"]);
      for (const elsewhere of ["https://evil.example/", "//evil.example", "/\\evil.example", "/\t/evil.example", "/.//evil.example"])
        expect(brief(await start(`?return_to=${encodeURIComponent(elsewhere)}`)), elsewhere).toEqual([400, "invalid_parameter"]);
    });

    test("follows changed groups to another role and organisation at the next login", async () => {
      const account = await person({ groups: ["owners", "readers"] });
      const asAdmin = await login(account);
      expect(asAdmin.json().role).toBe("admin");
      await person({ groups: ["readers"] }, account);
      expect((await login(account)).json().role).toBe("viewer");
      expect(brief(await asBrowser("/api/users", asAdmin))).toEqual([401, "invalid_token"]);
      await person({ groups: ["others"] }, account);
      expect((await login(account)).json().org).toEqual({ id: other.orgId, name: otherName });
      expect((await users(org)).some(({ email }) => email === `${account}@example.com`)).toBe(false);
    });

    test("keeps the user under another address, and never uses another user's", async () => {
      const account = await person({ groups: ["readers"] });
      const before = (await login(account)).json();
      await person({ groups: ["readers"], email: `new-${account}@example.com` }, account);
      expect((await login(account)).json()).toMatchObject({ email: `new-${before.email}`, org: before.org });
      await person({ groups: ["readers"], email: org.email }, account);
      expect((await login(account)).json().email).toBe(`new-${before.email}`);
    });
  });

  describe("rejects a login", () => {
    for (const [title, claims] of [
      ["no groups", {}],
      ["groups that open nothing", { groups: ["unknown"] }],
      ["a number", { groups: 7 }],
      ["an object", { groups: { readers: true } }],
      ["lists of lists", { groups: [["readers"], null, 1] }],
      ["as many as one can claim", { groups: Array.from({ length: 20_000 }, (_, at) => `group-${at}`) }],
      ["a name of everything", { groups: ["__proto__", "constructor"] }],
    ] as const)
      store.once(`with ${title}, with a reason, and creates no user`, async () => {
        const account = await person(claims);
        const done = await login(account);
        expect(brief(done)).toEqual([403, "forbidden"]);
        expect(done.json().message).toMatch(/none of your groups/);
        expect(cookiesOf(done)).toEqual({});
        expect((await users(org)).some(({ email }) => email.startsWith(account))).toBe(false);
      });

    test("if the group belongs to an organisation that does not exist", async () => {
      const done = await login(await person({ groups: ["lost"] }));
      expect([...brief(done), done.json().message]).toEqual([403, "forbidden", expect.stringContaining("does not exist")]);
    });

    store.once("with a nonce of another browser", async () => {
      const account = await person({ groups: ["readers"] });
      const { at, cookies } = await answered(account, { alter: (url) => url.searchParams.set("nonce", "an-attackers") });
      expect(brief(await callback(at, cookies))).toEqual([401, "login_refused"]);
    });

    store.once("with another state, in another browser, and in one that started no login", async () => {
      const account = await person({ groups: ["readers"] });
      const { at, cookies } = await answered(account);
      const altered = new URL(at);
      altered.searchParams.set("state", "an-attackers");
      expect(brief(await callback(altered, cookies))).toEqual([401, "login_refused"]);
      expect(brief(await callback(at, cookiesOf(await start())))).toEqual([401, "login_refused"]);
      expect(brief(await callback(at, {}))).toEqual([401, "login_refused"]);
      const forged = Object.fromEntries(Object.entries(cookies).map(([name, value]) => [name, `${value.slice(0, -4)}AAAA`]));
      expect(brief(await callback(at, forged))).toEqual([401, "login_refused"]);
    });

    test("with a used code, although the browser still has its cookie", async () => {
      const { at, cookies } = await answered(await person({ groups: ["readers"] }));
      expect((await callback(at, cookies)).statusCode).toBe(200);
      const again = await callback(at, cookies);
      expect([...brief(again), again.json().message]).toEqual([401, "login_refused", expect.stringContaining("was already used")]);
      const elsewhere = await callback(at, cookies, replica);
      expect([...brief(elsewhere), elsewhere.json().message]).toEqual([401, "login_refused", expect.stringContaining("invalid_grant")]);
    });

    store.once("with an issuer of another provider", async () => {
      const { at, cookies } = await answered(await person({ groups: ["readers"] }));
      at.searchParams.set("iss", "https://another.example");
      expect(brief(await callback(at, cookies))).toEqual([401, "login_refused"]);
    });

    store.once("that started more than ten minutes ago", async () => {
      const { at, cookies } = await answered(await person({ groups: ["readers"] }));
      clock.ms += 10 * 60_000 + 1000;
      expect(brief(await callback(at, cookies))).toEqual([401, "login_refused"]);
    });

    store.once("with an expired token", async () => {
      const late = await opened(settings(slow.issuer));
      const account = randomUUID();
      await slow.account(account, { email: `${account}@example.com`, email_verified: true, groups: ["readers"] });
      const { at, cookies } = await answered(account, { via: slow, on: late });
      expect(brief(await callback(at, cookies, late))).toEqual([401, "login_refused"]);
      await late[Symbol.asyncDispose]();
    });

    store.once("if the provider itself rejects it", async () => {
      const began = await start();
      const state = new URL(String(began.headers.location)).searchParams.get("state");
      const at = new URL(`${CALLBACK}?error=access_denied&error_description=%3Cscript%3E&state=${state}&iss=${provider.issuer}`);
      const done = await callback(at, cookiesOf(began));
      expect([...brief(done), done.json().message]).toEqual([401, "login_refused", expect.stringContaining("access_denied")]);
      expect(done.body).not.toContain("script");
    });

    const HTML = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    const refusal = async (at: URL, cookies: Record<string, string>, accept = HTML): Promise<Answer> =>
      await get(`${at.pathname}${at.search}`, cookies, backend, { accept });
    const words = ({ body }: Answer): string | undefined => /<p>([^<]*)<\/p>/.exec(body)?.[1];

    for (const [which, why] of [
      ["that is too late", "This browser did not begin a login within the last ten minutes."],
      ["that the provider denied", "The identity provider rejected this login: access_denied."],
      ["with another state", "The identity provider rejected this login: OAUTH_INVALID_RESPONSE."],
    ] as const)
      store.once(`with a page in a browser: a login ${which}`, async () => {
        const began = await start();
        const at = new URL(`${CALLBACK}?error=access_denied&error_description=%3Cscript%3E&iss=${provider.issuer}`);
        const state = new URL(String(began.headers.location)).searchParams.get("state") ?? "";
        at.searchParams.set("state", which === "with another state" ? "an-attackers" : state);
        if (which === "that is too late") clock.ms += 10 * 60_000 + 1000;
        const page = await refusal(at, cookiesOf(began));
        expect([page.statusCode, words(page)]).toEqual([401, why]);
        expect(page.body).toContain('<a href="/">');
        expect(page.body).not.toMatch(/script|\/api\//);
        expect(page.headers).toMatchObject({
          "content-type": "text/html; charset=utf-8",
          "content-security-policy": expect.stringMatching(
            /^default-src 'none'; style-src 'sha256-[^']+'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'$/,
          ),
          "cross-origin-opener-policy": "same-origin",
          "cache-control": "no-store",
          "referrer-policy": "no-referrer",
        });
        const json = await refusal(at, cookiesOf(await start()), "application/json");
        expect(brief(json)).toEqual([401, "login_refused"]);
      });

    store.once("with a page in a browser: a login that no browser started, or without a grant", async () => {
      const elsewhere = await refusal(new URL(`http://${HOST}/api/auth/oidc/start?return_to=//evil.example`), {});
      expect([elsewhere.statusCode, words(elsewhere)]).toEqual([400, "return_to: must be a path of this server, such as /."]);
      expect(elsewhere.headers["cache-control"]).toBe("no-store");
      const { at, cookies } = await answered(await person({}));
      expect(words(await refusal(at, cookies))).toBe(
        "None of your groups grants access to an organisation: ask an operator to change OIDC_GROUPS.",
      );
    });

    test("for an unused address that the provider has not verified, unless OIDC_ALLOW_UNVERIFIED_EMAIL is set", async () => {
      const account = await person({ groups: ["readers"], email_verified: undefined });
      const done = await login(account);
      expect([...brief(done), done.json().message]).toEqual([403, "forbidden", expect.stringContaining("OIDC_ALLOW_UNVERIFIED_EMAIL")]);
      const trusting = await opened({ ...settings(), OIDC_ALLOW_UNVERIFIED_EMAIL: "true" });
      const { at, cookies } = await answered(account, { on: trusting });
      expect((await callback(at, cookies, trusting)).json()).toMatchObject({ email: `${account}@example.com` });
      await trusting[Symbol.asyncDispose]();
      await person({ groups: ["readers"], email_verified: undefined, email: `new-${account}@example.com` }, account);
      expect((await login(account)).json().email).toBe(`${account}@example.com`);
    });

    store.once("without a usable e-mail address", async () => {
      for (const claims of [{ email: undefined }, { email_verified: false }, { email: "no address" }, { email: "a\u0007@b" }])
        expect(brief(await login(await person({ groups: ["readers"], ...claims })))).toEqual([403, "forbidden"]);
    });
  });

  describe("a user with a password", () => {
    const withPassword = async (role: string, of = org) => {
      const user = { email: `${randomUUID()}@example.com`, password: randomUUID() };
      const bearer = role === "operator" ? await backend.login() : await backend.login(of.email, of.password);
      expect((await backend.call("POST", "/api/users", { bearer, body: { ...user, role } })).statusCode).toBe(201);
      return user;
    };

    test("loses it if the provider has verified the address and the organisation is the same", async () => {
      const { email, password } = await withPassword("viewer");
      expect((await login(await person({ groups: ["owners"], email }))).json()).toMatchObject({ email, role: "admin" });
      await expect(backend.login(email, password)).rejects.toThrow("401");
      const id = (await users(org)).find((user) => user.email === email)?.user_id;
      const set = await backend.call("PUT", `/api/users/${id}/password`, { bearer: org.token, body: { password } });
      expect(brief(set)).toEqual([409, "conflict"]);
    });

    store.once("is not taken over if the ID token contains its address and userinfo another one as verified", async () => {
      const { email, password } = await withPassword("admin");
      const elsewhere = { groups: ["owners"], email: `${randomUUID()}@example.com`, email_verified: true };
      expect(brief(await login(await person({ ...elsewhere, id_token: { email } })))).toEqual([409, "conflict"]);
      expect(await backend.login(email, password)).toBeTruthy();
      const same = { groups: ["owners"], email, email_verified: true, id_token: { email } };
      expect((await login(await person(same))).json()).toMatchObject({ email, role: "admin" });
    });

    test("is not taken over with an unverified address, from another organisation, or as an operator", async () => {
      const mine = await withPassword("viewer");
      expect(brief(await login(await person({ groups: ["owners"], email: mine.email, email_verified: undefined })))).toEqual([
        409,
        "conflict",
      ]);
      const foreign = await withPassword("viewer", other);
      expect(brief(await login(await person({ groups: ["owners"], email: foreign.email })))).toEqual([409, "conflict"]);
      expect(brief(await login(await person({ groups: ["root"], email: OPERATOR.email })))).toEqual([409, "conflict"]);
      for (const { email, password } of [mine, foreign, OPERATOR]) expect(await backend.login(email, password)).toBeTruthy();
    });
  });

  test("keeps an organisation's last administrator, whatever the groups are", async () => {
    const alone = randomUUID();
    const made = await makeOrg(backend, alone);
    const own = await opened({
      ...settings(),
      OIDC_GROUPS: JSON.stringify({ a: { org: alone, role: "admin" }, v: { org: alone, role: "viewer" } }),
    });
    const account = await person({ groups: ["a"] });
    const loginOn = async () => {
      const { at, cookies } = await answered(account, { on: own });
      return await callback(at, cookies, own);
    };
    expect((await loginOn()).json().role).toBe("admin");
    const [first] = (await users(made)).filter(({ email }) => email === made.email);
    const remove = await backend.call("DELETE", `/api/accounts/${first?.user_id}`, { bearer: await backend.login() });
    expect(remove.statusCode).toBe(204);
    await person({ groups: ["v"] }, account);
    expect(brief(await loginOn())).toEqual([409, "conflict"]);
    await own[Symbol.asyncDispose]();
  });

  store.once(
    "with PASSWORD_LOGIN=false the first operator can log in, and responses do not reveal whether a password is correct",
    async () => {
      const strict = await opened({ ...settings(), PASSWORD_LOGIN: "false" });
      const second = { email: `${randomUUID()}@example.com`, password: randomUUID() };
      const body = { ...second, role: "operator" };
      expect((await backend.call("POST", "/api/users", { bearer: await backend.login(), body })).statusCode).toBe(201);
      const tried = (email: string, password: string, path = "login") =>
        strict.call("POST", `/api/auth/${path}`, { body: { email, password } });
      expect((await tried(OPERATOR.email, OPERATOR.password)).statusCode).toBe(200);
      expect((await tried(OPERATOR.email, OPERATOR.password, "session")).statusCode).toBe(204);
      for (const path of ["login", "session"]) {
        const right = await tried(second.email, second.password, path);
        expect(brief(right)).toEqual([401, "invalid_credentials"]);
        expect((await tried(second.email, "wrong password", path)).body).toBe(right.body);
        expect((await tried(org.email, org.password, path)).body).toBe(right.body);
      }
      await strict[Symbol.asyncDispose]();
    },
  );

  store.once("while the provider is unavailable, a login returns 503, passwords work, and single sign-on recovers", async () => {
    const gone = await IdentityProvider.start(CALLBACK);
    const lonely = await opened(settings(gone.issuer));
    await gone.stop();
    const refused = await start("", lonely);
    expect([...brief(refused), refused.headers["retry-after"]]).toEqual([503, "unavailable", "5"]);
    expect(await lonely.login(org.email, org.password)).toBeTruthy();
    await gone.resume();
    await expect.poll(async () => (await start("", lonely)).statusCode, { timeout: 50_000 }).toBe(302);
    const account = randomUUID();
    await gone.account(account, { email: `${account}@example.com`, email_verified: true, groups: ["readers"] });
    const { at, cookies } = await answered(account, { via: gone, on: lonely });
    await gone.stop();
    expect(brief(await callback(at, cookies, lonely))).toEqual([503, "unavailable"]);
    await lonely[Symbol.asyncDispose]();
  });

  store.once("audits every refused login", async () => {
    logged.length = 0;
    const { at, cookies } = await answered(await person({ groups: ["readers"] }));
    await callback(at, {});
    await callback(at, cookiesOf(await start()));
    const none = await person({ groups: [] });
    const taken = await person({ groups: ["root"], email: OPERATOR.email });
    const unverified = await person({ groups: ["readers"], email_verified: false });
    for (const account of [none, taken, unverified]) await login(account);
    clock.ms += 10 * 60_000 + 1000;
    await callback(at, cookies);
    const lines = logged.map((line) => JSON.parse(line)).filter(({ audit }) => audit);
    expect(lines.map(({ action, by, reason, email }) => [action, by, reason, email])).toEqual([
      ["login.failed", "sso", "no_attempt", undefined],
      ["login.failed", "sso", "OAUTH_INVALID_RESPONSE", undefined],
      ["login.failed", "sso", "no_group", `${none}@example.com`],
      ["login.failed", "sso", "conflict", OPERATOR.email],
      ["login.failed", "sso", "forbidden", `${unverified}@example.com`],
      ["login.failed", "sso", "no_attempt", undefined],
    ]);
  });

  store.once("audits every login, without a secret, a code or a token", async () => {
    logged.length = 0;
    const account = await person({ groups: ["readers"] });
    const { at, cookies } = await answered(account);
    const done = await callback(at, cookies);
    await callback(at, cookies);
    const all = logged.join("");
    const lines = logged.map((line) => JSON.parse(line)).filter(({ audit }) => audit);
    expect(lines.map(({ action }) => action)).toEqual(["user.create", "login", "login.failed"]);
    expect(lines.at(-1)).toMatchObject({ by: "sso", reason: "attempt_used" });
    const secrets = [
      CLIENT_SECRET,
      at.searchParams.get("code"),
      at.searchParams.get("state"),
      ...Object.values(cookies),
      ...Object.values(cookiesOf(done)),
    ];
    for (const secret of secrets) expect(all).not.toContain(secret);
  });
});

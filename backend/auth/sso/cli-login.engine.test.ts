// `atherops login --sso` from the command to a session, on both engines of the relational store, with a real identity provider in a
// separate process, over real HTTP; a few lines act as the browser.
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { request as httpRequest } from "node:http";
import { connect } from "node:net";
import { join } from "node:path";
import { PassThrough, Writable } from "node:stream";
import { pino } from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { accountsApp, type AccountsApp, type Clock, makeOrg, type Org } from "../../../test/fixtures/accounts-app.ts";
import { describeOnEachStore } from "../../../test/fixtures/each-store.ts";
import { CLIENT_SECRET, IdentityProvider } from "../../../test/fixtures/identity-provider.ts";
import { freePorts, temporaryFolder } from "../../../test/fixtures/processes.ts";
import { run } from "../../cli/program.ts";
import { runClient } from "../../cli/run-client.fixture.ts";
import { challengeOf } from "./attempt.ts";
import { stub } from "../../../test/fixtures/stub.ts";

const VERIFIER = "v".repeat(43);
const STATE = "s".repeat(43);

interface Asked {
  readonly page: Response;
  readonly html: string;
  readonly cookie: string;
  /** The token in the page's form. */
  readonly token: string;
}

/** The cookies that a response sets. */
function cookiesOf(answer: Response): string {
  const pairs = answer.headers.getSetCookie().map((text) => text.split(";", 1)[0] ?? "");
  return pairs.filter((pair) => !pair.endsWith("=")).join("; ");
}

describeOnEachStore((store) => {
  const stack = new AsyncDisposableStack();
  const clock: Clock = { ms: Date.now() };
  const logged: string[] = [];
  let [url, sessionFile, orgName] = ["", "", randomUUID() as string];
  let provider: IdentityProvider;
  let backend: AccountsApp;
  let replica: AccountsApp;
  let org: Org;

  const opened = async (oidc: boolean): Promise<AccountsApp> => {
    const sink = new Writable({ write: (chunk, _encoding, done) => (logged.push(String(chunk)), done()) });
    const env = oidc && {
      OIDC_ISSUER: provider.issuer,
      OIDC_CLIENT_ID: "atherops",
      OIDC_CLIENT_SECRET: CLIENT_SECRET,
      OIDC_SCOPES: "openid email groups",
      OIDC_GROUPS: JSON.stringify({ owners: { org: orgName, role: "admin" }, readers: { org: orgName, role: "viewer" } }),
    };
    return stack.use(await accountsApp(store.database, { clock, log: pino({ level: "trace" }, sink), ...(env && { env }) }));
  };

  beforeAll(async () => {
    const [port] = await freePorts(1);
    url = `http://127.0.0.1:${port}`;
    sessionFile = join(stack.use(temporaryFolder()).path, "session.json");
    provider = stack.use(await IdentityProvider.start(`${url}/api/auth/oidc/callback`));
    [backend, replica] = [await opened(true), await opened(true)];
    await backend.app.listen({ host: "127.0.0.1", port: port as number });
    org = await makeOrg(backend, orgName);
  });
  afterAll(() => stack.disposeAsync());

  const person = async (group = "owners"): Promise<string> => {
    const account = randomUUID();
    await provider.account(account, { email: `${account}@example.com`, email_verified: true, groups: [group] });
    return account;
  };
  /** A browser goes from this address through the provider and back, to the backend's own page. */
  const asked = async (address: string, account: string): Promise<Asked> => {
    const began = await fetch(address, { redirect: "manual" });
    expect(began.status).toBe(302);
    const at = await provider.through(String(began.headers.get("location")), account);
    const page = await fetch(at, { redirect: "manual", headers: { cookie: cookiesOf(began) } });
    const html = await page.text();
    expect(page.status, html).toBe(200);
    return { page, html, cookie: cookiesOf(page), token: /name="token" value="([^"]+)"/.exec(html)?.[1] ?? "" };
  };
  /** The page's button is pressed. */
  const agree = async ({ cookie, token }: Pick<Asked, "cookie" | "token">, at = url, accept = "*/*"): Promise<Response> =>
    await fetch(`${at}/api/auth/oidc/cli`, {
      method: "POST",
      redirect: "manual",
      headers: { ...(cookie !== "" && { cookie }), "content-type": "application/x-www-form-urlencoded", accept },
      body: new URLSearchParams({ token }).toString(),
    });
  const browse = async (address: string, account: string): Promise<Response> => await agree(await asked(address, account));
  const startUrl = (parameters: Record<string, string> = {}): string => {
    const all = { cli_port: "40000", cli_state: STATE, cli_challenge: challengeOf(VERIFIER), ...parameters };
    return `${url}/api/auth/oidc/start?${new URLSearchParams(all).toString()}`;
  };
  const codeFor = async (account: string): Promise<string> => {
    const location = new URL(String((await browse(startUrl(), account)).headers.get("location")));
    return location.searchParams.get("code") as string;
  };
  const exchange = async (code: string, verifier = VERIFIER, on = backend): Promise<[number, string | undefined]> => {
    const answer = await on.call("POST", "/api/auth/oidc/token", { body: { code, verifier } });
    return [answer.statusCode, answer.json().error];
  };
  const REFUSED = [401, "login_refused"];

  /** The command, with or without a terminal. */
  function login({ isTTY = false } = {}) {
    const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
    const abort = new AbortController();
    const settings = { url, passwordFile: undefined, sessionFile };
    const world = {
      settings,
      stdin: stub<NodeJS.ReadStream>(Object.assign(stdin, { isTTY })),
      stdout,
      stderr,
      signal: abort.signal,
    };
    const printed: string[] = [];
    stderr.on("data", (text: Buffer) => printed.push(text.toString()));
    const code = run(["login", "--sso"], world);
    /** Resolves with the printed URL, or rejects if the command ends without one. */
    const says = async (words: RegExp): Promise<string> => {
      const ended = code.then(() => true);
      while (!words.test(printed.join(""))) if ((await Promise.race([once(stderr, "data"), ended])) === true) break;
      expect(printed.join("")).toMatch(words);
      return words.exec(printed.join(""))?.[1] as string;
    };
    return { code, says, address: () => says(/\n {2}(http\S+)\n/), stdin, stop: () => abort.abort(), printed: () => printed.join("") };
  }

  test("prints a URL, waits for the browser, and stores a session that later commands use", async () => {
    const account = await person();
    const command = login();
    const page = await asked(await command.address(), account);
    expect(page.html).toContain(await command.says(/\n {2}([0-9A-F]{4}-[0-9A-F]{4}-[0-9A-F]{4})\n/));
    const ended = await agree(page);
    expect([ended.status, ended.headers.getSetCookie()]).toEqual([303, []]);
    const location = String(ended.headers.get("location"));
    expect(location).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/\?code=/);
    // Browsers open connections in advance and send nothing on them.
    const unused = connect(Number(new URL(location).port), "127.0.0.1");
    await once(unused, "connect");
    const shown = await fetch(location);
    expect(await shown.text()).toBe(`You are logged in as ${account}@example.com. You can close this window.\n`);
    expect([await command.code, command.printed()]).toEqual([
      0,
      expect.stringContaining(`logged in to ${url} as ${account}@example.com\nthe session lasts 15m; after that, run `),
    ]);
    await once(unused.resume(), "close");
    expect((await runClient("users", { url, sessionFile })).out).toContain(`${account}@example.com`);
    const kept = readFileSync(sessionFile, "utf8");
    expect(JSON.parse(kept)).toMatchObject({ sso: true, email: `${account}@example.com` });
    clock.ms += 16 * 60_000;
    expect((await runClient("users", { url, sessionFile, passwordFile: "/not/there" })).err).toBe(
      "atherops: the session has ended: run `atherops login --sso`\n",
    );
    const audited = logged.map((line) => JSON.parse(line)).filter(({ audit }) => audit);
    expect(audited.map(({ action, by }) => `${action} ${by}`).slice(-2)).toEqual(["user.create sso", "login sso"]);
    for (const secret of [new URL(location).searchParams.get("code"), JSON.parse(kept).token])
      expect(logged.join("")).not.toContain(secret);
  });

  test("a link from elsewhere logs no user in: the backend asks on its own page, which no other page can submit", async () => {
    const account = await person();
    const { page, html, cookie } = await asked(startUrl(), account);
    expect(page.headers.get("content-type")).toBe("text/html; charset=utf-8");
    expect(page.headers.get("location")).toBe(null);
    expect(page.headers.get("cache-control")).toBe("no-store");
    expect(page.headers.get("content-security-policy")).toMatch(
      /^default-src 'none'; style-src 'sha256-[\w+/]{43}='; form-action 'self' http:\/\/127\.0\.0\.1:40000; base-uri 'none'; frame-ancestors 'none'$/,
    );
    expect(html).not.toMatch(/<script|\son\w+=|style=/);
    for (const words of [`${account}@example.com`, orgName, "admin", "127.0.0.1:40000"]) expect(html).toContain(words);
    const sent = page.headers.getSetCookie().find((text) => text.startsWith("atherops-cli="));
    expect(sent).toMatch(/^atherops-cli=[\w.-]+; Path=\/; Max-Age=300; HttpOnly; SameSite=Strict$/);
    // It is no session, and what the page holds is no code.
    const headers = { cookie: cookie.replace("atherops-cli=", "atherops="), "x-requested-with": "atherops" };
    expect((await backend.call("GET", "/api/auth/session", { headers })).statusCode).toBe(401);
    expect(await exchange(cookie.slice("atherops-cli=".length))).toEqual(REFUSED);
  });

  test("the page's button works in its own browser, at any replica, for five minutes, until there is a session", async () => {
    const refusedOf = async (asker: Pick<Asked, "cookie" | "token">): Promise<unknown> => {
      const answer = await agree(asker);
      return [answer.status, ((await answer.json()) as { error: string }).error, answer.headers.get("location")];
    };
    const NOT_LED = [401, "login_refused", null];
    const account = await person();
    const [first, other] = [await asked(startUrl(), account), await asked(startUrl(), account)];
    expect(await refusedOf({ ...first, cookie: "" })).toEqual(NOT_LED);
    const shown = await agree({ ...first, cookie: "" }, url, "text/html,*/*;q=0.8");
    expect([shown.status, await shown.text()]).toEqual([
      401,
      expect.stringContaining("<p>The page is invalid, already used or older than five minutes"),
    ]);
    expect(await refusedOf({ ...first, token: other.token })).toEqual(NOT_LED);
    expect(await refusedOf({ ...first, token: "t".repeat(43) })).toEqual(NOT_LED);
    const [, claims] = first.cookie.split(".");
    expect(await refusedOf({ ...first, cookie: first.cookie.replace(String(claims), String(other.cookie.split(".")[1])) })).toEqual(
      NOT_LED,
    );
    // A button that is pressed twice leads twice, to one session.
    const at = await replica.app.listen({ host: "127.0.0.1", port: 0 });
    const codes = [await agree(first), await agree(first, at)].map((led) => new URL(String(led.headers.get("location"))).searchParams);
    expect(await exchange(codes[0]?.get("code") ?? "")).toEqual([200, undefined]);
    expect(await exchange(codes[1]?.get("code") ?? "")).toEqual(REFUSED);
    expect(await refusedOf(first)).toEqual(NOT_LED);
    clock.ms += 301_000;
    expect(await refusedOf(other)).toEqual(NOT_LED);
  });

  store.once("escapes the provider's text on the page", async () => {
    const account = randomUUID();
    await provider.account(account, { email: `<b>'"&amp;${account}@example.com`, email_verified: true, groups: ["owners"] });
    expect((await asked(startUrl(), account)).html).toContain(`&lt;b&gt;&#39;&quot;&amp;amp;${account}@example.com`);
  });

  store.once("accepts the URL that a browser on another machine ended at, and no other", async () => {
    const command = login({ isTTY: true });
    const ended = await browse(await command.address(), await person());
    const location = new URL(String(ended.headers.get("location")));
    const foreign = new URL(location);
    foreign.searchParams.set("state", STATE);
    command.stdin.write(`${foreign.href}\n`);
    await command.says(/This is not the URL of this login/);
    command.stdin.write(`  ${location.href} \n`);
    expect(await command.code).toBe(0);
  });

  store.once("ignores requests of other pages and names of the machine, without output", async () => {
    const command = login();
    const port = Number(new URL(await command.address()).searchParams.get("cli_port"));
    const state = new URL(await command.address()).searchParams.get("cli_state");
    const send = async (path: string, headers: Record<string, string> = {}, method = "GET"): Promise<number | undefined> => {
      const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
      httpRequest({ host: "127.0.0.1", port, path, headers, method }, (answer) => resolve(answer.resume().statusCode))
        .on("error", reject)
        .end();
      return await promise;
    };
    expect(await send(`/?code=a.b.c&state=${STATE}`)).toBe(404);
    expect(await send(`/?state=${state}`)).toBe(404);
    expect(await send(`/?code=a.b.c&state=${state}`, { host: `evil.example:${port}` })).toBe(404);
    expect(await send(`/?code=a.b.c&state=${state}`, {}, "POST")).toBe(404);
    command.stop();
    expect([await command.code, command.printed()]).toEqual([1, expect.stringContaining("login interrupted")]);
    await expect(send("/")).rejects.toThrow("ECONNREFUSED");
  });

  store.once("reports immediately that there is no single sign-on, without a request for an e-mail address", async () => {
    const without = await opened(false);
    const address = await without.app.listen({ host: "127.0.0.1", port: 0 });
    expect((await runClient("login --sso", { url: address, sessionFile })).err).toContain("single sign-on is not configured");
    expect((await runClient("login --sso --email a@b", { url, sessionFile })).err).toContain("--sso cannot be used with --email");
    expect(await exchange("a.b.c", VERIFIER, without)).toEqual([404, "not_found"]);
    expect((await agree({ cookie: "", token: "t".repeat(43) }, address)).status).toBe(404);
    const help = await runClient("login --help", { url, sessionFile });
    expect(help.out).toContain("atherops login --sso --url");
  });

  test("a code works once, at any replica, for a minute, with the verifier of its login", async () => {
    const account = await person();
    const code = await codeFor(account);
    expect(await exchange(code, "w".repeat(43))).toEqual(REFUSED);
    const both = await Promise.all([exchange(code), exchange(code, VERIFIER, replica)]);
    expect(both.map(([status]) => status).toSorted((one, other) => one - other)).toEqual([200, 401]);
    expect(await exchange(code)).toEqual(REFUSED);
    const late = await codeFor(account);
    clock.ms += 61_000;
    expect(await exchange(late)).toEqual(REFUSED);
    for (const other of ["", "a.b.c", `${(await codeFor(account)).slice(0, -4)}AAAA`]) expect(await exchange(other)).toEqual(REFUSED);
  });

  store.once("a code is no credential, and other signed values are no code", async () => {
    const account = await person();
    const code = await codeFor(account);
    expect((await backend.call("GET", "/api/users", { bearer: code })).statusCode).toBe(401);
    const headers = { cookie: `atherops=${code}`, "x-requested-with": "atherops" };
    expect((await backend.call("GET", "/api/auth/session", { headers })).statusCode).toBe(401);
    expect(await exchange(await backend.login(org.email, org.password))).toEqual(REFUSED);
    expect(await exchange(code)).toEqual([200, undefined]);
  });

  test("a code of a user who was removed in the meantime creates no session", async () => {
    const account = await person();
    const code = await codeFor(account);
    org.token = await backend.login(org.email, org.password);
    const users = (await backend.call("GET", "/api/users", { bearer: org.token })).json<{ email: string; user_id: string }[]>();
    const { user_id: id } = users.find(({ email }) => email === `${account}@example.com`) as { user_id: string };
    expect((await backend.call("DELETE", `/api/users/${id}`, { bearer: org.token })).statusCode).toBe(204);
    expect(await exchange(code)).toEqual(REFUSED);
  });

  const REDIRECTS: readonly Record<string, string>[] = [
    { cli_port: "80" },
    { cli_port: "70000" },
    { cli_port: "40000/@evil.example" },
    { cli_state: "short" },
    { cli_challenge: "x".repeat(42) },
    { return_to: "/" },
  ];
  for (const wrong of REDIRECTS)
    store.once(`rejects a login that redirects to anything but a port of this machine: ${JSON.stringify(wrong)}`, async () => {
      const answer = await fetch(startUrl(wrong), { redirect: "manual" });
      expect([answer.status, ((await answer.json()) as { error: string }).error]).toEqual([400, "invalid_parameter"]);
    });

  store.once("rejects a port alone", async () => {
    const answer = await fetch(`${url}/api/auth/oidc/start?cli_port=40000`, { redirect: "manual" });
    expect([answer.status, ((await answer.json()) as { message: string }).message]).toEqual([
      400,
      expect.stringContaining("are required together"),
    ]);
  });
});

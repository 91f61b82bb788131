// The one-time link over HTTP, with both relational databases: who may use it, and what is refused.
import { Writable } from "node:stream";
import { pino } from "pino";
import { afterAll, beforeAll, expect, test } from "vitest";
import { accountsApp, OPERATOR, type AccountsApp, type CallOptions } from "../../../test/fixtures/accounts-app.ts";
import { describeOnEachStore } from "../../../test/fixtures/each-store.ts";
import { OneTimeLogin } from "./one-time-login.ts";

const PATH = "/api/auth/session/code";
const HERE = { address: "127.0.0.1", headers: { "x-requested-with": "atherops", host: "127.0.0.1:8080" } };

describeOnEachStore((store) => {
  const oneTimeLogin = new OneTimeLogin();
  let logged = "";
  let backend: AccountsApp;
  beforeAll(async () => {
    // The level that logs each request.
    const log = pino({ level: "trace" }, new Writable({ write: (chunk, _encoding, done) => ((logged += String(chunk)), done()) }));
    backend = await accountsApp(store.database, { oneTimeLogin, log });
  });
  afterAll(async () => await backend?.[Symbol.asyncDispose]());

  const use = async (code: unknown, options: CallOptions = HERE) => await backend.call("POST", PATH, { ...options, body: { code } });

  test("logs one browser in as the first operator once, and audits it without the code", async () => {
    const code = oneTimeLogin.mint();
    const [first, second] = await Promise.all([use(code), use(code)]);
    const [opened, refused] = first.statusCode === 204 ? [first, second] : [second, first];
    expect([opened.statusCode, opened.headers["cache-control"]]).toEqual([204, "no-store"]);
    expect([refused.statusCode, refused.json().error, refused.headers["set-cookie"]]).toEqual([401, "invalid_credentials", undefined]);
    const cookie = String(opened.headers["set-cookie"]).split(";", 1)[0] ?? "";
    const session = await backend.call("GET", "/api/auth/session", { headers: { cookie, ...HERE.headers } });
    expect(session.json()).toMatchObject({ email: OPERATOR.email, role: "operator" });
    expect(logged).toMatch(/"action":"login"/);
    expect(logged).toContain(PATH);
    expect(logged).not.toContain(code);
  });

  test.each<[string, CallOptions]>([
    ["from another machine, by a proxy of this one", { ...HERE, address: "192.0.2.1" }],
    ["under a host name that another site may use", { ...HERE, headers: { ...HERE.headers, host: "evil.example.com:8080" } }],
    ["without the header that other sites cannot send", { ...HERE, headers: { host: "127.0.0.1:8080" } }],
  ])("is rejected %s, and stays valid", async (_name, options) => {
    const code = oneTimeLogin.mint();
    expect((await use(code, options)).statusCode).toBe(401);
    expect((await use(code)).statusCode).toBe(204);
  });

  store.once("rejects a missing or large body before it compares the code", async () => {
    const code = oneTimeLogin.mint();
    for (const wrong of [undefined, [code], "a".repeat(201)]) expect((await use(wrong)).statusCode).toBe(400);
    expect((await use("a".repeat(2000))).statusCode).toBe(413);
    expect((await backend.call("GET", `${PATH}?code=${code}`, HERE)).statusCode).toBe(405);
    expect((await use(code)).statusCode).toBe(204);
  });

  store.once("does not exist without the start channel", async () => {
    await using plain = await accountsApp(store.database);
    expect((await plain.call("POST", PATH, { ...HERE, body: { code: "x" } })).statusCode).toBe(404);
  });
});

// The confirmation page of `atherops login --sso` in a real Chromium, after a login that another site started: what its content security
// policy and its cookie allow. The minimal browser of backend/auth/sso/cli-login.engine.test.ts cannot show this.
import { join } from "node:path";
import { PassThrough } from "node:stream";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { run } from "../../backend/cli/program.ts";
import { accountsApp } from "../fixtures/accounts-app.ts";
import { openBrowser, openPage, violations } from "../fixtures/browser.ts";
import { CLIENT_SECRET, IdentityProvider } from "../fixtures/identity-provider.ts";
import { relationalEngines, type OpenedEngine } from "../fixtures/postgres.ts";
import { freePorts, temporaryFolder } from "../fixtures/processes.ts";
import { stub } from "../fixtures/stub.ts";

const ACCOUNT = "ann";
const OTHER_SITE = "http://elsewhere.test";

const stack = new AsyncDisposableStack();
let url: string;
let provider: IdentityProvider;
let browser: Browser;

beforeAll(async () => {
  const [port] = await freePorts(1);
  url = `http://127.0.0.1:${port}`;
  provider = stack.use(await IdentityProvider.start(`${url}/api/auth/oidc/callback`));
  await provider.account(ACCOUNT, { email: "ann@example.com", email_verified: true, groups: ["people"] });
  const store = (await relationalEngines.find(({ name }) => name === "SQLite")?.open()) as OpenedEngine;
  stack.defer(async () => await store.end());
  const env = {
    OIDC_ISSUER: provider.issuer,
    OIDC_CLIENT_ID: "atherops",
    OIDC_CLIENT_SECRET: CLIENT_SECRET,
    OIDC_SCOPES: "openid email groups",
    OIDC_GROUPS: JSON.stringify({ people: { org: "default", role: "viewer" } }),
  };
  const backend = stack.use(await accountsApp(store.database, { clock: { ms: Date.now() }, env }));
  await backend.app.listen({ host: "127.0.0.1", port: port as number });
  browser = await openBrowser();
  stack.defer(async () => await browser.close());
});
afterAll(() => stack.disposeAsync());

/** The command, and what it printed when it was ready. */
async function login(): Promise<{ ended: Promise<number>; address: string; code: string }> {
  const [stdin, stdout, stderr] = [new PassThrough(), new PassThrough(), new PassThrough()];
  const settings = { url, passwordFile: undefined, sessionFile: join(stack.use(temporaryFolder()).path, "session.json") };
  const ended = run(["login", "--sso"], { settings, stdin: stub<NodeJS.ReadStream>(stdin), stdout, stderr });
  let printed = "";
  for await (const text of stderr) {
    printed += String(text);
    const [, address, code] = /\n {2}(http\S+)\n[^]*\n {2}([0-9A-F-]{14})\n/.exec(printed) ?? [];
    if (address !== undefined && code !== undefined) return { ended, address, code };
  }
  throw new Error(`the command ended: ${printed}`);
}

test("the page shows the command's code, and after the user confirms it, logs the command in", async () => {
  const command = await login();
  const began = await fetch(command.address, { redirect: "manual" });
  const [name = "", value = ""] = (began.headers.getSetCookie()[0] ?? "").split(";", 1)[0]?.split("=") ?? [];
  const at = await provider.through(String(began.headers.get("location")), ACCOUNT);
  const loopback = new URL(command.address).searchParams.get("cli_port");
  await using watched = await openPage(browser, url, {}, new RegExp(`^asked (${OTHER_SITE}|http://127\\.0\\.0\\.1:${loopback})/`));
  const { page, complaints } = watched;
  await page.context().addCookies([{ name, value, url, httpOnly: true, sameSite: "Lax" }]);
  const body = `<a href="${at.href.replaceAll("&", "&amp;")}">go on</a>`;
  await page.route(`${OTHER_SITE}/`, async (route) => await route.fulfill({ contentType: "text/html", body }));
  await page.goto(`${OTHER_SITE}/`);
  await page.getByRole("link").click();
  await page.getByText(command.code).waitFor();
  expect(await violations(page)).toEqual([]);
  // Simulates a user whose two clicks another page wanted to use.
  await page.getByRole("button").dblclick();
  await page.locator("input[type=checkbox]:focus").waitFor();
  await page.getByRole("checkbox").check();
  await page.getByRole("button").click();
  await page.getByText("You are logged in as ann@example.com").waitFor();
  expect(await command.ended).toBe(0);
  expect(complaints).toEqual([]);
});

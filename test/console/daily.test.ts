// Everyday tasks of an engineer in the console, in a real Chromium against a real backend: what a wrong query says, what fires without a
// channel, which nodes are silent, and what a page does whose browser or whose files are unusual.
import { randomUUID } from "node:crypto";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { adminPassword } from "../fixtures/backend-process.ts";
import { logInBy, openBrowser, openPage, violations } from "../fixtures/browser.ts";
import { call, eventually } from "../fixtures/processes.ts";

const EMAIL = "admin@localhost";
const REFUSED = /status of 401/;
const backend = backendOfFile();
let browser: Browser;
let token: string;

beforeAll(async () => {
  browser = await openBrowser();
  token = await backend.operator();
});
afterAll(async () => await browser?.close());

const openLoggedIn = async (options = {}, expected = REFUSED) => {
  const opened = await openPage(browser, backend.apiUrl, options, expected);
  await logInBy(opened.page, EMAIL, adminPassword(backend.place));
  return opened;
};

test("an alert that fires without any channel is listed by Alertmanager's API, matched by the silence form, and shown as silenced", async () => {
  const rule = { name: "always on", expr: "vector(1) > 0", severity: "warning", for: "0s" };
  expect((await call("POST", `${backend.apiUrl}/alerting/rules`, { bearer: token, body: rule })).status).toBe(201);
  await eventually("it fires", async () => {
    const alerts = (await call("GET", `${backend.apiUrl}/alerting/alertmanager/api/v2/alerts`, { bearer: token })).json as object[];
    return alerts.length === 1;
  });
  await using opened = await openLoggedIn();
  const { page, complaints } = opened;
  await page.goto("/#/alerts?view=firing");
  await page.getByRole("link", { name: "Silence always on" }).click();
  await page.getByText("They match 1 firing alert: always on").waitFor();
  await page.getByLabel(/^Why/).fill("being repaired");
  await page.getByRole("button", { name: "Silence", exact: true }).click();
  await page.getByRole("button", { name: "End this silence" }).waitFor();
  await page.goto("/#/alerts?view=firing");
  await page.getByRole("link", { name: "silenced", exact: true }).waitFor();
  expect(await page.getByRole("link", { name: "Silence always on" }).count()).toBe(0);
  expect(complaints).toEqual([]);
});

test("an expression that is wrong clears the chart of the one before, and says where it is wrong", async () => {
  await using opened = await openLoggedIn({}, /status of 40[01]/);
  const { page, complaints } = opened;
  await page.goto(`/#/metrics?q=${encodeURIComponent("vector(1)")}`);
  await page.getByRole("cell", { name: "{}" }).waitFor();
  await page.goto(`/#/metrics?q=${encodeURIComponent("sum(nope")}`);
  await page.getByRole("alert").getByText("a ) is missing at the end, for the ( at column 4").waitFor();
  expect(await page.locator(".chart, table").count()).toBe(0);
  expect(complaints).toEqual([]);
});

test("silent nodes are counted and named as silent, and old keys are counted", async () => {
  await using opened = await openLoggedIn();
  const { page, complaints } = opened;
  const uid = randomUUID();
  const node = (name: string, online: boolean) => ({
    name,
    online,
    agent_version: "0.1.0",
    last_heartbeat: new Date(Date.now() - (online ? 5000 : 900_000)).toISOString(),
    collector: { state: "running", restarts: 0 },
  });
  const cluster = {
    cluster_id: uid,
    name: "north",
    online: true,
    last_heartbeat: new Date().toISOString(),
    key_created_at: new Date(Date.now() - 90 * 86_400_000).toISOString(),
    nodes: [node("a", true), node("b", false), node("c", true)],
  };
  await page.route("**/api/clusters", async (route) => await route.fulfill({ json: [cluster] }));
  await page.goto("/#/fleet");
  await page.getByText("silent: 1 node").waitFor();
  await page.getByText("1 old key").waitFor();
  const row = page.getByRole("row").nth(1);
  expect(await row.textContent()).toContain("silent, 15 min ago");
  expect(await row.getByRole("img", { name: "silent" }).count()).toBe(1);
  expect(await violations(page)).toEqual([]);
  expect(complaints).toEqual([]);
});

test("the console renders in a browser whose language Intl refuses, the chart included", async () => {
  await using opened = await openLoggedIn({ locale: undefined });
  const { page, complaints } = opened;
  await page.addInitScript(`Object.defineProperty(Navigator.prototype, "language", { get: () => "en-US@posix", configurable: true })`);
  await page.goto(`/?again#/metrics?q=${encodeURIComponent("vector(1)")}`);
  await page.locator(".chart canvas").waitFor();
  expect(complaints).toEqual([]);
});

test("a screen that cannot be loaded says so, and the others stay usable", async () => {
  await using opened = await openLoggedIn({}, /status of 401|Failed to load resource/);
  const { page, complaints } = opened;
  await page.route("**/console/screen-*.js", async (route) => await route.abort());
  await page.goto("/#/alerts");
  await page.getByRole("heading", { name: "This screen failed" }).waitFor();
  await page.unroute("**/console/screen-*.js");
  await page.getByRole("link", { name: "Traces" }).click();
  await page.getByRole("heading", { name: "Traces" }).waitFor();
  expect(await page.title()).toBe("Traces · AtherOps");
  expect(complaints).toEqual([]);
});

// The frame of the console with real keys and clicks: time range, refresh, account, sortable tables, the number of firing alerts, and the order
// of requests on a slow line.
import type { Page } from "playwright-core";
import { beforeAll, beforeEach, expect, test } from "vitest";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { openScreen, settled, violations } from "../fixtures/browser.ts";
import { consoleOfFile } from "../fixtures/console-of-file.ts";
import { call, signedPost } from "../fixtures/processes.ts";

// The firing alert must be evaluated soon.
const backend = backendOfFile({ EVALUATION_INTERVAL: "2s" });
const ui = consoleOfFile(backend, { expected: /status of (401|503)|ERR_FAILED/ });
let token: string;
let page: Page;

beforeAll(async () => {
  token = await backend.operator();
  const { json } = await call("POST", `${backend.apiUrl}/api/keys`, { bearer: token, body: { name: "loader" } });
  const logRecords = Array.from({ length: 20 }, (_, at) => ({
    timeUnixNano: `${Date.now() - at * 1000}000000`,
    body: { stringValue: `record ${at}` },
  }));
  const body = JSON.stringify({ resourceLogs: [{ scopeLogs: [{ logRecords }] }] });
  const headers = { "content-type": "application/json" };
  expect((await signedPost(backend.apiUrl, "/ingest/logs/otlp", json.api_key, body, headers)).status).toBe(204);
  for (const [name, role] of [
    ["bea@shop.example", "viewer"],
    ["abe@shop.example", "viewer"],
  ])
    await call("POST", `${backend.apiUrl}/api/users`, { bearer: token, body: { email: name, password: "only reading, thank you", role } });
});
beforeEach(async () => {
  page = await ui.open();
});

const address = (): string => new URL(page.url()).hash;
const rangeButton = () => page.getByRole("group", { name: "Time range and refresh" }).getByTitle("Time range");
const rangePanel = () => page.getByRole("dialog", { name: "Choose a time range" });

async function openRange(): Promise<void> {
  await rangeButton().focus();
  await page.keyboard.press("Enter");
  await rangePanel().waitFor();
}

test("a time range is typed by keyboard alone, and the focus returns to its button", async () => {
  await openScreen(page, "#/logs");
  await openRange();
  await page.keyboard.type("whenever");
  await page.keyboard.press("Enter");
  await rangePanel().getByRole("alert").getByText("Invalid time range.").waitFor();
  await page.keyboard.press("Control+a");
  await page.keyboard.type("90m");
  expect(await violations(page)).toEqual([]);
  await page.keyboard.press("Enter");
  await rangePanel().waitFor({ state: "hidden" });
  expect(address()).toBe("#/logs?from=90m");
  expect(await rangeButton().textContent()).toBe("Last 90 minutes Berlin");
  await expect.poll(() => page.evaluate("document.activeElement.title")).toBe("Time range");
});

test("both ends of a range are chosen, the range is offered again, and Escape closes the panel without closing the record", async () => {
  await openScreen(page, "#/logs");
  await page.getByRole("row").filter({ hasText: "record 3" }).click();
  const record = page.getByRole("complementary", { name: "Record" });
  await record.waitFor();
  await openRange();
  await page.keyboard.press("Escape");
  await rangePanel().waitFor({ state: "hidden" });
  expect(await record.isVisible()).toBe(true);
  await openRange();
  for (const [end, value] of [
    ["From", "2026-01-02T10:00:00"],
    ["To", "2026-01-02T11:30:00"],
  ] as const)
    await rangePanel().getByLabel(end, { exact: true }).fill(value);
  await rangePanel().getByRole("button", { name: "Show this range" }).click();
  await rangePanel().waitFor({ state: "hidden" });
  expect(await rangeButton().textContent()).toBe("2026-01-02 10:00 to 11:30 Berlin");
  expect(address()).toContain("from=2026-01-02T09%3A00%3A00.000Z&to=2026-01-02T10%3A30%3A00.000Z");
  await openRange();
  await rangePanel().getByRole("button", { name: "Last 5 minutes" }).click();
  await openRange();
  await rangePanel().getByRole("button", { name: "2026-01-02 10:00 to 11:30" }).waitFor();
  await rangePanel().getByRole("button", { name: "UTC" }).click();
  await rangePanel().getByRole("button", { name: "2026-01-02 09:00 to 10:30" }).click();
  expect(await rangeButton().textContent()).toBe("2026-01-02 09:00 to 10:30 UTC");
});

test("a refresh that fails keeps the rows and says when they were loaded", async () => {
  await openScreen(page, "#/logs");
  const rows = page.getByRole("grid", { name: "Log records" }).getByRole("row");
  await rows.filter({ hasText: "record 3" }).waitFor();
  await page.route("**/query/**", async (route) => await route.abort());
  await page.getByRole("button", { name: "Refresh" }).click();
  await page
    .getByRole("alert")
    .filter({ hasText: /unreachable.* Showing the data of \d\d:\d\d:\d\d\./ })
    .first()
    .waitFor();
  await settled(page);
  expect(await rows.filter({ hasText: "record 3" }).count()).toBe(1);
  await page.unroute("**/query/**");
  await page.getByRole("button", { name: "Try again" }).first().click();
  await page.getByRole("alert").first().waitFor({ state: "detached" });
});

test.each(["#/alerts", "#/alerts?view=firing", "#/alerts?view=deliveries", "#/fleet"])(
  "%s counts nothing without an answer",
  async (screen) => {
    await page.route(/\/(alerting|api)\/(?!auth)/, async (route) => await route.abort());
    await openScreen(page, screen);
    await page.getByRole("main").getByRole("alert").first().waitFor();
    expect(
      await page
        .getByRole("main")
        .getByText(/\d+ (firing|pending|messages|clusters|hosts)/)
        .count(),
    ).toBe(0);
    await page.unrouteAll();
  },
);

test("a table is sorted by its head, in the address too", async () => {
  await openScreen(page, "#/settings?part=users");
  const names = async (): Promise<string[]> =>
    await page.getByRole("table", { name: "Users" }).locator("tbody tr > :first-child").allTextContents();
  await page.getByRole("button", { name: "e-mail" }).focus();
  await page.keyboard.press("Enter");
  const head = page.getByRole("columnheader", { name: "e-mail" });
  await expect.poll(() => head.getAttribute("aria-sort")).toBe("ascending");
  expect(await names()).toEqual(["abe@shop.example", "admin@localhost", "bea@shop.example"]);
  await page.keyboard.press("Enter");
  await expect.poll(() => head.getAttribute("aria-sort")).toBe("descending");
  expect(await names()).toEqual(["bea@shop.example", "admin@localhost", "abe@shop.example"]);
  expect(address()).toBe("#/settings?part=users&by=-e-mail");
});

test("a click anywhere in a row opens the page of its object", async () => {
  const body = { name: "Checkout", description: "", variables: [], panels: [] };
  expect((await call("POST", `${backend.apiUrl}/api/dashboards`, { bearer: token, body })).status).toBe(201);
  await openScreen(page, "#/dashboards");
  await page.getByRole("row").filter({ hasText: "Checkout" }).click();
  await expect.poll(() => page.getByRole("heading", { level: 1 }).textContent()).toBe("Checkout");
});

test("the navigation shows how many alerts fire", async () => {
  const links = page.getByRole("navigation", { name: "Screens" });
  expect(await links.getByRole("link", { name: "Alerts", exact: true }).count()).toBe(1);
  const rule = await call("POST", `${backend.apiUrl}/alerting/rules`, {
    bearer: token,
    body: { name: "always", severity: "warning", expr: "vector(1) > 0", for: "0s" },
  });
  expect(rule.status).toBe(201);
  await expect
    .poll(
      async () => {
        await page.reload();
        await settled(page);
        return await links.getByRole("link", { name: /^Alerts/ }).textContent();
      },
      { timeout: 60_000 },
    )
    .toBe("Alerts1 firing");
});

test("theme and time zone are chosen in the account menu by keyboard, and are kept", async () => {
  await page.getByTitle("Account").focus();
  await page.keyboard.press("Enter");
  const account = page.getByRole("dialog", { name: "Account" });
  await account.getByText("admin@localhost").waitFor();
  await account.getByRole("button", { name: "Dark" }).press("Enter");
  await account.getByRole("button", { name: "UTC" }).press(" ");
  expect(await violations(page)).toEqual([]);
  await page.keyboard.press("Escape");
  await account.waitFor({ state: "hidden" });
  await page.reload();
  await settled(page);
  expect(await page.evaluate("getComputedStyle(document.body).backgroundColor")).toBe("rgb(14, 16, 20)");
  await openScreen(page, "#/logs");
  await expect.poll(() => rangeButton().textContent()).toBe("Last 1 hour UTC");
});

test("the search finds actions and a trace by its id", async () => {
  const find = async (text: string): Promise<void> => {
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Search" }).waitFor();
    await page.keyboard.type(text);
    await page.getByRole("option", { selected: true }).waitFor();
    await page.keyboard.press("Enter");
  };
  await find("drk thm");
  await expect.poll(() => page.evaluate("document.documentElement.dataset.scheme")).toBe("dark");
  await find("light theme");
  await expect.poll(() => page.evaluate("document.documentElement.dataset.scheme")).toBe("light");
  await find("4bf92f3577b34da6a3ce929d0e0e4736");
  await expect.poll(address).toBe("#/traces/4bf92f3577b34da6a3ce929d0e0e4736");
});

test("the data of the first screen is requested before the session is checked", async () => {
  await openScreen(page, "#/logs");
  let confirm = (): void => undefined;
  const confirmed = new Promise<void>((resolve) => (confirm = resolve));
  await page.route("**/api/auth/session", async (route) => {
    await confirmed;
    await route.continue();
  });
  const asked = page.waitForRequest(/\/query\/logs\?/);
  await page.reload();
  await asked;
  confirm();
  await expect.poll(() => page.getByRole("row").filter({ hasText: "record 3" }).count()).toBe(1);
});

/** A round trip of the slow line. */
const ROUND_TRIP_MS = 3000;

test.each([false, true])(
  "on a line of three seconds, the first screen takes one round trip after its document; files cached: %s",
  async (hasCache) => {
    const session = await page.context().newCDPSession(page);
    await session.send("Network.enable");
    const conditions = { offline: false, latency: ROUND_TRIP_MS, downloadThroughput: -1, uploadThroughput: -1 };
    await session.send("Network.emulateNetworkConditions", conditions);
    await session.send("Network.setCacheDisabled", { cacheDisabled: !hasCache });
    await page.reload();
    // Problems, or that there are none.
    await page.locator("[aria-label=Problems] :is(p, li)").first().waitFor();
    const paints = "performance.getEntriesByType('paint').map(({ name, startTime }) => `${name} ${Math.round(startTime)} ms`).join()";
    console.log(
      `first screen after ${await page.evaluate<number>("Math.round(performance.now())")} ms, ${await page.evaluate<string>(paints)}`,
    );
    const starts = "performance.getEntriesByType('resource').map(({ name, startTime }) => [new URL(name).pathname, Math.round(startTime)])";
    const requests = await page.evaluate<[string, number][]>(starts);
    expect(requests.filter(([, startMs]) => startMs >= 2 * ROUND_TRIP_MS)).toEqual([]);
    expect(requests.map(([path]) => path)).toContain("/query/problems");
  },
);

test("what is inline in the page is not requested again", async () => {
  const requested: string[] = [];
  page.on("request", (request) => void requested.push(new URL(request.url()).pathname));
  await page.reload();
  await settled(page);
  const files = requested.filter((path) => /\.(?:js|css)$/.test(path));
  expect(files).toEqual([expect.stringMatching(/^\/console\/all-screens-/)]);
});

// Everyday tasks of an engineer in the console, in a real Chromium with a real backend: messages for wrong queries, alerts that fire
// without a channel, nodes that stopped sending, and pages in an unusual browser or with missing files.
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import type { Page } from "playwright-core";
import { beforeAll, expect, test } from "vitest";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { openScreen, settled, violations } from "../fixtures/browser.ts";
import { consoleOfFile } from "../fixtures/console-of-file.ts";
import { call, eventually, signedPost } from "../fixtures/processes.ts";

// Series of spans come as often as four evaluations.
const backend = backendOfFile({ EVALUATION_INTERVAL: "2s" });
const ui = consoleOfFile(backend);
let token: string;

beforeAll(async () => {
  token = await backend.operator();
  const rule = { name: "always on", expr: "vector(1) > 0", severity: "warning", for: "0s" };
  expect((await call("POST", `${backend.apiUrl}/alerting/rules`, { bearer: token, body: rule })).status).toBe(201);
  await sendRecords();
});

const text = (stringValue: string) => ({ stringValue });
const attributes = (pairs: Record<string, string>) => Object.entries(pairs).map(([key, value]) => ({ key, value: text(value) }));
const NOW_MS = Date.now();
const STACK = "Error: lock\n    at pay (pay.ts:12)";
const TRACE = "0af7651916cd43dd8448eb211c80319c";

/** A record of `service`, so many seconds ago. */
const record = (secondsAgo: number, severityText: string, body: string, pairs: Record<string, string> = {}, more: object = {}) => ({
  timeUnixNano: `${NOW_MS - secondsAgo * 1000}000000`,
  severityText,
  body: text(body),
  attributes: attributes(pairs),
  ...more,
});

/** A burst of 400 lines, and a few that matter. */
async function sendRecords(): Promise<void> {
  const made = await call("POST", `${backend.apiUrl}/api/keys`, { bearer: token, body: { name: "loader" } });
  const send = async (service: string, logRecords: object[]): Promise<void> => {
    const resource = { attributes: attributes({ "service.name": service }) };
    const body = JSON.stringify({ resourceLogs: [{ resource, scopeLogs: [{ logRecords }] }] });
    const headers = { "content-type": "application/json" };
    expect((await signedPost(backend.apiUrl, "/ingest/logs/otlp", made.json.api_key, body, headers)).status).toBe(204);
  };
  await send("web", [
    ...Array.from({ length: 400 }, (_, at) =>
      record(1800, "INFO", `burst ${at}`, { "http.route": at % 4 ? "/cart" : "/pay", "user.id": `u-${at % 40}` }),
    ),
    record(120, "ERROR", '{"msg":"payment refused","card":{"brand":"visa"}}', { "exception.stacktrace": STACK, duration_ms: "812" }),
    record(60, "WARN", "slow answer", { duration_ms: "95" }),
  ]);
  const span = (number: number, minutesAgo: number, more: object = {}) => ({
    traceId: number === 0 ? TRACE : number.toString(16).padStart(32, "0"),
    spanId: number === 0 ? "00f067aa0ba902b7" : number.toString(16).padStart(16, "0"),
    name: number % 2 ? "GET /cart" : "<b>POST</b> /pay",
    kind: 2,
    startTimeUnixNano: `${NOW_MS - minutesAgo * 60_000}000000`,
    endTimeUnixNano: `${NOW_MS - minutesAgo * 60_000 + (minutesAgo < 60 ? 400 : 20)}000000`,
    ...more,
  });
  const failed = { status: { code: 2, message: "lock" } };
  const spans = Array.from({ length: 40 }, (_, at) => span(at + 1, at < 20 ? 90 : 10, at < 25 ? {} : failed));
  const traces = {
    resourceSpans: [{ resource: { attributes: attributes({ "service.name": "web" }) }, scopeSpans: [{ spans: [span(0, 2), ...spans] }] }],
  };
  const json = { "content-type": "application/json" };
  expect((await signedPost(backend.apiUrl, "/ingest/traces", made.json.api_key, JSON.stringify(traces), json)).status).toBe(204);
  await send("stock", [record(90, "ERROR", "lock wait", { duration_ms: "30" }, { traceId: TRACE, spanId: "00f067aa0ba902b7" })]);
}

test("an alert that fires without any channel is listed by Alertmanager's API, matched by the silence form, and shown as silenced", async () => {
  await backend.shows("it fires", async () => {
    const alerts = (await call("GET", `${backend.apiUrl}/alerting/alertmanager/api/v2/alerts`, { bearer: token })).json as object[];
    return alerts.length === 1;
  });
  const page = await ui.open();
  await openScreen(page, "#/alerts?view=firing");
  await page.getByRole("link", { name: "Silence always on" }).click();
  await page.getByText("Matches 1 firing alert: always on").waitFor();
  await page.getByLabel("Comment").fill("being repaired");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByRole("button", { name: "Expire silence" }).waitFor();
  await openScreen(page, "#/alerts?view=firing");
  await page.getByRole("link", { name: "silenced", exact: true }).waitFor();
  expect(await page.getByRole("link", { name: "Silence always on" }).count()).toBe(0);
});

test("an invalid expression clears the previous chart, and the error shows its position", async () => {
  const page = await ui.open({}, /status of 40[01]/);
  await openScreen(page, `#/metrics?q=${encodeURIComponent("vector(1)")}`);
  await page.getByRole("rowheader", { name: "vector(1)" }).waitFor();
  await openScreen(page, `#/metrics?q=${encodeURIComponent("sum(nope")}`);
  await page.getByRole("alert").getByText("a ) is missing at the end, for the ( at column 4").waitFor();
  expect(await page.locator(".chart, table").count()).toBe(0);
});

test("silent nodes are counted and named as silent, and old keys are counted", async () => {
  const page = await ui.open();
  const uid = randomUUID();
  const node = (name: string, online: boolean) => ({
    name,
    online,
    agent_version: "0.1.0",
    last_heartbeat: new Date(Date.now() - (online ? 5000 : 900_000)).toISOString(),
    collector: { state: "running", restarts: 0 },
    config: { in_force: null, error: null },
  });
  const cluster = {
    cluster_id: uid,
    name: "north",
    online: true,
    last_heartbeat: new Date().toISOString(),
    key_created_at: new Date(Date.now() - 90 * 86_400_000).toISOString(),
    config: { version: "3", percent: 0, stopped: "1 of 2 nodes with it are unhealthy, 0 before (b: offline)" },
    nodes: [node("a", true), node("b", false), node("c", true)],
  };
  await page.route("**/api/clusters", async (route) => await route.fulfill({ json: [cluster] }));
  await openScreen(page, "#/fleet");
  await page.getByText("silent: 1 node").waitFor();
  await page.getByText("1 old key").waitFor();
  await page.getByText("The rollout of configuration 3 is stopped: 1 of 2 nodes with it are unhealthy").waitFor();
  const row = page.getByRole("row").nth(1);
  expect(await row.textContent()).toContain("silent, 15 min ago");
  expect(await row.getByRole("img", { name: "silent" }).count()).toBe(1);
  expect(await violations(page)).toEqual([]);
});

test("the console renders in a browser whose language Intl refuses, the chart included", async () => {
  const page = await ui.open({ locale: undefined });
  await page.addInitScript(`Object.defineProperty(Navigator.prototype, "language", { get: () => "en-US@posix", configurable: true })`);
  await page.goto(`/?again#/metrics?q=${encodeURIComponent("vector(1)")}`);
  await page.locator(".chart canvas").waitFor();
  expect(ui.complaints()).toEqual([]);
});

test("a screen that cannot be loaded shows an error, and other screens stay usable", async () => {
  const page = await ui.open({}, /status of 401|Failed to load resource/);
  await page.route("**/console/all-screens-*.js", async (route) => await route.abort());
  // The page is reloaded once, so there is no screen to wait for.
  await page.goto("/?again#/alerts");
  await page.getByRole("heading", { name: "This screen failed" }).waitFor();
  await page.unroute("**/console/all-screens-*.js");
  await page.getByRole("link", { name: "Traces" }).click();
  await page.getByRole("heading", { name: "Traces" }).waitFor();
  expect(await page.title()).toBe("Traces · AtherOps");
});

const rows = (page: Page) => page.getByRole("row");
const search = async (page: Page, line: string): Promise<void> => {
  await page.getByRole("combobox", { name: "Query" }).fill(line);
  await page.keyboard.press("Enter");
};

test("log queries with alternatives and comparisons work; an invalid query shows an error and no old rows", async () => {
  const page = await ui.open({}, /status of 40[01]/);
  await openScreen(page, "#/logs");
  await search(page, "level:error,warn AND duration_ms>50");
  await eventually("two records match", async () => (await rows(page).count()) === 2);
  await search(page, "level:(error warn");
  await page.getByRole("alert").getByText("column 1: the ( after level: is not closed; for example level:(a OR b)").waitFor();
  expect(await rows(page).count()).toBe(0);
  expect(await page.getByRole("alert").count()).toBe(1);
  await search(page, '"payment refused" OR "lock wait"');
  await eventually("two records match", async () => (await rows(page).count()) === 2);
  expect(await page.title()).toBe('"payment refused" OR "lock wait" · Logs · AtherOps');
});

test("fields show values with percentages; a click filters, excludes or adds a column", async () => {
  const page = await ui.open();
  await openScreen(page, "#/logs?q=burst");
  const fields = page.getByRole("complementary", { name: "Fields" });
  // The list has only the 20 most frequent of its 40 values.
  await fields.locator("summary").getByText("user.id").locator("..").getByText("100 %").waitFor();
  await fields.getByText("http.route").click();
  expect(await fields.getByRole("listitem").filter({ hasText: "/cart" }).textContent()).toContain("75 %");
  await fields.getByRole("button", { name: "column" }).first().click();
  await eventually("the column is shown", async () => ((await rows(page).first().textContent()) ?? "").includes("/cart"));
  await fields.getByRole("button", { name: "Without label.http.route /cart" }).click();
  await eventually("the rest is left", async () => ((await rows(page).first().textContent()) ?? "").includes("/pay"));
  expect(new URL(page.url()).hash).toContain("column=label.http.route");
  await page.getByRole("group", { name: "Levels" }).getByRole("button", { name: /^info/ }).click();
  await page.getByRole("button", { name: /^info/, pressed: true }).waitFor();
  expect(await page.getByRole("combobox", { name: "Query" }).inputValue()).toBe('burst -http.route:"/cart" level:info');
});

test("columns are moved by dragging their heads, and by the arrow keys", async () => {
  const page = await ui.open();
  await openScreen(page, "#/logs?q=burst&column=label.http.route&column=source&column=level");
  const order = async (): Promise<string[]> => new URLSearchParams(page.url().split("?")[1]).getAll("column");
  const head = (name: string) => page.getByRole("button", { name: `Column ${name}: move it with the arrow keys` });
  await head("http.route").dragTo(head("level"));
  await expect.poll(order).toEqual(["source", "level", "label.http.route"]);
  await head("http.route").focus();
  await page.keyboard.press("ArrowLeft");
  await expect.poll(order).toEqual(["source", "label.http.route", "level"]);
  await expect.poll(() => page.evaluate("document.activeElement.textContent")).toBe("http.route");
  await page.keyboard.press("ArrowLeft");
  await expect.poll(order).toEqual(["label.http.route", "source", "level"]);
  expect(await rows(page).first().getByRole("gridcell").nth(3).textContent()).toMatch(/^\/(cart|pay)/);
});

test("the address of a record opens in another tab, with indented JSON and a stack trace in lines", async () => {
  const page = await ui.open();
  await openScreen(page, "#/logs?q=refused");
  await rows(page).first().click();
  const side = page.getByRole("complementary", { name: "Record" });
  await side.getByText('"brand": "visa"').waitFor();
  const address = page.url();
  expect(address).toContain("record=");
  await openScreen(page, "#/fleet");
  await openScreen(page, new URL(address).hash.replace("q=refused", "q=burst"));
  await side.getByText("at pay (pay.ts:12)").waitFor();
  expect(await side.locator("pre.lines").textContent()).toBe(STACK);
  await page.keyboard.press("Escape");
  await side.waitFor({ state: "detached" });
  expect(page.url()).not.toContain("record=");
});

test("time ranges can be typed, invalid ones are explained, and the rows can be downloaded", async () => {
  const page = await ui.open();
  await openScreen(page, "#/logs?q=lock");
  const time = page.getByRole("textbox", { name: "Time range" });
  await page.getByTitle("Time range").click();
  await time.fill("90 min");
  await time.press("Enter");
  await eventually("the address has it", async () => page.url().includes("from=90m"));
  await page.getByTitle("Time range").click();
  await time.fill("whenever");
  await time.press("Enter");
  await page.getByRole("alert").getByText("Invalid time range. Examples: 30m, yesterday, 14:00 to 15:00").waitFor();
  await page.keyboard.press("Escape");
  const contents = async (format: string): Promise<string> => {
    const downloading = page.waitForEvent("download");
    await page.getByLabel("Download").selectOption(format);
    const download = await downloading;
    expect(download.suggestedFilename()).toBe(`logs.${format}`);
    return readFileSync((await download.path()) ?? "", "utf8");
  };
  expect((JSON.parse(await contents("json")) as { message: string }[]).map(({ message }) => message)).toEqual(["lock wait"]);
  expect((await contents("csv")).split("\r\n")).toHaveLength(3);
  expect((await contents("ndjson")).trim().split("\n")).toHaveLength(1);
});

test("a log query becomes an alert rule that counts its records", async () => {
  const page = await ui.open();
  await openScreen(page, `#/logs?q=${encodeURIComponent("level:error,warn")}`);
  await page.getByRole("link", { name: "Create alert rule" }).click();
  await page.getByLabel("Name", { exact: true }).fill("many errors");
  await page.getByLabel("Threshold", { exact: true }).fill("20");
  // An impatient user gets one rule.
  await page.getByRole("button", { name: "Create", exact: true }).dblclick();
  await page.getByRole("link", { name: "many errors" }).waitFor();
  await settled(page);
  const rules = (await call("GET", `${backend.apiUrl}/alerting/rules`, { bearer: token })).json as { name: string; logs?: object }[];
  expect(rules.filter(({ name }) => name === "many errors")).toMatchObject([
    { logs: { filter: { query: "level:error,warn" }, window: "5m", operator: ">", threshold: 20 } },
  ]);
});

test("the overview shows firing alerts, worse services and missing parts, and each links to its items", async () => {
  const page = await ui.open();
  await page.goto("/");
  await page.getByRole("heading", { name: "Overview" }).waitFor();
  await page.getByRole("link", { name: "Alert: alert always on is firing", exact: true }).waitFor();
  const row = page.getByRole("row").filter({ hasText: "web" });
  await row.getByText("worse").waitFor();
  expect(await page.getByRole("region", { name: "Not set up yet" }).textContent()).toContain("Notifications");
  expect(await violations(page)).toEqual([]);
  await row.getByRole("link", { name: "71 %" }).click();
  await page.getByRole("heading", { name: "Traces" }).waitFor();
  await eventually("its failed traces are listed", async () => (await rows(page).count()) === 15);
});

test("what agents send is not called missing before it has been counted", async () => {
  const page = await ui.open();
  const totals = { agents: { total: 2, with_problem: 0 } };
  await page.route(
    "**/query/problems",
    async (route) => await route.fulfill({ json: { problems: [], total: 0, totals, changes: [], missing: [] } }),
  );
  const usage: object[] = [];
  await page.route("**/api/usage?*", async (route) => await route.fulfill({ json: usage }));
  await page.goto("/");
  const card = page.getByRole("region", { name: "Not set up yet" });
  await card.getByText("Notifications").waitFor();
  expect(await card.getByText(/^(Logs|Metrics|Traces)$/).count()).toBe(0);
  usage.push({ day: "2026-01-01", signal: "logs", bytes: 1, records: 1 });
  await page.reload();
  await card.getByText("Traces", { exact: true }).waitFor();
  expect(await card.getByText(/^(Logs|Metrics)$/).count()).toBe(1);
});

test("a service has its charts and operations, which lead to traces and logs", async () => {
  const page = await ui.open();
  await openScreen(page, "#/services");
  await page.getByRole("link", { name: "web", exact: true }).click();
  await page.getByRole("heading", { name: "web" }).waitFor();
  await eventually("three charts", async () => (await page.locator(".chart canvas").count()) === 3);
  const rooms = await page
    .locator(".charts > figure")
    .evaluateAll((cards) =>
      cards.map((card) => card.getBoundingClientRect().bottom - (card.lastElementChild?.getBoundingClientRect().bottom ?? 0)),
    );
  expect(Math.max(...rooms), "no card is half empty").toBeLessThan(30);
  await page.getByRole("link", { name: "<b>POST</b> /pay" }).waitFor();
  expect(await violations(page)).toEqual([]);
  await page.locator("#main").getByRole("link", { name: "Logs", exact: true }).click();
  await eventually("its records are listed", async () => (await rows(page).count()) > 5);
  expect(await page.getByRole("combobox", { name: "Query" }).inputValue()).toBe("source:web");
});

/** Spans become series once a minute. */
const SERIES_MS = 180_000;

/** The expressions of the metrics screen, as their editors show them. */
const expressions = async (page: Page): Promise<string[]> => await page.locator(".cm-content").allTextContents();

test(
  "the builder creates a chart, a second query gets its own letter, and an exemplar links to its trace",
  { timeout: 600_000 },
  async () => {
    const metric = "traces_spanmetrics_latency";
    const names = async (): Promise<string[]> =>
      (await call("GET", `${backend.apiUrl}/query/prometheus/api/v1/label/__name__/values`, { bearer: token })).json.data;
    await backend.shows("spans have become series", async () => (await names()).includes(`${metric}_bucket`), SERIES_MS);
    const page = await ui.open();
    await openScreen(page, "#/metrics?from=3h&refresh=5s");
    // A part of one name is enough.
    await page.getByLabel("metric", { exact: true }).fill("spanmetrics_lat");
    await page.getByLabel("metric", { exact: true }).press("Enter");
    const builder = page.getByRole("group", { name: "Builder" });
    await builder.getByText("histogram, Duration of spans by service").waitFor();
    await builder.getByLabel("filter by").selectOption("service");
    await builder.getByLabel("value of service").fill("web");
    await builder.getByLabel("value of service").press("Enter");
    await builder.getByRole("button", { name: "Remove the filter of service" }).waitFor();
    await builder.getByRole("combobox", { name: "by", exact: true }).selectOption("span_name");
    const built = `histogram_quantile(0.95, sum by (le, span_name) (rate(${metric}_bucket{service="web"}[5m])))`;
    await eventually("the expression has all of it", async () => (await expressions(page))[0] === built);
    await page.getByRole("button", { name: "Add query" }).click();
    await page.locator(".cm-content").nth(1).fill("sum(traces_spanmetrics_calls_total) > 0");
    await page.keyboard.press("Enter");
    await page.getByRole("rowheader", { name: "B: sum(traces_spanmetrics_calls_total) > 0" }).waitFor({ timeout: SERIES_MS });
    expect(await page.getByRole("link", { name: "Create alert rule" }).count()).toBe(2);
    // Closes the list of completions, which is the editor's own.
    await page.keyboard.press("Escape");
    expect(await violations(page)).toEqual([]);
    // Without refreshes, which draw the chart again.
    await openScreen(page, new URL(page.url()).hash.replace("&refresh=5s", ""));
    await page.getByText(/exemplars?: requests in this chart/).click();
    await page
      .getByRole("link", { name: /^web .*400 ms/ })
      .first()
      .waitFor();
    const place = await page.evaluate<{ x: number; y: number }>(FIND_DIAMOND);
    await page.mouse.click(place.x, place.y);
    await page.getByRole("heading", { name: /GET \/cart|<b>POST<\/b> \/pay/ }).waitFor();
  },
);

/** Finds where the pointer becomes a hand: on the diamond of an exemplar. */
const FIND_DIAMOND = `(() => {
  const plot = document.querySelector(".u-over");
  const { left, top, right, bottom } = plot.getBoundingClientRect();
  plot.dispatchEvent(new MouseEvent("mouseenter", { clientX: left, clientY: top }));
  for (let x = left; x < right; x += 4)
    for (let y = top; y < bottom; y += 4) {
      plot.dispatchEvent(new MouseEvent("mousemove", { clientX: x, clientY: y, bubbles: true }));
      if (plot.style.cursor === "pointer") return { x, y };
    }
  throw new Error("no diamond is in the chart");
})()`;

test("traces are sorted by the engine and filtered by attributes; an invalid comparison is rejected with an example", async () => {
  const page = await ui.open({}, /status of 40[01]/);
  await openScreen(page, "#/traces?from=3h&sort=slowest");
  await eventually("all are listed, the slow ones first", async () => ((await rows(page).first().textContent()) ?? "").includes("400 ms"));
  const attribute = page.getByLabel("attributes");
  await attribute.fill("http.response.status_code>=500");
  await attribute.press("Enter");
  await page.getByText("No traces.").waitFor();
  await attribute.fill("http.response.status_code>=many");
  await attribute.press("Enter");
  await page.getByRole("alert").getByText("http.response.status_code>= needs a number").waitFor();
  expect(await rows(page).count()).toBe(0);
});

test("rows of an earlier search cannot be clicked while the next search is running", async () => {
  const page = await ui.open();
  await openScreen(page, "#/traces?from=3h");
  const answered = Promise.withResolvers<void>();
  await page.route("**/query/traces/search?*error=true*", async (route) => {
    await answered.promise;
    await route.continue();
  });
  await page.getByLabel("errors").check();
  await page.getByRole("button", { name: "Search", exact: true }).click();
  const traces = page.getByRole("grid", { name: "Traces" });
  await traces.and(page.locator("[aria-busy=true]")).waitFor();
  const first = traces.getByRole("link").first();
  // Proves an absence: two seconds are enough for a click.
  await expect(first.click({ timeout: 2000 })).rejects.toThrow("Timeout");
  answered.resolve();
  await settled(page);
  expect(await traces.getByText("1 error", { exact: true }).count()).toBe(15);
  await first.click();
  await page.getByRole("heading", { name: "web" }).waitFor();
  expect(page.url()).not.toContain(TRACE);
});

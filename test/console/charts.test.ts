// Charts, dashboards and the explorer, with a real pointer and real keys in a real Chromium.
import { randomUUID } from "node:crypto";
import type { Locator, Page } from "playwright-core";
import { beforeAll, beforeEach, expect, test } from "vitest";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { openScreen, settled, violations } from "../fixtures/browser.ts";
import { consoleOfFile } from "../fixtures/console-of-file.ts";
import { call, eventually, signedPost } from "../fixtures/processes.ts";
import { visit, visitBodies } from "../fixtures/shop-visits.ts";

const backend = backendOfFile();
const ui = consoleOfFile(backend, { look: { viewport: { width: 1440, height: 900 } } });
const MIB = 1024 ** 2;
const MINUTES = 30;
let token: string;
let page: Page;

beforeAll(async () => {
  token = await backend.operator();
  const { json } = await call("POST", `${backend.apiUrl}/api/clusters/register`, {
    bearer: await backend.installToken(token),
    headers: { "idempotency-key": randomUUID() },
    body: { cluster_name: "north", cluster_uid: randomUUID(), agent_version: "0.1.0" },
  });
  const send = async (path: string, body: string, type = "application/json"): Promise<void> => {
    const answer = await signedPost(backend.apiUrl, path, json.api_key, body, { "content-type": type });
    expect(answer.status, answer.text).toBe(204);
  };
  const nowMs = Date.now();
  await send("/ingest", metrics(nowMs), "text/plain");
  const visits = Array.from({ length: 60 }, (_, at) => visit(at, nowMs - (60 - at) * 20_000, at === 59)).flat();
  const { traces, logs } = visitBodies(visits);
  await send("/ingest/traces", JSON.stringify(traces));
  await send("/ingest/logs/otlp", JSON.stringify(logs));
  await backend.shows("the samples can be queried", async () => {
    const answer = await call("GET", `${backend.apiUrl}/query/prometheus/api/v1/query?query=memory_bytes`, { bearer: token });
    return answer.json.data.result.length === 3;
  });
});
beforeEach(async () => {
  page = await ui.open();
});

/** Three pods with constant memory, so that their order in a tooltip is known, and their restarts. */
function metrics(nowMs: number): string {
  const lines = ["pod-small", "pod-large", "pod-middle"].flatMap((pod, at) =>
    Array.from({ length: MINUTES * 2 }, (_, step) => {
      const atMs = nowMs - step * 30_000;
      const memory = [100, 300, 200][at] ?? 0;
      return `memory_bytes{pod="${pod}",team="shop"} ${memory * MIB} ${atMs}\nrestarts{pod="${pod}",team="shop"} ${at} ${atMs}`;
    }),
  );
  return `${lines.join("\n")}\ngone_bytes{pod="pod-gone"} 1 ${nowMs - 20 * 60_000}\n`;
}

const MEMORY = encodeURIComponent("memory_bytes");
const plot = (): Locator => page.locator(".u-over").first();
const tooltip = (): Locator => page.locator(".tooltip:popover-open");
const legendNames = async (): Promise<string[]> => await page.locator(".legend-table tbody th").allTextContents();

async function createDashboard(panels: readonly object[], variables: readonly object[] = []): Promise<string> {
  const body = { name: `board ${randomUUID().slice(0, 8)}`, description: "", variables, panels };
  const { json } = await call("POST", `${backend.apiUrl}/api/dashboards`, { bearer: token, body });
  return (json as { id: string }).id;
}

async function storedPanels(id: string): Promise<{ title: string; width: number; height?: number }[]> {
  const { json } = await call("GET", `${backend.apiUrl}/api/dashboards/${id}`, { bearer: token });
  return (json as { panels: { title: string; width: number }[] }).panels;
}

const panel = (title: string, query: string, more: object = {}) => ({
  title,
  kind: "timeseries",
  source: "metrics",
  width: 6,
  queries: [{ query, legend: "{{pod}}" }],
  ...more,
});

test("the tooltip shows the values at the pointer, the largest first, with their unit, and nothing else moves", async () => {
  await openScreen(page, `#/metrics?q=${MEMORY}&from=15m`);
  const legendBox = async () => JSON.stringify(await page.locator(".legend-table").boundingBox());
  // The chart has its size a frame after its data.
  let before = "";
  await expect.poll(async () => before === (before = await legendBox())).toBe(true);
  await plot().hover({ position: { x: 500, y: 40 } });
  await tooltip().waitFor();
  expect(await tooltip().locator(".tooltip-row bdi").allTextContents()).toEqual(["pod-large", "pod-middle", "pod-small"]);
  expect(await tooltip().locator(".tooltip-row strong").allTextContents()).toEqual(["300 MiB", "200 MiB", "100 MiB"]);
  expect(await legendBox()).toBe(before);
  await page.mouse.move(5, 5);
  await tooltip().waitFor({ state: "detached" });
});

test("the arrow keys show the values of a chart that has the focus", async () => {
  await openScreen(page, `#/metrics?q=${MEMORY}&from=15m`);
  await page.locator(".chart").focus();
  await page.keyboard.press("ArrowRight");
  await tooltip().getByText("300 MiB").waitFor();
  const first = await tooltip().locator(".tooltip-time").textContent();
  await page.keyboard.press("ArrowRight");
  await expect.poll(async () => await tooltip().locator(".tooltip-time").textContent()).not.toBe(first);
});

test("a click on a name in the legend shows only that series, another click shows all", async () => {
  await openScreen(page, `#/metrics?q=${MEMORY}&from=15m`);
  await page.getByRole("button", { name: "pod-middle" }).click();
  await plot().hover({ position: { x: 500, y: 40 } });
  expect(await tooltip().locator(".tooltip-row bdi").allTextContents()).toEqual(["pod-middle"]);
  await page.getByRole("button", { name: "pod-middle" }).click();
  await plot().hover({ position: { x: 480, y: 40 } });
  await expect.poll(async () => await tooltip().locator(".tooltip-row").count()).toBe(3);
});

test("the legend has short names, and is sorted by a click on a heading", async () => {
  await openScreen(page, `#/metrics?q=${MEMORY}&from=15m`);
  await page.getByRole("group", { name: "Legend" }).getByRole("button", { name: "max" }).click();
  expect((await legendNames()).map((name) => name.trim())).toEqual(["pod-large", "pod-middle", "pod-small"]);
  await page.getByRole("group", { name: "Legend" }).getByRole("button", { name: "max" }).click();
  expect((await legendNames()).map((name) => name.trim())).toEqual(["pod-small", "pod-middle", "pod-large"]);
});

test("dragging over a chart shows the selected time range", async () => {
  await openScreen(page, `#/metrics?q=${MEMORY}&from=15m`);
  const box = await plot().boundingBox();
  if (!box) throw new Error("the chart has no size");
  await page.mouse.move(box.x + box.width / 4, box.y + 50);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width / 2, box.y + 60, { steps: 5 });
  await page.mouse.up();
  await expect.poll(() => page.url()).toContain("to=");
  const query = new URLSearchParams(page.url().split("?")[1]);
  const minutes = (Date.parse(query.get("to") ?? "") - Date.parse(query.get("from") ?? "")) / 60_000;
  expect(minutes).toBeGreaterThan(3);
  expect(minutes).toBeLessThan(4.5);
});

test("the same series has the same colour in two panels, and the pointer over one shows the time in both", async () => {
  const id = await createDashboard([panel("Memory", "memory_bytes"), panel("Restarts", 'restarts{pod!="pod-small"}')]);
  await openScreen(page, `#/dashboards/${id}?from=15m`);
  const swatch = (at: number) =>
    page
      .getByRole("figure")
      .nth(at)
      .getByRole("button", { name: "pod-large" })
      .locator(".swatch")
      .evaluate((element) => element.style.background);
  await page.getByRole("figure").nth(1).getByRole("button", { name: "pod-large" }).waitFor();
  expect(await swatch(0)).toMatch(/^var\(--colour-\d+\)$/);
  expect(await swatch(1)).toBe(await swatch(0));
  await page
    .locator(".u-over")
    .first()
    .hover({ position: { x: 200, y: 40 } });
  const crosshair = (): Promise<string> => page.evaluate("document.querySelectorAll('.u-cursor-x')[1].style.transform");
  await expect.poll(crosshair).toMatch(/^translate\([1-9]/);
  expect(await tooltip().count()).toBe(1);
  expect(await violations(page)).toEqual([]);
});

test("a panel is moved with the pointer and resized with the arrow keys, and both are saved", async () => {
  const id = await createDashboard([panel("First", "memory_bytes"), panel("Second", "restarts")]);
  await openScreen(page, `#/dashboards/${id}?edit=1`);
  const handle = page.getByRole("button", { name: "Move First, with the arrow keys" });
  await handle.hover();
  await page.mouse.down();
  const target = await page.getByRole("figure", { name: "Second" }).boundingBox();
  if (!target) throw new Error("the second panel has no size");
  await page.mouse.move(target.x + target.width / 2, target.y + 60, { steps: 5 });
  await page.mouse.up();
  await page.getByRole("button", { name: "Resize First, with the arrow keys" }).focus();
  await page.keyboard.press("ArrowRight");
  await page.keyboard.press("ArrowDown");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("button", { name: "Export JSON" }).waitFor();
  expect((await storedPanels(id)).map(({ title, width, height }) => [title, width, height])).toEqual([
    ["Second", 6, undefined],
    ["First", 7, 8],
  ]);
});

test("the form of the selected panel changes the panel at once, and its fields are saved", async () => {
  const id = await createDashboard([panel("Memory", "memory_bytes")]);
  await openScreen(page, `#/dashboards/${id}?edit=1`);
  await page.getByRole("button", { name: "Edit Memory" }).click();
  await page.getByRole("textbox", { name: "Title" }).click();
  await page.keyboard.press("End");
  await page.keyboard.type(" of pods");
  await page.getByRole("button", { name: "Edit Memory of pods" }).waitFor();
  await page.getByLabel("Unit").selectOption("short");
  await page.getByRole("cell", { name: "314.6M" }).first().waitFor();
  await page.getByLabel("Stacked").check();
  await page.getByRole("button", { name: "Add threshold" }).click();
  await page.getByLabel("Threshold 1", { exact: true }).fill("250000000");
  await page.getByLabel("Axis from").fill("0");
  expect(await violations(page)).toEqual([]);
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("button", { name: "Export JSON" }).waitFor();
  expect(await storedPanels(id)).toMatchObject([
    { title: "Memory of pods", unit: "short", min: 0, stacked: true, thresholds: [{ value: 250_000_000, severity: "critical" }] },
  ]);
});

test.each([
  ["Metrics", `#/metrics?q=${MEMORY}`, { source: "metrics", queries: [{ query: "memory_bytes" }] }],
  ["Logs", "#/logs?q=level:warn", { source: "logs", queries: [{ query: "level:warn" }] }],
  ["Traces", "#/traces?service=stock&min=100", { source: "traces", queries: [{ query: "service=stock duration_ms>=100" }] }],
])("a query of %s is added to a dashboard", async (screen, address, expected) => {
  const id = await createDashboard([]);
  const { json } = await call("GET", `${backend.apiUrl}/api/dashboards/${id}`, { bearer: token });
  await openScreen(page, address);
  await page.getByRole("button", { name: "Add to dashboard" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByLabel("Title").fill(`from ${screen}`);
  await dialog.getByLabel(/^Dashboard/).selectOption((json as { name: string }).name);
  await dialog.getByRole("button", { name: "Add", exact: true }).click();
  await page
    .getByRole("figure", { name: `from ${screen}` })
    .locator("canvas")
    .waitFor();
  expect(await storedPanels(id)).toMatchObject([{ title: `from ${screen}`, ...expected }]);
});

test("the heatmap and the histogram have axes and a tooltip, and dragging over them selects times and durations", async () => {
  await openScreen(page, "#/traces?heatmap=1&from=30m");
  const heatmap = page.locator(".heatmap svg");
  await heatmap.waitFor();
  expect(await page.locator(".heatmap .plot-values span").allTextContents()).toContain("100 ms");
  expect(await page.locator(".heatmap .plot-times span").count()).toBeGreaterThan(3);
  const box = await heatmap.boundingBox();
  if (!box) throw new Error("the heatmap has no size");
  await page.mouse.move(box.x + box.width * 0.7, box.y + box.height * 0.1);
  await tooltip()
    .getByText(/^of \d+ spans$/)
    .waitFor();
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.9, box.y + box.height * 0.5, { steps: 4 });
  await page.mouse.up();
  await expect.poll(() => page.url()).toMatch(/min=\d+.*|max=\d+/);
  const query = new URLSearchParams(page.url().split("?")[1]);
  expect(Number(query.get("min"))).toBeLessThan(Number(query.get("max")));
  expect(await page.getByRole("textbox", { name: "from", exact: true }).inputValue()).toBe(query.get("min"));
  await openScreen(page, "#/logs?from=30m");
  await page.locator(".histogram svg").hover({ position: { x: 400, y: 30 } });
  await tooltip()
    .getByText(/\d records$/)
    .waitFor();
});

test("records are grouped and different values counted, as a chart and a table", async () => {
  await openScreen(page, "#/logs?q=level:warn,debug&view=group&from=1h");
  const table = page.getByRole("table", { name: "Groups, largest first" });
  await table.getByRole("row").filter({ hasText: "stock" }).getByText("60").waitFor();
  await page.getByRole("combobox", { name: "Show" }).selectOption("unique");
  await page.getByRole("combobox", { name: "of", exact: true }).fill("trace_id");
  await page.keyboard.press("Tab");
  await table.getByRole("columnheader", { name: "unique trace_id" }).waitFor();
  await table.getByRole("row").filter({ hasText: "stock" }).getByText("60").waitFor();
  await page.getByRole("button", { name: "Do not group by source" }).click();
  await eventually("there is one group", async () => (await table.getByRole("row").count()) === 2);
  expect(await violations(page)).toEqual([]);
});

test("a field that the query chooses keeps its other values", async () => {
  await openScreen(page, "#/logs?q=level:warn&fields=1&from=1h");
  await page.getByRole("button", { name: "Only level DEBUG" }).click();
  await expect.poll(() => decodeURIComponent(page.url())).toContain("q=level:debug");
  await openScreen(page, "#/traces?service=stock&facets=1&from=1h");
  await page.getByRole("button", { name: "Only service cart" }).click();
  await settled(page);
  expect(await page.getByRole("combobox", { name: "service" }).inputValue()).toBe("cart");
});

test("a pod that is silent since 20 minutes can be chosen in a dashboard", async () => {
  const id = await createDashboard([panel("memory", 'gone_bytes{pod="$pod"}')], [{ name: "pod", query: "gone_bytes", label: "pod" }]);
  await openScreen(page, `#/dashboards/${id}`);
  await expect.poll(async () => await page.getByRole("combobox", { name: "pod" }).inputValue()).toBe("pod-gone");
  await page.locator("canvas").waitFor();
});

test("the threshold of a rule is dragged in its chart", async () => {
  await openScreen(page, `#/alerts?rule=new&expr=${encodeURIComponent("memory_bytes > 150000000")}`);
  const handle = page.getByRole("slider", { name: "Threshold" });
  await handle.waitFor();
  await handle.focus();
  await page.keyboard.press("PageUp");
  await expect.poll(async () => await page.locator(".cm-content").textContent()).toMatch(/^memory_bytes > (?!150000000)\d+$/);
});

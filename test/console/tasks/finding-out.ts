// Tasks that find something out.
import { randomUUID } from "node:crypto";
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { violations } from "../../fixtures/browser.ts";
import { button, firstTrace, go, heading, link, query, type Task, text, type } from "./steps.ts";

/** One silent node, and a cluster with an old key. */
async function withSilentNode(page: Page, words: string): Promise<void> {
  const ago = (ms: number): string => new Date(Date.now() - ms).toISOString();
  const node = { name: "worker-9", online: false, agent_version: "1.4", last_heartbeat: ago(900_000), collector: null, config: {} };
  const cluster = { cluster_id: randomUUID(), name: "north", online: true, last_heartbeat: ago(0), key_created_at: ago(90 * 86_400_000) };
  await page.route("**/api/clusters", async (route) => await route.fulfill({ json: [{ ...cluster, nodes: [node] }] }));
  await go(page, "Fleet");
  await text(page, words);
  await page.unroute("**/api/clusters");
}

/** One figure of a table, in the row with these words. */
const cell = (page: Page, table: string, row: string, column: RegExp) =>
  page.getByRole("table", { name: table }).getByRole("row").filter({ hasText: row }).first().getByText(column).first();

const OF_SERVICES: readonly Task[] = [
  {
    name: "is anything wrong now",
    first24: 1,
    most: 0,
    run: async (page) => {
      const problems = page.getByRole("region", { name: "Problems" });
      await problems
        .getByText(/CrashLoopBackOff/)
        .first()
        .waitFor();
      await problems.getByText(/alert always on is firing/).waitFor();
    },
  },
  {
    name: "which service fails, and since which version",
    first24: 2,
    most: 1,
    run: async (page) => {
      await page.getByRole("table", { name: "Services" }).getByRole("row").nth(1).getByRole("link").first().click();
      await page.getByRole("figure", { name: "Errors" }).locator("canvas").waitFor();
    },
  },
  {
    name: "the slow request, and what it logged",
    first24: 3,
    most: 3,
    run: async (page) => {
      await go(page, "Traces");
      await button(page, "Slowest first");
      await firstTrace(page).click();
      await text(page, /lock wait timeout exceeded/);
    },
  },
  {
    name: "compare a service with the hour before",
    first24: 11,
    most: 3,
    run: async (page) => {
      await go(page, "Services");
      await link(page, "stock");
      await page.getByLabel("Compare with").selectOption("the range before");
      await page.getByRole("figure", { name: "Calls" }).getByText("the range before").first().waitFor();
    },
  },
  {
    name: "compare the latency of two services",
    most: 3,
    run: async (page) => {
      await go(page, "Services");
      await link(page, "shop");
      await page.getByLabel("Compare with").selectOption("cart");
      await page.getByRole("figure", { name: "Latency" }).getByText("service cart").waitFor();
      expect(await violations(page)).toEqual([]);
    },
  },
  {
    name: "the slowest service",
    most: 2,
    run: async (page) => {
      await go(page, "Services");
      await page.getByRole("table", { name: "Services" }).getByRole("button", { name: "p95" }).click();
      await page.locator("th[aria-sort=descending]").getByText("p95").waitFor();
    },
  },
  {
    name: "did we keep the objective",
    first24: 16,
    most: 1,
    run: async (page) => {
      await go(page, "SLOs", "Service level objectives");
      await cell(page, "Service level objectives", "Carts without an error", /99.9 % in a month/).waitFor();
    },
  },
  {
    name: "who calls whom",
    most: 2,
    run: async (page) => {
      await go(page, "Services");
      await button(page, "map");
      await page.getByRole("link", { name: "Service cart" }).waitFor();
    },
  },
  {
    name: "open a service by its name",
    most: 2,
    run: async (page) => {
      await page.keyboard.press("Control+k");
      await page.getByRole("combobox", { name: "Search" }).waitFor();
      await page.keyboard.type("service stock");
      await page.getByRole("option", { name: /^stock/, selected: true }).waitFor();
      await page.keyboard.press("Enter");
      await heading(page, "stock");
    },
  },
  {
    name: "what changed",
    first24: 24,
    most: 1,
    run: async (page) => {
      await go(page, "Changes");
      await page
        .getByRole("table", { name: /^Changes/ })
        .getByRole("row")
        .nth(1)
        .waitFor();
    },
  },
];

const OF_TRACES: readonly Task[] = [
  {
    name: "the trace of one request by its attributes",
    first24: 12,
    most: 3,
    run: async (page) => {
      await go(page, "Traces");
      await type(page, page.getByLabel("attributes"), "http.response.status_code=503");
      await page.keyboard.press("Enter");
      await page.locator("main[data-loading]").waitFor({ state: "detached" });
      await firstTrace(page).click();
      await text(page, /lock wait timeout exceeded/);
    },
  },
  {
    name: "what failed requests have in common",
    first24: 21,
    most: 2,
    run: async (page) => {
      await go(page, "Traces");
      await button(page, "Differences");
      await page
        .getByRole("button", { name: /^Only / })
        .first()
        .waitFor();
    },
  },
  {
    name: "where the time of a request went",
    most: 3,
    run: async (page) => {
      await go(page, "Traces");
      await firstTrace(page).click();
      await button(page, "flame graph and self time");
      await page.getByRole("columnheader", { name: "self time" }).waitFor();
    },
  },
  {
    name: "from a log record to its trace",
    first24: 23,
    most: 3,
    run: async (page) => {
      await go(page, "Logs");
      await page.getByRole("row").filter({ hasText: "waited" }).first().click();
      await link(page, "View trace");
      await page.getByRole("grid", { name: "Spans" }).getByRole("row").first().waitFor();
    },
  },
];

const OF_KUBERNETES: readonly Task[] = [
  {
    name: "the last lines of a container that crashes",
    first24: 4,
    most: 1,
    run: async (page) => {
      await link(page, /^Last lines: .*CrashLoopBackOff/);
      await text(page, /heap out of memory/);
    },
  },
  {
    name: "who restarts, since when",
    first24: 5,
    most: 1,
    run: async (page) => {
      await go(page, "Kubernetes");
      await page.getByRole("row").filter({ hasText: "OOMKilled" }).first().waitFor();
    },
  },
  {
    name: "the CPU of a namespace",
    first24: 6,
    most: 2,
    run: async (page) => {
      await go(page, "Kubernetes");
      await button(page, "Namespaces");
      await cell(page, "Namespaces", "shop", /^\d+ %$/).waitFor();
    },
  },
  {
    name: "everything of a pod from its log record",
    most: 3,
    run: async (page) => {
      await go(page, "Logs");
      await page.getByRole("row").filter({ hasText: "waited" }).first().click();
      await page.getByRole("link", { name: /^Open pod/ }).click();
      await heading(page, /^pod/);
    },
  },
  { name: "is a node silent", most: 1, run: async (page) => await withSilentNode(page, "silent: 1 node") },
  { name: "which key is old", most: 1, run: async (page) => await withSilentNode(page, "1 old key") },
  {
    name: "the state of a node's agent",
    most: 2,
    run: async (page) => {
      await go(page, "Fleet");
      await link(page, "worker-2");
      await page.getByRole("region", { name: "Agent" }).getByText("1 restart").waitFor();
    },
  },
];

const OF_LOGS: readonly Task[] = [
  {
    name: "share a link",
    first24: 10,
    most: 2,
    run: async (page) => {
      await go(page, "Logs");
      // It is shown for two seconds.
      await Promise.all([text(page, "Copied"), button(page, "Copy link")]);
    },
  },
  {
    name: "the most common error messages",
    first24: 13,
    most: 3,
    run: async (page) => {
      await go(page, "Logs");
      await type(page, query(page), "level:error");
      await page.keyboard.press("Enter");
      await button(page, "Patterns");
      await page
        .getByRole("button", { name: /^Only lock wait timeout/ })
        .first()
        .waitFor();
    },
  },
  {
    name: "the live tail of a pod",
    first24: 14,
    most: 3,
    run: async (page) => {
      await go(page, "Logs");
      await type(page, query(page), "k8s.pod.name:stock*");
      await page.keyboard.press("Enter");
      await button(page, "Live tail");
      await text(page, /\d received$/);
    },
  },
  {
    name: "download what is shown",
    first24: 15,
    most: 2,
    run: async (page) => {
      await go(page, "Logs");
      const downloading = page.waitForEvent("download");
      await page.getByLabel("Download").selectOption("csv");
      expect((await downloading).suggestedFilename()).toBe("logs.csv");
    },
  },
  {
    name: "how many different pods wrote lines",
    first24: 22,
    most: 4,
    run: async (page) => {
      await go(page, "Logs");
      await button(page, "Group by");
      await page.getByLabel("Show").selectOption("unique");
      await type(page, page.getByLabel("of", { exact: true }), "k8s.pod.name");
      await page.keyboard.press("Enter");
      await page.getByRole("table", { name: "Groups, largest first" }).getByRole("row").nth(1).waitFor();
    },
  },
  {
    name: "the most common values of a field",
    most: 2,
    run: async (page) => {
      await go(page, "Logs");
      const fields = page.getByRole("complementary", { name: "Fields" });
      await fields.getByText("http.route").click();
      await fields.getByRole("listitem").filter({ hasText: "/cart" }).first().waitFor();
    },
  },
  {
    name: "what most log lines have in common",
    most: 2,
    run: async (page) => {
      await go(page, "Logs");
      await button(page, "Patterns");
      await page
        .getByRole("button", { name: /^Only GET/ })
        .first()
        .waitFor();
    },
  },
  {
    name: "the minutes of a burst",
    most: 2,
    run: async (page) => {
      await go(page, "Logs");
      const plot = page.locator(".histogram svg");
      const { x, y, width, height } = (await plot.boundingBox()) ?? { x: 0, y: 0, width: 0, height: 0 };
      await page.mouse.move(x + width / 2, y + height / 2);
      await page.mouse.down();
      await page.mouse.move(x + width * 0.9, y + height / 2, { steps: 5 });
      await page.mouse.up();
      await page.waitForURL(/from=\d{4}-.*to=\d{4}-/);
    },
  },
];

export const FINDING_OUT: readonly Task[] = [...OF_SERVICES, ...OF_TRACES, ...OF_KUBERNETES, ...OF_LOGS];

// Tasks that create or change something.
import type { Page } from "playwright-core";
import { expect } from "vitest";
import { openPage, openScreen, violations } from "../../fixtures/browser.ts";
import { button, go, heading, link, type Task, text, type, type World } from "./steps.ts";

/** An address of an invited person that looks like markup. */
export const HOSTILE_ADDRESS = '"><img/src=x/onerror=alert(1)>@x.example';
const PASSWORD = "chosen by the colleague";

const ALERTING: readonly Task[] = [
  {
    name: "an alert rule from a metric's chart",
    first24: 7,
    most: 5,
    run: async (page) => {
      await go(page, "Metrics");
      await type(page, page.locator(".cm-content"), "system_cpu_load_average_1m");
      // Enter would take the first completion.
      await page.keyboard.press("Escape");
      await page.keyboard.press("Enter");
      await link(page, "Create alert rule");
      // The form has the focus, and a threshold to drag.
      await page.locator("[name=name]:focus").waitFor();
      await text(page, /^Valid\. .* series\.$/);
      await page.keyboard.type("load");
      await page.keyboard.press("Enter");
      await page.getByRole("link", { name: "load", exact: true }).waitFor();
    },
  },
  {
    name: "a channel, tested, and a route to it",
    most: 10,
    run: async (page, { webhook }) => {
      await go(page, "Alerts");
      await button(page, "Channels");
      await link(page, "Create channel");
      await page.locator("[name=name]:focus").waitFor();
      await page.keyboard.type("on-call");
      await type(page, page.getByLabel("URL, https://…"), webhook);
      await page.keyboard.press("Enter");
      await button(page, "Send test");
      await text(page, "Delivered: the receiver answered 204.");
      await button(page, "Routes");
      await link(page, "Create route");
      await page.getByLabel("on-call").click();
      await button(page, "Create");
      await page.getByRole("table", { name: "Routes in evaluation order" }).getByText("on-call").waitFor();
    },
  },
  {
    name: "silence what fires",
    first24: 8,
    most: 3,
    run: async (page) => {
      await link(page, "Alert: alert always on is firing");
      await link(page, "Silence");
      await page.locator("[name=comment]:focus").waitFor();
      await page.keyboard.type("being repaired");
      await page.keyboard.press("Enter");
      await page.getByRole("button", { name: "Expire silence" }).waitFor();
    },
  },
  {
    name: "an objective for a service",
    most: 4,
    run: async (page) => {
      await go(page, "SLOs", "Service level objectives");
      await link(page, "Create objective");
      await page.locator("[name=name]:focus").waitFor();
      await page.keyboard.type("stock answers");
      await type(page, page.getByLabel("Service", { exact: true }), "stock");
      await page.keyboard.press("Enter");
      await heading(page, "stock answers");
    },
  },
];

const DASHBOARDS: readonly Task[] = [
  {
    name: "a dashboard with a variable and two panels",
    first24: 9,
    most: 13,
    run: async (page) => {
      await go(page, "Dashboards");
      await link(page, "Create dashboard");
      await page.locator("input:focus").waitFor();
      await page.keyboard.type("memory of a service");
      await page.getByText("Variables (0)").click();
      await button(page, "Add variable");
      await type(page, page.getByLabel("Values, separated by commas"), "cart, stock");
      for (const expression of ["k8s_pod_memory_working_set_bytes", "k8s_pod_cpu_usage"]) {
        await button(page, "Add panel");
        await type(page, page.locator(".cm-content"), `${expression}{k8s_deployment_name="$variable1"}`);
      }
      await button(page, "Save");
      await heading(page, "memory of a service");
      await page.getByRole("group", { name: "Variables" }).getByLabel("variable1").waitFor();
      await page.locator("canvas").nth(1).waitFor();
    },
  },
  {
    name: "keep a chart",
    most: 7,
    run: async (page) => {
      await go(page, "Dashboards");
      await link(page, "Create dashboard");
      await page.locator("input:focus").waitFor();
      await page.keyboard.type("memory of pods");
      await button(page, "Add panel");
      await type(page, page.locator(".cm-content"), "k8s_pod_memory_working_set_bytes");
      await button(page, "Save");
      await heading(page, "memory of pods");
      await page.locator("canvas").first().waitFor();
    },
  },
  {
    name: "bring a dashboard from Grafana",
    most: 2,
    run: async (page) => {
      await go(page, "Dashboards");
      const panels = [{ type: "stat", title: "pods", targets: [{ expr: "count(k8s_pod_phase)" }], gridPos: { w: 6 } }];
      const buffer = Buffer.from(JSON.stringify({ title: "from Grafana", schemaVersion: 39, panels }));
      await page.getByLabel("Import JSON").setInputFiles({ name: "grafana.json", mimeType: "application/json", buffer });
      await page
        .getByRole("heading", { name: "from Grafana" })
        .or(page.getByRole("link", { name: "from Grafana" }))
        .first()
        .waitFor();
    },
  },
  {
    name: "keep a view for everybody",
    most: 2,
    run: async (page) => {
      await button(page, "Views");
      await page.locator("[name=name]:focus").waitFor();
      await page.keyboard.type("where I look first");
      await page.keyboard.press("Enter");
      await page.getByRole("link", { name: "where I look first" }).waitFor();
    },
  },
];

const ADMINISTRATION: readonly Task[] = [
  {
    name: "add a cluster",
    first24: 17,
    most: 3,
    run: async (page) => {
      await go(page, "Fleet");
      await link(page, "Add cluster or host");
      await type(page, page.getByLabel("Name of the cluster"), "berlin");
      await page.keyboard.press("Enter");
      await text(page, /--set clusterName=berlin/);
      await text(page, "Waiting for the first heartbeat …");
    },
  },
  {
    name: "rotate a key",
    first24: 18,
    most: 3,
    run: async (page) => {
      await go(page, "Settings");
      await button(page, "Keys and tokens");
      await button(page, "Rotate ci");
      await text(page, "Token, not shown again");
    },
  },
  { name: "invite a colleague who may read", first24: 19, most: 4, run: invite },
  {
    name: "what each organisation stores",
    first24: 20,
    most: 2,
    run: async (page) => {
      await go(page, "Settings");
      await button(page, "Usage of all");
      await page.getByRole("table", { name: "Usage of all organisations" }).getByRole("row").nth(1).waitFor();
    },
  },
  {
    name: "a read token, and what Grafana needs",
    most: 4,
    run: async (page) => {
      await go(page, "Settings");
      await button(page, "Keys and tokens");
      const tokens = page.getByRole("region", { name: /^Read tokens/ });
      await type(page, tokens.getByLabel("Name"), "grafana");
      await tokens.getByRole("button", { name: "Create read token" }).click();
      await text(page, /provisioning\/datasources/);
    },
  },
];

/** The colleague also opens the link, chooses a password, and works as a viewer. */
async function invite(page: Page, { browser, apiUrl }: World): Promise<void> {
  await go(page, "Settings");
  const invitations = page.getByRole("region", { name: "Invitations" });
  await invitations.getByText(HOSTILE_ADDRESS).waitFor();
  await type(page, invitations.getByLabel("E-mail"), "colleague@shop.example");
  await invitations.getByRole("button", { name: "Create invitation" }).click();
  const address = (await page.locator("figure", { hasText: "Send this link" }).locator("pre").textContent()) ?? "";
  expect(await violations(page)).toEqual([]);
  await using invited = await openPage(browser, apiUrl, {}, /status of 401/);
  await invited.page.goto(address.slice(apiUrl.length));
  await invited.page.getByText(/with the role viewer/).waitFor();
  expect(invited.page.url()).not.toContain("invitation");
  expect(await invited.page.title()).toBe("Overview · AtherOps");
  expect(await violations(invited.page)).toEqual([]);
  await type(invited.page, invited.page.getByLabel("Password"), PASSWORD);
  await invited.page.getByRole("button", { name: "Create account" }).click();
  await invited.page.getByRole("heading", { name: "Overview" }).waitFor();
  await openScreen(invited.page, "#/settings");
  await invited.page.getByRole("region", { name: "Your password" }).waitFor();
  expect(await invited.page.getByRole("region", { name: "Invitations" }).count()).toBe(0);
  expect(invited.complaints).toEqual([]);
}

export const CHANGING: readonly Task[] = [...ALERTING, ...DASHBOARDS, ...ADMINISTRATION];

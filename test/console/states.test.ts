// What is wrong, and where it leads, in a real Chromium with real clicks and keys: overview, Kubernetes, the page of an alert, the operator's
// usage of all organisations, and credentials that are rotated or removed. A real backend has an hour of a shop with a pod that crashes.
import type { Page } from "playwright-core";
import { beforeAll, beforeEach, expect, test } from "vitest";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { adminPassword } from "../fixtures/backend-process.ts";
import { faultsOf, LOOKS, openScreen, type Screen } from "../fixtures/browser.ts";
import { consoleOfFile } from "../fixtures/console-of-file.ts";
import { call, eventually } from "../fixtures/processes.ts";
import { CRASHING_POD, startShopCluster } from "../fixtures/shop-cluster.ts";
import { visit } from "../fixtures/shop-visits.ts";

const LAST_LINE = /allocation of 16777216 bytes failed/;
const RULE = {
  name: "Restarts",
  severity: "critical",
  for: "0s",
  expr: "max by (k8s_cluster_name, k8s_namespace_name, k8s_pod_name) (k8s_container_restarts) > 3",
  annotations: { summary: "a pod restarts again and again", runbook_url: "https://runbooks.example/restarts" },
};
const backend = backendOfFile({ INGEST_TOKENS: "true", EVALUATION_INTERVAL: "5s" });
const ui = consoleOfFile(backend, { look: { viewport: { width: 1440, height: 900 } } });
let token: string;
let ruleId: string;
let page: Page;

const read = async (path: string) => (await call("GET", `${backend.apiUrl}${path}`, { bearer: token })).json;

beforeAll(async () => {
  token = await backend.operator();
  const nowMs = Date.now();
  const visits = Array.from({ length: 20 }, (_, at) => visit(at, nowMs - at * 120_000, false));
  await startShopCluster(backend.apiUrl, await backend.installToken(token), visits.flat());
  ruleId = (await call("POST", `${backend.apiUrl}/alerting/rules`, { bearer: token, body: RULE })).json.id as string;
  await backend.shows(
    "the alert is a problem",
    async () => ((await read("/query/problems")).problems as { kind: string }[]).some(({ kind }) => kind === "alert"),
    150_000,
  );
  await eventually("usage was counted", async () => (await read("/api/orgs/usage")).length > 0, 150_000);
}, 300_000);
beforeEach(async () => {
  page = await ui.open();
});

test("the overview leads from a pod that crashes to the last lines of its previous run in one click", async () => {
  const problem = page.getByRole("region", { name: "Problems" }).getByRole("listitem").filter({ hasText: "CrashLoopBackOff" });
  await problem.getByText("last ended with OOMKilled").waitFor();
  await problem.getByRole("link", { name: /^Last lines/ }).click();
  await page.getByRole("heading", { name: "Logs" }).waitFor();
  await page.getByText(LAST_LINE).first().waitFor();
  // Other runs wrote the same lines.
  expect(await page.getByRole("grid").getByRole("row").filter({ hasText: LAST_LINE }).count()).toBe(1);
  await openScreen(page, "#/overview");
  await page.getByText(/\d+ of \d+ pods/).waitFor();
});

test("Kubernetes lists unhealthy pods first, sorts by a head, filters by typed text, and links to lines, pods and nodes", async () => {
  await page.keyboard.press("g");
  await page.keyboard.press("k");
  const pods = page.getByRole("region", { name: "Pods" });
  await pods.getByText("CrashLoopBackOff 0/1").waitFor();
  const names = async (): Promise<string[]> => await pods.getByRole("rowheader").allTextContents();
  // Then those that restarted in the last hour, and the pending one, before healthy ones.
  expect((await names()).slice(0, 4)).toEqual([
    CRASHING_POD,
    expect.stringMatching(/^stock-/),
    expect.stringMatching(/^stock-/),
    expect.stringMatching(/^accounts-7c5ddb9f4-/),
  ]);
  await pods.getByRole("button", { name: "memory of limit" }).click();
  await eventually("the fullest pod is first", async () => (await names())[0] === CRASHING_POD);
  await pods.getByRole("button", { name: "pod" }).click();
  await eventually("names are sorted", async () => (await names()).every((name, at, all) => at === 0 || (all[at - 1] ?? "") <= name));
  await pods.getByRole("searchbox").click();
  await page.keyboard.type("Pending");
  await eventually("one pod is pending", async () => (await names()).length === 1);
  await pods.getByRole("link", { name: /^Events of/ }).waitFor();
  await page.keyboard.press("Control+a");
  await page.keyboard.type("CrashLoop");
  await pods.getByRole("link", { name: CRASHING_POD, exact: true }).click();
  await page.getByRole("region", { name: "State" }).getByText("CrashLoopBackOff 0/1").waitFor();
  await page.getByRole("link", { name: "Last lines before it ended" }).click();
  await page.getByText(LAST_LINE).first().waitFor();
});

test("the page of a namespace, workload, node and cluster lists its pods with their state", async () => {
  for (const address of [
    "#/entity/shop?kind=namespace&cluster=shop-production",
    "#/entity/cart?kind=workload&workload=deployment&namespace=shop&cluster=shop-production",
    "#/entity/shop-production?kind=cluster",
  ]) {
    await openScreen(page, address);
    await page.getByRole("region", { name: "Pods" }).getByText("CrashLoopBackOff 0/1").waitFor();
  }
  await page.getByRole("region", { name: "Workloads" }).getByText("1 of 2 ready").first().waitFor();
  await page.getByRole("region", { name: "Nodes" }).getByRole("link", { name: "worker-1" }).click();
  await page.getByRole("region", { name: "Pods" }).getByRole("rowheader").first().waitFor();
  expect(await page.getByRole("region", { name: "Pods" }).getByText("Pending").count()).toBe(0);
});

test("a firing alert opens its page with value, entity, logs, runbook and history, and silences it", async () => {
  await openScreen(page, "#/alerts?view=firing");
  await page.getByRole("link", { name: "Restarts", exact: true }).click();
  await page.getByRole("heading", { name: "Restarts", level: 1 }).waitFor();
  await page.getByRole("region", { name: "Value" }).locator("canvas").waitFor();
  await page.getByText("a pod restarts again and again").waitFor();
  expect(await page.getByRole("link", { name: "Runbook" }).getAttribute("href")).toBe("https://runbooks.example/restarts");
  await page.getByRole("region", { name: "Labels" }).getByRole("link", { name: CRASHING_POD }).waitFor();
  await page.getByRole("region", { name: "Logs" }).getByText(LAST_LINE).first().waitFor();
  await page.getByRole("region", { name: "Notified" }).getByText("No channel").waitFor();
  const address = new URL(page.url()).hash;
  await page.getByRole("link", { name: "Silence", exact: true }).click();
  await page.getByText("Matches 1 firing alert: Restarts").waitFor();
  // The address of a message has no range; labels that no alert has now still open the page.
  await openScreen(page, `#/alerts/${ruleId}?label=k8s_pod_name%3Dgone&at=${new Date(Date.now() - 600_000).toISOString()}`);
  await page.getByText("ended").first().waitFor();
  expect(address).toContain(`#/alerts/${ruleId}?label=`);
  await openScreen(page, `#/alerts?rule=${ruleId}`);
  await page.getByRole("complementary", { name: "Rule" }).waitFor();
});

test("an operator sees the usage of all organisations with shares of limits", async () => {
  await openScreen(page, "#/settings");
  await page.getByRole("button", { name: "Usage of all" }).click();
  const usage = page.getByRole("region", { name: "Usage of all organisations" });
  await usage.getByRole("row").filter({ hasText: "metrics" }).first().waitFor();
  await usage.getByRole("button", { name: "records", exact: true }).click();
  expect(new URL(page.url()).hash).toContain("by=-records");
});

test("a token is rotated, and a cluster removed, with what it means said before", async () => {
  await openScreen(page, "#/settings?part=credentials");
  const tokens = page.getByRole("region", { name: /^Ingest tokens/ });
  await tokens.getByLabel("Name").click();
  await page.keyboard.type("ci");
  await page.keyboard.press("Enter");
  const secret = page.locator("figure", { hasText: "Token, not shown again" }).locator("pre");
  await secret.waitFor();
  const first = await secret.textContent();
  await tokens.getByRole("button", { name: "Rotate ci" }).click();
  await eventually("another secret is shown", async () => (await secret.textContent()) !== first);
  await openScreen(page, "#/entity/shop-production?kind=cluster");
  await page.getByRole("button", { name: "Remove cluster" }).click();
  const dialog = page.getByRole("dialog");
  await dialog.getByText(/keys are revoked/).waitFor();
  await dialog.getByRole("button", { name: "Cancel" }).click();
  expect(await read("/api/clusters")).toHaveLength(1);
});

test("Back after a created rule opens the list, not an empty form", async () => {
  await openScreen(page, "#/alerts?rule=new");
  await page.getByLabel("Name", { exact: true }).click();
  await page.keyboard.type("load");
  await page.locator(".cm-content").click();
  await page.keyboard.type("vector(1) > 5");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByRole("button", { name: "Save", exact: true }).waitFor();
  await page.goBack();
  expect(new URL(page.url()).hash).not.toContain("rule=new");
});

test("the dialog after a session has expired takes the password at once", async () => {
  await page.context().clearCookies();
  await page.getByRole("navigation", { name: "Screens" }).getByRole("link", { name: "Logs" }).click();
  await page.getByRole("dialog", { name: "Your session has expired" }).waitFor();
  await page.keyboard.type(adminPassword(backend.place));
  await page.keyboard.press("Enter");
  await page.getByRole("dialog", { name: "Your session has expired" }).waitFor({ state: "detached" });
  expect(new URL(page.url()).hash).toContain("#/logs");
});

const SCREENS: readonly Screen[] = [
  ["overview", "#/overview", async (opened) => await opened.getByText("CrashLoopBackOff").first().waitFor()],
  ["pods", "#/kubernetes", async (opened) => await opened.getByText("OOMKilled").first().waitFor()],
  ["nodes", "#/kubernetes?view=node", async (opened) => await opened.getByText("worker-1").first().waitFor()],
  [
    "pod",
    `#/entity/${CRASHING_POD}?kind=pod&cluster=shop-production&namespace=shop`,
    async (opened) => await opened.getByText("OOMKilled").first().waitFor(),
  ],
  ["alert", "", async (opened) => await opened.getByRole("region", { name: "Value" }).waitFor()],
  ["usage", "#/settings?part=usage-of-all", async (opened) => await opened.getByText("of bytes limit").first().waitFor()],
];

test.each(LOOKS)("the screens of states have no fault in %s", async (_look, options) => {
  const opened = await ui.open(options);
  const screens = SCREENS.map(([name, address, isThere]): Screen => [name, address || `#/alerts/${ruleId}`, isThere]);
  expect(await faultsOf(opened, screens)).toEqual([]);
});

// Every screen of the console for three users: a viewer, the administrator of another organisation, and an operator of both. Every kind of
// data of an organisation contains a word that only this organisation has. No screen shows the other organisation's word, and a viewer is
// offered no change.
import { randomUUID } from "node:crypto";
import type { Page } from "playwright-core";
import { beforeAll, expect, test } from "vitest";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { openScreen, violations } from "../fixtures/browser.ts";
import { consoleOfFile } from "../fixtures/console-of-file.ts";
import { call, signedPost } from "../fixtures/processes.ts";

const REFUSED = /status of (401|403|404)/;
const TRACE = "0af7651916cd43dd8448eb211c80319c";
const [OURS, THEIRS] = ["ourword", "theirword"];
const VIEWER = { email: `viewer@${OURS}.example`, password: "only reading, thank you" };
const NEIGHBOUR = { email: `admin@${THEIRS}.example`, password: "another organisation" };
const backend = backendOfFile({ INGEST_TOKENS: "true", NOTIFY_ALLOWED_NETWORKS: "127.0.0.2" });
const ui = consoleOfFile(backend, { look: { viewport: { width: 1440, height: 900 } }, expected: REFUSED });
let screens: readonly string[];

interface Made {
  readonly dashboardId: string;
  readonly ruleId: string;
  readonly hostId: string;
}

beforeAll(async () => {
  const operator = await backend.operator();
  await api("/api/orgs", { name: "neighbour", admin: NEIGHBOUR }, operator);
  const { json } = await call("POST", `${backend.apiUrl}/api/auth/login`, { body: NEIGHBOUR });
  const ours = await fill(OURS, operator);
  await fill(THEIRS, json.token as string);
  await api("/api/users", { ...VIEWER, role: "viewer" }, operator);
  screens = addressesOf(ours);
});

async function api(path: string, body: object, bearer: string) {
  const answer = await call("POST", `${backend.apiUrl}${path}`, { bearer, body });
  expect(answer.status, answer.text).toBe(201);
  return answer.json;
}

/** Data of every kind; each name and text has the word. */
async function fill(word: string, bearer: string): Promise<Made> {
  const { api_key: key } = await api("/api/keys", { name: `${word}-key` }, bearer);
  const text = (stringValue: string) => ({ stringValue });
  const pod = {
    "k8s.cluster.name": "north",
    "k8s.namespace.name": "shop",
    "k8s.pod.name": "cart-1",
    "k8s.deployment.name": "cart",
    "k8s.node.name": "n1",
  };
  const resource = { attributes: [{ key: "service.name", value: text(`${word}-service`) }] };
  const attributes = Object.entries({ ...pod, word }).map(([name, value]) => ({ key: name, value: text(value) }));
  const at = `${Date.now() - 60_000}000000`;
  const record = { timeUnixNano: at, severityText: "ERROR", body: text(`${word} failed`), attributes, traceId: TRACE };
  const ended = `${Date.now() - 59_000}000000`;
  const span = { traceId: TRACE, spanId: "00f067aa0ba902b7", name: `${word} call`, kind: 2, startTimeUnixNano: at, endTimeUnixNano: ended };
  const labels = Object.entries(pod).map(([name, value]) => `${name.replaceAll(".", "_")}="${value}"`);
  const metrics = `k8s_pod_memory_working_set_bytes{${labels.join(",")},word="${word}"} 1\n${word}_metric 1\n`;
  const send = async (path: string, body: string, type = "application/json"): Promise<void> => {
    expect((await signedPost(backend.apiUrl, path, key as string, body, { "content-type": type })).status).toBe(204);
  };
  await send("/ingest/logs/otlp", JSON.stringify({ resourceLogs: [{ resource, scopeLogs: [{ logRecords: [record] }] }] }));
  await send("/ingest/traces", JSON.stringify({ resourceSpans: [{ resource, scopeSpans: [{ spans: [{ ...span, attributes }] }] }] }));
  await send("/ingest", metrics, "text/plain");
  const install = await api("/api/install-tokens", {}, bearer);
  const cluster = { cluster_name: `${word}-cluster`, cluster_uid: randomUUID(), agent_version: "1" };
  const headers = { "idempotency-key": randomUUID() };
  const enrolled = await call("POST", `${backend.apiUrl}/api/clusters/register`, {
    bearer: install.token as string,
    headers,
    body: cluster,
  });
  expect(enrolled.status).toBe(201);
  const host = await call("POST", `${backend.apiUrl}/api/v1/agents/register`, {
    bearer: (await api("/api/install-tokens", {}, bearer)).token as string,
    headers: { "idempotency-key": randomUUID() },
    body: { hostname: `${word}-host`, machine_id: randomUUID().replaceAll("-", ""), agent_version: "1" },
  });
  expect(host.status, host.text).toBe(201);
  const panels = [{ title: word, kind: "stat", source: "metrics", width: 6, queries: [{ query: `${word}_metric` }] }];
  const dashboard = await api("/api/dashboards", { name: `${word}-dashboard`, description: "", variables: [], panels }, bearer);
  await api("/api/views", { name: `${word}-view`, address: "#/logs" }, bearer);
  await api("/api/invitations", { email: `invited@${word}.example`, role: "viewer" }, bearer);
  await api("/api/read-tokens", { name: `${word}-reader` }, bearer);
  await api("/api/ingest-tokens", { name: `${word}-sender` }, bearer);
  const settings = { url: `https://127.0.0.2:1/${word}` };
  const channel = await api("/alerting/channels", { name: `${word}-channel`, kind: "webhook", settings }, bearer);
  await api("/alerting/routes", { matchers: [{ label: "word", op: "=", value: word }], channel_ids: [channel.id] }, bearer);
  const rule = await api("/alerting/rules", { name: `${word}-rule`, expr: "vector(1) > 0", severity: "critical", for: "0s" }, bearer);
  const endsAt = new Date(Date.now() + 3_600_000).toISOString();
  await api("/alerting/silences", { matchers: [{ name: "other", value: word }], endsAt, comment: word }, bearer);
  return { dashboardId: dashboard.id as string, ruleId: rule.id as string, hostId: host.json.agent_id as string };
}

const IN_CLUSTER = "cluster=north";
const addressesOf = ({ dashboardId, ruleId, hostId }: Made): string[] => [
  "#/overview",
  "#/services",
  "#/services?view=map",
  `#/services/${OURS}-service`,
  `#/services/${OURS}-service?with=a+day+before`,
  "#/fleet",
  ...["pod", "workload", "namespace", "node", "cluster"].map((kind) => `#/kubernetes?view=${kind}`),
  `#/alerts/${ruleId}`,
  "#/add",
  "#/add?kind=grafana",
  `#/entity/${OURS}-host?kind=host&host=${hostId}`,
  "#/entity/north?kind=cluster",
  `#/entity/n1?kind=node&${IN_CLUSTER}`,
  `#/entity/shop?kind=namespace&${IN_CLUSTER}`,
  `#/entity/cart?kind=workload&${IN_CLUSTER}&namespace=shop&workload=deployment`,
  `#/entity/cart-1?kind=pod&${IN_CLUSTER}&namespace=shop`,
  "#/logs",
  "#/logs?view=patterns",
  "#/logs?live=1",
  `#/logs?q=${encodeURIComponent('{service_name=~".+"} | level="error"')}`,
  `#/logs?q=${encodeURIComponent('sum by (service_name) (count_over_time({service_name=~".+"}[5m]))')}`,
  "#/traces?facets=1&heatmap=1",
  "#/traces?differences=1",
  `#/traces/${TRACE}`,
  `#/traces/${TRACE}?view=flame`,
  `#/metrics?q=${encodeURIComponent('{__name__=~".*_metric"}')}`,
  `#/metrics?view=table&builder=1&q=${encodeURIComponent('{__name__=~".*_metric"}')}`,
  "#/metrics?view=cardinality",
  "#/dashboards",
  "#/dashboards/shipped-node",
  `#/dashboards/${dashboardId}`,
  `#/dashboards/${dashboardId}?edit=1`,
  "#/dashboards/new",
  "#/alerts",
  `#/alerts?rule=${ruleId}`,
  "#/alerts?rule=new",
  ...["silence", "route", "channel"].map((kind) => `#/alerts?view=${kind}s&${kind}=new`),
  ...["firing", "silences", "routes", "channels", "deliveries"].map((view) => `#/alerts?view=${view}`),
  ...["users", "credentials", "issuers", "usage", "usage-of-all", "audit", "organisations"].map((part) => `#/settings?part=${part}`),
];

async function shownAt(page: Page, address: string): Promise<string> {
  await openScreen(page, address);
  await page.locator("main h1, main [role=alert], main .empty").first().waitFor();
  return (await page.locator("main").textContent()) ?? "";
}

/** Without addresses that the reader opened: a screen may repeat what it was asked for. */
const withoutAsked = (shown: string): string => shown.replaceAll(new RegExp(`${OURS}-(?:service|host)`, "g"), "");

test("an administrator of another organisation sees only its own data", { timeout: 300_000 }, async () => {
  const page = await ui.openAs(NEIGHBOUR.email, NEIGHBOUR.password);
  const faults: string[] = [];
  let own = 0;
  for (const address of screens) {
    const shown = withoutAsked(await shownAt(page, address));
    if (shown.includes(OURS)) faults.push(address);
    if (shown.includes(THEIRS)) own += 1;
  }
  expect(faults).toEqual([]);
  expect(own).toBeGreaterThan(15);
});

test("the operator sees the data of its own organisation only, and the names of all organisations", { timeout: 300_000 }, async () => {
  const page = await ui.open();
  const faults: string[] = [];
  for (const address of screens) {
    const shown = await shownAt(page, address);
    // An operator reads the audit log of all organisations.
    if (shown.includes(THEIRS) && !address.includes("part=audit")) faults.push(address);
    faults.push(...(await violations(page)).map((violation) => `${address}: ${violation}`));
  }
  expect(faults).toEqual([]);
  await shownAt(page, "#/settings?part=organisations");
  await page.getByRole("cell", { name: "neighbour" }).waitFor();
});

// "Add query" adds an expression to a chart.
const CHANGES = /^(Add(?! query$)|Create|Edit|Expire|Import|Invite|Make|New|Remove|Revoke|Rotate|Save|Send|Silence|Test)\b/;

test("a viewer can read every screen, and can change only its own password", { timeout: 300_000 }, async () => {
  const page = await ui.openAs(VIEWER.email, VIEWER.password);
  const faults: string[] = [];
  let own = 0;
  for (const address of screens) {
    const shown = await shownAt(page, address);
    if (shown.includes(THEIRS)) faults.push(`${address}: shows ${THEIRS}`);
    if (withoutAsked(shown).includes(OURS)) own += 1;
    if (address.startsWith("#/alerts?view=") && (await page.locator("main form, main .danger, main .primary").count()) > 0)
      faults.push(`${address}: a form or a button for changes`);
    for (const role of ["button", "link"] as const)
      for (const control of await page.locator("main").getByRole(role, { name: CHANGES }).all())
        faults.push(`${address}: ${role} ${(await control.textContent()) ?? ""}`);
    if ((await page.getByLabel(/^Role of/).count()) > 0) faults.push(`${address}: roles`);
  }
  expect(faults).toEqual([]);
  expect(own).toBeGreaterThan(15);
  await shownAt(page, "#/settings");
  const form = page.getByRole("region", { name: "Your password" });
  const change = async (current: string): Promise<void> => {
    await form.getByLabel("Current password").fill(current);
    await form.getByLabel("New password").fill("a new password of mine");
    await form.getByRole("button", { name: "Change password" }).click();
  };
  await change("not my password");
  await form.getByRole("alert").getByText("this is not your password").waitFor();
  await change(VIEWER.password);
  await form.getByText("Your other sessions have ended.").waitFor();
  await page.reload();
  await page.getByRole("region", { name: "Your password" }).waitFor();
});

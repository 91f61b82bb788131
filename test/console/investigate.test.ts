// The console's screens for investigating problems, in a real Chromium with a real backend: service map, pages of clusters, nodes, hosts
// and pods, command palette, saved views, patterns, analysis of traces, dashboards and ingest tokens. Names and texts from senders are
// hostile. (Viewers, and the data of other organisations: roles.test.ts.)
import { randomUUID } from "node:crypto";
import type { Page } from "playwright-core";
import { beforeAll, beforeEach, describe, expect, test } from "vitest";
import { sign } from "../../common/protocol/signature.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { faultsOf, LOOKS, openScreen, type Screen, shiftsOnHover, violations } from "../fixtures/browser.ts";
import { consoleOfFile } from "../fixtures/console-of-file.ts";
import { call, eventually, signedPost } from "../fixtures/processes.ts";

const HOSTILE = '<img src=x onerror=alert(1)>"}{';
const POD = 'cart-7f9c\u202e"><b>';
const TRACE = "0af7651916cd43dd8448eb211c80319c";
const VIEWER = { email: "viewer@localhost", password: "only reading, thank you" };
// Edges of the map and series of spans come as often as four evaluations.
const backend = backendOfFile({ INGEST_TOKENS: "true", EVALUATION_INTERVAL: "2s" });
const ui = consoleOfFile(backend);
let token: string;
let clusterKey: string;

const text = (stringValue: string) => ({ stringValue });
const attributes = (pairs: Record<string, string>) => Object.entries(pairs).map(([key, value]) => ({ key, value: text(value) }));
const ns = (secondsAgo: number): string => `${Date.now() - secondsAgo * 1000}000000`;
const POD_ATTRIBUTES = {
  "k8s.cluster.name": "north",
  "k8s.namespace.name": "shop",
  "k8s.pod.name": POD,
  "k8s.deployment.name": "cart",
  "k8s.node.name": "n1",
};

beforeAll(async () => {
  token = await backend.operator();
  clusterKey = await registerCluster();
  await sendMetrics();
  await sendSpans(clusterKey);
  await sendRecords(clusterKey);
  expect((await call("POST", `${backend.apiUrl}/api/users`, { bearer: token, body: { ...VIEWER, role: "viewer" } })).status).toBe(201);
  const edges = async (): Promise<number> =>
    ((await call("GET", `${backend.apiUrl}/query/services/graph`, { bearer: token })).json as { edges: object[] }).edges.length;
  await backend.shows("edges of the service map are computed", async () => (await edges()) > 0, 150_000);
});
// A series that got no sample for five minutes is over, and a busy machine needs longer for this file.
beforeEach(async () => await sendMetrics());

async function registerCluster(): Promise<string> {
  const identity = { cluster_name: "north", cluster_uid: randomUUID(), agent_version: "0.1.0" };
  const headers = { "idempotency-key": randomUUID() };
  const bearer = await backend.installToken(token);
  const { json } = await call("POST", `${backend.apiUrl}/api/clusters/register`, { bearer, headers, body: identity });
  const collector = { state: "failed", restarts: 3, last_error: HOSTILE };
  const beat = { node: "n1", agent_version: "0.1.0", collector };
  const signed = sign(json.api_key, "POST", "/heartbeat", Date.now() / 1000);
  expect((await call("POST", `${backend.apiUrl}/heartbeat`, { body: beat, headers: signed })).status).toBe(204);
  return json.api_key;
}

async function send(path: string, key: string, body: string, type = "application/json"): Promise<void> {
  const answer = await signedPost(backend.apiUrl, path, key, body, { "content-type": type });
  expect(answer.status, answer.text).toBe(204);
}

async function sendMetrics(): Promise<void> {
  const quoted = (value: string): string => value.replaceAll(/["\\]/g, "\\$&");
  const labels = Object.entries(POD_ATTRIBUTES).map(([name, value]) => `${name.replaceAll(".", "_")}="${quoted(value)}"`);
  const lines = [
    `k8s_pod_memory_working_set_bytes{${labels.join(",")}} 104857600`,
    `k8s_pod_phase{${labels.join(",")}} 2`,
    `k8s_container_ready{${labels.join(",")},k8s_container_name="cart"} 1`,
    'k8s_node_condition_ready{k8s_cluster_name="north",k8s_node_name="n1"} 1',
    'k8s_node_memory_working_set_bytes{k8s_cluster_name="north",k8s_node_name="n1"} 1073741824',
    'system_cpu_load_average_1m{k8s_cluster_name="north",k8s_node_name="n1"} 0.5',
  ];
  await send("/ingest", clusterKey, `${lines.join("\n")}\n`, "text/plain");
}

/** web calls a service with a hostile name, which calls a database. One call in five is slow and fails. */
async function sendSpans(key: string): Promise<void> {
  const traces = Array.from({ length: 20 }, (_, at) => {
    const traceId = at === 0 ? TRACE : (at + 1).toString(16).padStart(32, "0");
    const isSlow = at % 5 === 0;
    const span = (place: number, parent: number, kind: number, name: string, durationMs: number, pairs: Record<string, string> = {}) => ({
      traceId,
      spanId: `${(at + 1).toString(16).padStart(8, "0")}0000000${place}`,
      parentSpanId: parent === 0 ? "" : `${(at + 1).toString(16).padStart(8, "0")}0000000${parent}`,
      name,
      kind,
      startTimeUnixNano: ns(120 + at),
      endTimeUnixNano: `${Date.now() - (120 + at) * 1000 + durationMs}000000`,
      attributes: attributes({ ...pairs, ...(isSlow && { "cache.hit": "false" }) }),
      ...(isSlow && { status: { code: 2, message: "lock" } }),
    });
    const total = isSlow ? 900 : 40;
    return {
      web: [span(1, 0, 2, "GET /cart", total), span(2, 1, 3, "call", total - 5)],
      hostile: [
        span(3, 2, 2, "<b>load</b>", total - 10, POD_ATTRIBUTES),
        span(4, 3, 3, "SELECT", total - 20, { "db.system.name": "postgresql", "db.namespace": "shop" }),
      ],
    };
  });
  const resourceSpans = (["web", "hostile"] as const).map((part) => ({
    resource: { attributes: attributes({ "service.name": part === "web" ? "web" : HOSTILE }) },
    scopeSpans: [{ spans: traces.flatMap((trace) => trace[part]) }],
  }));
  await send("/ingest/traces", key, JSON.stringify({ resourceSpans }));
}

async function sendRecords(key: string): Promise<void> {
  const record = (secondsAgo: number, severityText: string, body: string, pairs: Record<string, string> = {}) => ({
    timeUnixNano: ns(secondsAgo),
    severityText,
    body: text(body),
    attributes: attributes({ ...POD_ATTRIBUTES, ...pairs }),
  });
  const logs = (service: string, logRecords: object[]) => ({
    resource: { attributes: attributes({ "service.name": service }) },
    scopeLogs: [{ logRecords }],
  });
  const lines = Array.from({ length: 30 }, (_, at) => record(100 + at, "INFO", `GET /cart ${at} took ${at * 3} ms <i>`));
  const refused = record(50, "ERROR", 'payment "refused" (code 7) a|b');
  const event = record(40, "WARN", `Back-off restarting ${HOSTILE}`, { "k8s.event.reason": "BackOff" });
  await send(
    "/ingest/logs/otlp",
    key,
    JSON.stringify({ resourceLogs: [logs("cart", [...lines, refused]), logs("kubernetes-events", [event])] }),
  );
}

const podAddress = (): string =>
  `#/entity/${encodeURIComponent(POD)}?${new URLSearchParams({ kind: "pod", cluster: "north", namespace: "shop" }).toString()}`;

const seesService = async (page: Page): Promise<void> => await page.getByRole("link", { name: HOSTILE }).first().waitFor();
const SCREENS: readonly Screen[] = [
  ["overview", "#/overview", seesService],
  ["services", "#/services", seesService],
  ["logs", "#/logs", async (page) => await page.getByRole("row").filter({ hasText: "Back-off" }).first().click()],
  ["metrics", "#/metrics?q=k8s_pod_phase&builder=1", async (page) => await page.getByRole("rowheader", { name: /cart-7f9c/ }).waitFor()],
  ["map", "#/services?view=map", async (page) => await page.getByRole("link", { name: "Service web" }).waitFor()],
  ["service", "#/services/web", async (page) => await page.getByRole("figure", { name: "Calls" }).waitFor()],
  ["cluster", "#/entity/north?kind=cluster", async (page) => await page.getByRole("link", { name: "shop" }).first().waitFor()],
  ["node", "#/entity/n1?kind=node&cluster=north", async (page) => await page.getByText("3 restarts").waitFor()],
  [
    "namespace",
    "#/entity/shop?kind=namespace&cluster=north",
    async (page) => await page.getByRole("link", { name: "cart-7f9c" }).waitFor(),
  ],
  [
    "workload",
    "#/entity/cart?kind=workload&cluster=north&namespace=shop&workload=deployment",
    async (page) => await page.getByRole("link", { name: "cart-7f9c" }).waitFor(),
  ],
  ["pod", podAddress(), async (page) => await page.getByText("Back-off restarting").first().waitFor()],
  ["pods", "#/kubernetes?view=pod", async (page) => await page.getByRole("link", { name: /^cart-7f9c/ }).waitFor()],
  ["patterns", "#/logs?view=patterns", async (page) => await page.getByRole("button", { name: /^Only GET/ }).waitFor()],
  ["analysis", "#/traces?facets=1&heatmap=1", async (page) => await page.getByRole("button", { name: "Only service web" }).waitFor()],
  ["differences", "#/traces?differences=1", async (page) => await page.getByRole("button", { name: "Only cache.hit false" }).waitFor()],
  ["flame graph", `#/traces/${TRACE}?view=flame`, async (page) => await page.getByRole("columnheader", { name: "self time" }).waitFor()],
  ["dashboards", "#/dashboards", async (page) => await page.getByRole("link", { name: "Kubernetes pod" }).waitFor()],
  ["dashboard", "#/dashboards/shipped-node", async (page) => await page.locator("canvas").first().waitFor()],
  ["editor", "#/dashboards/new", async (page) => await page.getByRole("button", { name: "Add panel" }).waitFor()],
  ["tokens", "#/settings?part=credentials", async (page) => await page.getByRole("button", { name: "Create ingest token" }).waitFor()],
];

describe.each(LOOKS)("%s", (_name, options) => {
  test("every screen shows its data, passes the accessibility check, and fits the window", async () => {
    const page = await ui.open(options);
    const hostile: Screen = [
      "hostile service",
      `#/services/${encodeURIComponent(HOSTILE)}`,
      async () => await page.getByText(/exemplars?:/).click(),
    ];
    expect(await faultsOf(page, [...SCREENS, hostile])).toEqual([]);
  });
});

test("nothing moves while the pointer is over anything on any screen", async () => {
  const page = await ui.open();
  const moved: string[] = [];
  for (const [name, address, isThere] of SCREENS) {
    await openScreen(page, address);
    await isThere(page);
    const shifts = await shiftsOnHover(page);
    if (shifts.length > 0) moved.push(`${name}: ${shifts.join("; ")}`);
  }
  expect(moved).toEqual([]);
});

test("the map gets another size by a button and by Ctrl with the wheel, in the address too", async () => {
  const page = await ui.open();
  await openScreen(page, "#/services?view=map");
  const picture = page.getByRole("group", { name: "Map" }).locator("svg").first();
  const width = async (): Promise<number> => Math.round((await picture.boundingBox())?.width ?? 0);
  await picture.waitFor();
  const before = await width();
  await page.getByRole("button", { name: "200 %" }).click();
  await expect.poll(width).toBe(2 * before);
  expect(page.url()).toContain("size=200");
  await picture.hover();
  await page.keyboard.down("Control");
  await page.mouse.wheel(0, 100);
  await page.keyboard.up("Control");
  await expect.poll(width).toBe(1.5 * before);
});

test("the operations of a service have their difference to what it is compared with", async () => {
  const page = await ui.open();
  await openScreen(page, "#/services/web");
  const operations = page.getByRole("table", { name: "Operations" });
  await operations.waitFor();
  expect(await operations.getByRole("columnheader", { name: "Δ p95" }).count()).toBe(0);
  await page.getByLabel("Compare with").selectOption({ label: HOSTILE });
  await page.getByText(/^Called only in what it is compared with: .*<b>load<\/b>/).waitFor();
  expect(await operations.getByRole("row").nth(1).textContent()).toContain("new");
  await openScreen(page, "#/services/web?with=service+web");
  await operations.getByRole("columnheader", { name: "Δ p95" }).waitFor();
  expect(await operations.getByRole("row").nth(1).getByText("±0 %").count()).toBe(3);
});

test("the service map shows calls, and the keyboard opens a service and its neighbours", async () => {
  const page = await ui.open();
  await openScreen(page, "#/services");
  await page.getByRole("button", { name: "map" }).click();
  await page.getByRole("link", { name: "Service web" }).waitFor();
  const calls = page.getByRole("table", { name: "Calls between services" });
  expect(await calls.textContent()).toContain("postgresql:shop");
  await page.getByRole("link", { name: "Service web" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "web" }).waitFor();
  await calls.waitFor();
  expect(await calls.textContent()).not.toContain("postgresql:shop");
});

test("a log record links to its pod, and the pod to its namespace, cluster and node with the agent error", async () => {
  const page = await ui.open();
  await openScreen(page, "#/logs?q=refused");
  await page.getByRole("row").first().click();
  await page.getByRole("link", { name: /^Open pod/ }).click();
  await page.getByRole("heading", { name: /^pod/ }).waitFor();
  await page.getByText("Back-off restarting").first().waitFor();
  await page.locator("canvas").first().waitFor();
  await page.getByRole("link", { name: "north" }).click();
  await page.getByRole("link", { name: "shop" }).first().waitFor();
  await openScreen(page, "#/fleet");
  await page.getByRole("link", { name: "n1", exact: true }).click();
  await page.getByRole("region", { name: "Agent" }).getByText(HOSTILE).waitFor();
  await page.getByRole("region", { name: "Pods" }).getByRole("link").first().click();
  await page.getByRole("heading", { name: /^pod/ }).waitFor();
  expect(ui.complaints()).toEqual([]);
});

test("the command palette finds screens, services, pods and dashboards by keyboard alone", async () => {
  const page = await ui.open();
  const goTo = async (words: string, result: RegExp): Promise<void> => {
    await page.keyboard.press("Control+k");
    await page.getByRole("combobox", { name: "Search" }).fill(words);
    await page.getByRole("option", { name: result, selected: true }).waitFor();
    await page.keyboard.press("Enter");
    await page.getByRole("dialog").waitFor({ state: "detached" });
  };
  await goTo("tokens", /keys and tokens/);
  await page.getByRole("heading", { name: "Settings" }).waitFor();
  await goTo("pod cart-7f", /cart-7f9c/);
  await page.getByRole("heading", { name: /^pod/ }).waitFor();
  await goTo("service onerror", /onerror/);
  await page.getByRole("heading", { name: HOSTILE }).waitFor();
  await goTo("node n1", /^n1/);
  await page.getByRole("region", { name: "Agent" }).waitFor();
  await page.keyboard.press("Control+k");
  expect(await violations(page)).toEqual([]);
});

test("a saved view opens its address for all users, and a viewer can neither create nor remove one", async () => {
  const page = await ui.open();
  const name = `<u>errors</u> ${HOSTILE}`;
  await openScreen(page, "#/logs?q=level:error&from=6h");
  await page.getByRole("button", { name: "Views" }).click();
  await page.getByLabel("View name").fill(name);
  await page.getByRole("button", { name: "Create view" }).click();
  await page.getByRole("link", { name }).waitFor();
  expect(await violations(page)).toEqual([]);
  const viewed = await ui.openAs(VIEWER.email, VIEWER.password);
  await viewed.getByRole("button", { name: "Views" }).click();
  await viewed.getByRole("link", { name }).waitFor();
  expect(await viewed.getByRole("button", { name: /^(Save|Remove)/ }).count()).toBe(0);
  await viewed.getByRole("link", { name }).click();
  await viewed.getByRole("heading", { name: "Logs" }).waitFor();
  expect(await viewed.getByRole("combobox", { name: "Query" }).inputValue()).toBe("level:error");
  await page.getByRole("button", { name: /^Remove <u>/ }).click();
  await page.getByRole("dialog", { name: "Remove?" }).getByRole("button", { name: "Remove" }).click();
  await page.getByText("No saved views.").waitFor();
});

test("a click on a pattern shows only its records, and a click on its minus excludes them", async () => {
  const page = await ui.open();
  const count = async (): Promise<number> => await page.getByRole("row").count();
  await openScreen(page, "#/logs?q=source:cart&view=patterns");
  await page.getByRole("button", { name: /^Only GET/ }).click();
  await eventually("the thirty records of the pattern", async () => (await count()) >= 25);
  await openScreen(page, "#/logs?q=source:cart&view=patterns");
  await page.getByRole("button", { name: /^Without GET/ }).click();
  await eventually("the other one", async () => (await count()) === 1);
  expect(await page.getByRole("row").first().textContent()).toContain("refused");
  await openScreen(page, "#/logs?q=source:cart&view=patterns");
  await page.getByRole("button", { name: /^Only payment/ }).click();
  await eventually("signs of expressions are text", async () => (await count()) === 1);
});

test("differences of slow spans link to a search for the attribute", async () => {
  const page = await ui.open();
  await openScreen(page, "#/traces?differences=1");
  await page.getByLabel(/^Compare spans/).fill("500");
  await page.getByRole("button", { name: "Compare", exact: true }).click();
  await page.getByRole("button", { name: "Only cache.hit false" }).click();
  await eventually("the address has it", async () => page.url().includes("attributes=cache.hit%3Dfalse"));
  await page.getByRole("button", { name: "Differences" }).click();
  await eventually("the four slow traces", async () => (await page.getByRole("row").count()) === 4);
  await page.getByRole("button", { name: "Facets" }).click();
  await page.getByRole("button", { name: `Only service ${HOSTILE}` }).click();
  await eventually("the service is chosen", async () => (await page.getByRole("combobox", { name: "service" }).inputValue()) === HOSTILE);
  expect(ui.complaints()).toEqual([]);
});

test("a trace shows self time by operation, and its spans can be searched", async () => {
  const page = await ui.open();
  await openScreen(page, `#/traces/${TRACE}`);
  await page.getByLabel("Spans with this in their service, operation or attributes").fill("postgresql");
  await eventually("one span is left", async () => (await page.getByRole("row").count()) === 1);
  await page.getByRole("button", { name: "flame graph and self time" }).click();
  const first = page.getByRole("table", { name: "Self time by operation" }).getByRole("row").nth(1);
  expect(await first.textContent()).toContain("SELECT");
  await first.getByRole("button").click();
  await page.getByRole("complementary", { name: "Span" }).getByText("self time").waitFor();
});

const panelTitles = async (page: Page): Promise<string[]> => await page.locator(".panel figcaption").allTextContents();

test("a dashboard is created, changed, exported, imported and removed; an import from Grafana lists omitted parts", async () => {
  const page = await ui.open({}, /status of (401|409)/);
  await openScreen(page, "#/dashboards");
  await page.getByRole("link", { name: "Create dashboard" }).click();
  await page.getByLabel("Name", { exact: true }).fill(HOSTILE);
  await page.getByRole("button", { name: "Add panel" }).click();
  await page.getByRole("textbox", { name: "Title" }).fill("<b>memory</b>");
  await page.locator(".cm-content").fill("k8s_pod_memory_working_set_bytes");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("heading", { name: HOSTILE }).waitFor();
  await page.locator("canvas").waitFor();
  expect(await panelTitles(page)).toEqual(["<b>memory</b>"]);
  const downloading = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export JSON" }).click();
  const file = await (await downloading).path();
  await page.getByRole("button", { name: "Copy", exact: true }).click();
  await page.getByRole("heading", { name: "Edit dashboard" }).waitFor();
  await openScreen(page, "#/dashboards");
  await page.getByLabel("Import JSON").setInputFiles(file);
  await page.getByRole("alert").getByText("already has a dashboard").waitFor();
  const grafana = {
    title: "from Grafana",
    schemaVersion: 39,
    panels: [
      { type: "stat", title: "pods", targets: [{ expr: "count(k8s_pod_phase)" }], gridPos: { w: 6 } },
      { type: "geomap", title: "<i>world</i>" },
    ],
  };
  const buffer = Buffer.from(JSON.stringify(grafana));
  await page.getByLabel("Import JSON").setInputFiles({ name: "grafana.json", mimeType: "application/json", buffer });
  await page.getByText("panel <i>world</i>: its type geomap is not shown here").waitFor();
  await page.reload();
  await page.getByRole("link", { name: "from Grafana" }).click();
  await page.locator(".figure").getByText("1", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Remove" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
  await page.getByRole("heading", { name: "Dashboards", exact: true }).waitFor();
  await eventually("it is gone", async () => (await page.getByRole("link", { name: "from Grafana" }).count()) === 0);
});

test("an ingest token is created with the environment of a program, and revoked", async () => {
  const page = await ui.open();
  await openScreen(page, "#/settings?part=credentials");
  const tokens = page.getByRole("region", { name: /^Ingest tokens/ });
  await tokens.getByLabel("Name").fill("<b>ci</b>");
  await tokens.getByLabel("Signals").selectOption("logs");
  await tokens.getByRole("button", { name: "Create ingest token" }).click();
  await page.getByText("OTEL_EXPORTER_OTLP_HEADERS").waitFor();
  await tokens.getByRole("button", { name: "Remove <b>ci</b>" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
  await tokens.getByText("None.").waitFor();
  expect(ui.complaints()).toEqual([]);
});

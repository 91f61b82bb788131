// `npm run screenshots`: a picture of every screen of the console in docs/screenshots, from a real backend with the metrics of a real host
// agent, and an hour of a small shop on Kubernetes. `npm run screenshots -- FOLDER [LOOK …]` takes them for a review: at 1440, 1280 and 390 px,
// in light and dark, and also screens without data, while they load, after an error, and with hostile names. It changes nothing in docs. A
// LOOK is such as `390-dark` or `states`; without one, all are taken. They stay true by being taken again after a change of a screen.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import type { BrowserContextOptions, Page } from "playwright-core";
import { authority } from "../../agent/upstream/outgoing-proxy.fixture.ts";
import { adminPassword, backendPlace, login, startBackend } from "../fixtures/backend-process.ts";
import { logInBy, LOOKS, openBrowser, openPage, type Screen, settled } from "../fixtures/browser.ts";
import { hostileOrganisation } from "../fixtures/hostile-organisation.ts";
import { hostAgentPlace, startHostAgent } from "../fixtures/host-agent-process.ts";
import { call, eventually, ROOT, temporaryFolder } from "../fixtures/processes.ts";
import { CRASHING_POD, sendHeartbeats, sendShopVisits, startShopCluster } from "../fixtures/shop-cluster.ts";
import { DEPLOYED_AT, SHOWN, visit } from "../fixtures/shop-visits.ts";
import { WebhookReceiver } from "../fixtures/webhook-receiver.ts";

const HOUR_MS = 3_600_000;
const SHOPPERS = 400;
const WEEK_OF_VISITS = 4 * SHOPPERS;
const HEARTBEAT_MS = 20_000;

await using stack = new AsyncDisposableStack();
const folder = stack.use(temporaryFolder());
const trusted = authority(folder.path, "trusted");
const receiver = stack.use(await WebhookReceiver.start(trusted));
const place = await backendPlace(folder.path, {
  INGEST_TOKENS: "true",
  NOTIFY_ALLOWED_NETWORKS: "127.0.0.1",
  NOTIFY_CA_FILE: trusted.caFile,
  EVALUATION_INTERVAL: "5s",
});
const backend = await startBackend(place);
stack.defer(async () => void (await backend.end()));
const token = await login(place.apiUrl, "admin@localhost", adminPassword(place));

async function api<T = { id: string }>(method: "GET" | "POST", path: string, body?: object): Promise<T> {
  const answer = await call(method, `${place.apiUrl}${path}`, { bearer: token, ...(body && { body }) });
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
  return answer.json as T;
}

const installToken = async (): Promise<string> => (await api<{ token: string }>("POST", "/api/install-tokens", {})).token;
const agentPlace = await hostAgentPlace(folder.path, place.apiUrl, {
  INSTALL_TOKEN: await installToken(),
  METRICS_INTERVAL: "2s",
  HEARTBEAT_INTERVAL: "2s",
});
const agent = await startHostAgent(agentPlace);
stack.defer(async () => void (await agent.end()));
/** Of the service that is deployed in the last hour. */
const VERSION_BEFORE = "2.3.9";
const nowMs = Date.now();
/** Visits of the last hour: after a deployment of stock in its last third, one of eight fails. */
const visits = Array.from({ length: SHOPPERS }, (_, at) =>
  visit(at, nowMs - HOUR_MS * ((SHOPPERS - at) / (SHOPPERS + 4)) ** 1.3, at === SHOPPERS - 1, {
    isFailing: at === SHOPPERS - 1 || (at > DEPLOYED_AT && at % 8 === 0),
  }),
);
const cluster = await startShopCluster(place.apiUrl, await installToken(), visits.flat());
/** The hour before, and then a minute with 15 visits every two hours of a week; some failed three days ago. */
const earlier = Array.from({ length: WEEK_OF_VISITS }, (_, at) => {
  const group = Math.floor((at - SHOPPERS) / 15);
  const hoursAgo = at < SHOPPERS ? 1 + at / SHOPPERS : 3 + 2 * group;
  const isFailing = at % 97 === 0 || (Math.abs(hoursAgo - 76) < 4 && at % 3 === 0);
  return visit(1000 + at, nowMs - HOUR_MS * hoursAgo, false, { isFailing, version: VERSION_BEFORE });
});
const heartbeats = setInterval(() => void sendHeartbeats(cluster), HEARTBEAT_MS);
stack.defer(() => clearInterval(heartbeats));

await api("POST", "/api/users", { email: "oncall@shop.example", password: "only reading, thank you", role: "viewer" });
const invited = await api<{ token: string }>("POST", "/api/invitations", { email: "ana@shop.example", role: "admin" });
await api("POST", "/api/ingest-tokens", { name: "checkout-ci", signals: ["traces", "logs"], ttl: "90d" });
await api("POST", "/api/views", { name: "Errors of the shop", address: "#/logs?q=level:error" });
const channel = await api("POST", "/alerting/channels", { name: "on-call", kind: "webhook", settings: { url: receiver.url("hook") } });
await api("POST", "/alerting/routes", {
  matchers: [{ label: "severity", op: "=~", value: "critical|warning" }],
  channel_ids: [channel.id],
  group_wait: "0s",
});
const rule = await api("POST", "/alerting/rules", {
  name: "Container restarts",
  severity: "warning",
  expr: "max by (k8s_cluster_name, k8s_namespace_name, k8s_deployment_name) (k8s_container_restarts) > 3",
  annotations: { summary: "{{ $labels.k8s_deployment_name }} restarts again and again", runbook_url: "https://runbooks.example/restarts" },
});
await api("POST", "/alerting/rules", {
  name: "Node not ready",
  severity: "critical",
  expr: "k8s_node_condition_ready == 0",
  for: "5m",
});
const inCluster = { label: "k8s_cluster_name", op: "=~", value: ".+" };
await api("POST", "/alerting/inhibit-rules", {
  name: "Cluster is down",
  source_matchers: [{ label: "alertname", op: "=", value: "Cluster down" }],
  target_matchers: [inCluster, { label: "severity", op: "=~", value: "warning|info" }],
  equal: ["k8s_cluster_name"],
});
const nights = await api("POST", "/alerting/time-intervals", {
  name: "Nights and weekends",
  time_intervals: [
    {
      times: [
        { start_time: "00:00", end_time: "07:00" },
        { start_time: "22:00", end_time: "24:00" },
      ],
      location: "Europe/Berlin",
    },
    { weekdays: ["saturday", "sunday"], location: "Europe/Berlin" },
  ],
});
await api("POST", "/alerting/silences", {
  matchers: [{ name: "k8s_node_name", value: "worker-3", isRegex: false, isEqual: true }],
  endsAt: new Date(nowMs + HOUR_MS).toISOString(),
  comment: "Kernel update of worker-3",
});
const memory = { source: "metrics", unit: "bytes", width: 6, kind: "timeseries" };
const dashboard = await api("POST", "/api/dashboards", {
  name: "Shop",
  description: "What the shop's on-call engineer looks at first",
  variables: [],
  panels: [
    {
      title: "Memory by deployment",
      ...memory,
      queries: [{ query: "sum by (k8s_deployment_name) (k8s_pod_memory_working_set_bytes)", legend: "{{k8s_deployment_name}}" }],
    },
    { title: "Slow locks", ...memory, source: "logs", unit: "short", queries: [{ query: "source:stock level:warn", legend: "waits" }] },
  ],
});

const WAITING_MS = 240_000;
await eventually(
  "the service map has edges",
  async () => (await api<{ edges: object[] }>("GET", "/query/services/graph")).edges.length > 3,
  WAITING_MS,
);
// Not before, because the edges of a week take their time.
for (let from = 0; from < WEEK_OF_VISITS; from += SHOPPERS) await sendShopVisits(cluster, earlier.slice(from, from + SHOPPERS).flat());
const slo = await api("POST", "/alerting/slos", {
  name: "Stock answers without an error",
  objective: 97,
  window: "7d",
  indicator: { availability: { service: "stock" } },
});
const inTime = { service: "shop", operation: "GET /cart", below: "500ms" };
await api("POST", "/alerting/slos", { name: "Carts load within 500 ms", objective: 80, window: "7d", indicator: { latency: inTime } });
await api("POST", "/alerting/slos", { name: "Accounts", objective: 99.9, indicator: { availability: { service: "accounts" } } });
await eventually(
  "a notification was delivered",
  async () => (await api<object[]>("GET", "/alerting/deliveries?status=delivered")).length > 0,
  WAITING_MS,
);

const slos = async () => await api<{ burn_rate: number | null; budget_remaining: number | null }[]>("GET", "/query/slos");
await eventually(
  "burn rates of all objectives are recorded",
  async () => (await slos()).every(({ burn_rate: rate, budget_remaining: left }) => rate !== null && left !== null),
  WAITING_MS,
);
await eventually("usage was counted", async () => (await api<object[]>("GET", "/api/usage")).length === 3, WAITING_MS);

const EMPTY = { email: "empty@neighbour.example", password: "an organisation without data" };
await api("POST", "/api/orgs", { name: "Nothing yet", admin: EMPTY });

const SCREENS_OF_STATES = [
  ["overview", "#/overview"],
  ["changes", "#/changes"],
  ["services", "#/services"],
  ["service-map", "#/services?view=map"],
  ["kubernetes", "#/kubernetes"],
  ["logs", "#/logs"],
  ["patterns", "#/logs?view=patterns"],
  ["traces", "#/traces?facets=1&heatmap=1"],
  ["metrics", "#/metrics?q=up"],
  ["dashboards", "#/dashboards"],
  ["dashboard", "#/dashboards/shipped-node"],
  ["alert-rules", "#/alerts"],
  ["alerts-firing", "#/alerts?view=firing"],
  ["slos", "#/slos"],
  ["fleet", "#/fleet"],
  ["users", "#/settings?part=users"],
] as const;

const hasHeading = (name: string) => async (page: Page) => await page.getByRole("heading", { name }).first().waitFor();
const hasText = (text: string) => async (page: Page) => await page.getByText(text).first().waitFor();
const hasChart = async (page: Page): Promise<unknown> => await page.locator("canvas").first().waitFor();
const IN_CLUSTER = "cluster=shop-production";
const SCREENS: readonly Screen[] = [
  ["overview", "#/overview", hasText("CrashLoopBackOff")],
  ["kubernetes", "#/kubernetes", hasText("OOMKilled")],
  ["kubernetes-workloads", "#/kubernetes?view=workload", hasText("2 of 2 ready")],
  ["kubernetes-nodes", "#/kubernetes?view=node", hasText("worker-3")],
  ["pod", `#/entity/${CRASHING_POD}?kind=pod&${IN_CLUSTER}&namespace=shop`, hasText("Last lines before it ended")],
  ["logs", "#/logs", async (page) => await page.getByRole("row").filter({ hasText: "given up" }).first().click()],
  ["patterns", "#/logs?view=patterns", async (page) => await page.getByRole("button", { name: /^Only/ }).first().waitFor()],
  [
    "traces",
    "#/traces?facets=1&heatmap=1&sort=slowest",
    async (page) => await page.getByRole("button", { name: "Only service shop" }).waitFor(),
  ],
  ["differences", "#/traces?differences=1&slower=400", async (page) => await page.getByRole("button", { name: /^Only/ }).first().waitFor()],
  ["trace", `#/traces/${SHOWN}`, async (page) => await page.getByRole("row").filter({ hasText: "UPDATE stock" }).click()],
  ["flame-graph", `#/traces/${SHOWN}?view=flame`, async (page) => await page.getByRole("columnheader", { name: "self time" }).waitFor()],
  [
    "metrics",
    `#/metrics?q=${encodeURIComponent("sum by (k8s_node_name) (k8s_node_memory_working_set_bytes)")}`,
    async (page) => await page.getByRole("rowheader", { name: /worker-1/ }).waitFor(),
  ],
  ["services", "#/services", async (page) => await page.getByRole("link", { name: "stock", exact: true }).waitFor()],
  ["service-map", "#/services?view=map", async (page) => await page.getByRole("link", { name: "Service cart" }).waitFor()],
  ["service", "#/services/stock", hasHeading("Calls")],
  ["service-comparison", "#/services/stock?with=service+cart", hasText("against")],
  ["node", `#/entity/worker-2?kind=node&${IN_CLUSTER}`, hasChart],
  ["workload", `#/entity/stock?kind=workload&${IN_CLUSTER}&namespace=shop&workload=deployment`, hasChart],
  ["dashboards", "#/dashboards", async (page) => await page.getByRole("link", { name: "Kubernetes pod" }).waitFor()],
  ["dashboard", "#/dashboards/shipped-node", hasChart],
  [
    "dashboard-editor",
    `#/dashboards/${dashboard.id}?edit=1`,
    async (page) => await page.getByRole("button", { name: "Edit Memory by deployment" }).click(),
  ],
  ["changes", "#/changes", hasText("errors of stock")],
  ["slos", "#/slos", hasText("97 % in 7d")],
  ["slo", `#/slos/${slo.id}`, hasChart],
  ["fleet", "#/fleet", hasText("worker-3")],
  ["add", "#/add?kind=cluster", hasHeading("Connect")],
  ["alert-rules", `#/alerts?rule=${rule.id}`, hasText("Container restarts")],
  ["alerts-firing", "#/alerts?view=firing", async (page) => await page.getByRole("link", { name: "Silence Container restarts" }).waitFor()],
  ["alert", `#/alerts/${rule.id}?label=k8s_deployment_name%3Dcart`, hasChart],
  ["silences", "#/alerts?view=silences", hasText("Kernel update")],
  ["routes", "#/alerts?view=routes", hasText("by route 1")],
  ["inhibition", "#/alerts?view=inhibition", hasText("Cluster is down")],
  ["intervals", `#/alerts?view=intervals&time_interval=${nights.id}`, hasText("22:00-24:00")],
  ["channels", "#/alerts?view=channels", hasText("on-call")],
  ["deliveries", "#/alerts?view=deliveries", hasText("Container restarts")],
  ["users", "#/settings?part=users", hasText("oncall@shop.example")],
  ["keys-and-tokens", "#/settings?part=credentials", hasText("checkout-ci")],
  ["usage", "#/settings?part=usage", hasHeading("Settings")],
  ["usage-of-all", "#/settings?part=usage-of-all", hasText("of bytes limit")],
  ["audit", "#/settings?part=audit", hasText("user.create")],
  ["components", "#/parts", hasHeading("Components")],
  // The last one, because a login follows it.
  ["invitation", `#/invitation/${invited.token}`, hasText("You are invited")],
];

const [review, ...chosenLooks] = process.argv.slice(2);
const isWanted = (look: string): boolean => chosenLooks.length === 0 || chosenLooks.includes(look);
const browser = await openBrowser();
stack.defer(async () => await browser.close());

interface Shots {
  readonly target: string;
  readonly options: BrowserContextOptions;
  readonly screens: readonly Screen[];
  readonly email?: string;
  readonly password?: string;
  /** Called after the login. */
  readonly prepare?: ((page: Page) => Promise<unknown>) | undefined;
  /** The screens stay as they are while they load. */
  readonly isUnanswered?: boolean;
  /** Messages that the browser may log. */
  readonly expected?: RegExp;
}

async function take(shots: Shots): Promise<void> {
  const { target, options, screens, email = "admin@localhost", password = adminPassword(place) } = shots;
  const { prepare, isUnanswered = false, expected = /401/ } = shots;
  mkdirSync(target, { recursive: true });
  await using opened = await openPage(browser, place.apiUrl, options, expected);
  const { page, complaints } = opened;
  await logInBy(page, email, password);
  await prepare?.(page);
  // Another fragment alone would not load the page again.
  if (prepare) await page.goto("about:blank");
  for (const [name, address, isThere] of screens) {
    await page.goto(`/${address}`);
    await isThere(page).catch((error: Error) => complaints.push(`${name}: ${error.message}`));
    // No row is drawn as one that the pointer is on.
    await page.mouse.move(0, 0);
    if (!isUnanswered) await settled(page);
    // Charts and sparklines are drawn after their data arrived.
    await sleep(500);
    const path = join(target, `${name}.png`);
    await page.screenshot({ path });
    console.log(path);
  }
  for (const complaint of complaints) console.error(`${target}: ${complaint}`);
  if (complaints.length > 0) process.exitCode = 1;
}

if (review === undefined) {
  const [[, options] = ["", {}]] = LOOKS;
  await take({ target: join(ROOT, "docs", "screenshots"), options, screens: SCREENS });
} else {
  for (const [width, height] of [
    [1440, 900],
    [1280, 800],
    [390, 800],
  ] as const)
    for (const colorScheme of ["light", "dark"] as const) {
      const look = `${width}-${colorScheme}`;
      if (isWanted(look))
        await take({ target: join(review, look), options: { colorScheme, viewport: { width, height } }, screens: SCREENS });
    }
  if (isWanted("states")) await takeStates(review);
}

/** Screens in the states that a full one does not show. */
async function takeStates(folder: string): Promise<void> {
  const options = { colorScheme: "light", viewport: { width: 1280, height: 800 } } as const;
  const screens = SCREENS_OF_STATES.map(([name, address]): Screen => [name, address, async () => undefined]);
  const DATA = /\/(query|alerting|api\/(?!auth))/;
  await take({ target: join(folder, "empty"), options, screens, ...EMPTY });
  await take({ target: join(folder, "hostile"), options, screens, ...(await hostileOrganisation(place, token)) });
  await take({
    target: join(folder, "loading"),
    options,
    screens,
    isUnanswered: true,
    prepare: async (page) => await page.route(DATA, () => undefined),
  });
  await take({
    target: join(folder, "error"),
    options,
    screens,
    prepare: async (page) => await page.route(DATA, async (route) => await route.abort()),
    expected: /401|ERR_FAILED/,
  });
}

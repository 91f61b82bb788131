// The console in a real Chromium, with a real backend, its engines and a real agent's telemetry: every screen by mouse and by keyboard
// alone, in light and dark, when the session ends and when the backend becomes unavailable. (Viewers: roles.test.ts.) A page
// fails its test if it logs, violates its content security policy or requests another origin (fixtures/browser.ts). It is one file, because
// all tests need one backend and agent.
import { appendFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { adminPassword } from "../fixtures/backend-process.ts";
import { faultsOf, LOOKS, openScreen, violations, type Screen } from "../fixtures/browser.ts";
import { consoleOfFile } from "../fixtures/console-of-file.ts";
import { hostAgentPlace, startHostAgent, type AgentPlace } from "../fixtures/host-agent-process.ts";
import { call, eventually, type TestProcess } from "../fixtures/processes.ts";

const VIEWER = { email: "viewer@localhost", password: "only reading, thank you" };
/** Markup, an escape sequence, a direction that would turn round what follows, and a line of a megabyte. */
const HOSTILE = `<img src=x onerror=alert(1)><script>alert(2)</script> \u001b[31m \u202e gnp.exe ${"long ".repeat(200_000)}`;
const TRACE_ID = "4bf92f3577b34da6a3ce929d0e0e4736";

const backend = backendOfFile({ EVALUATION_INTERVAL: "2s" });
const ui = consoleOfFile(backend);
let agent: TestProcess;
let place: AgentPlace;
let token: string;

async function otlp(path: string, body: object): Promise<void> {
  expect((await call("POST", `${place.otlpHttp}${path}`, { body })).status).toBe(200);
}

const text = (stringValue: string) => ({ stringValue });

/** A trace of three spans, one of them an error with a hostile name, and a log record of it. */
async function sendTrace(): Promise<void> {
  const ns = (ms: number): string => `${Date.now() - 60_000 + ms}000000`;
  const span = (spanId: string, parentSpanId: string, name: string, from: number, to: number, more: object = {}) => ({
    traceId: TRACE_ID,
    spanId,
    parentSpanId,
    name,
    kind: 2,
    startTimeUnixNano: ns(from),
    endTimeUnixNano: ns(to),
    ...more,
  });
  const resource = (name: string) => ({ attributes: [{ key: "service.name", value: text(name) }] });
  const failed = { status: { code: 2, message: "deadlock" }, attributes: [{ key: "db.statement", value: text("SELECT 1") }] };
  const spans = [span("a000000000000001", "", "GET /cart", 0, 480), span("a000000000000002", "a000000000000001", "load", 10, 400)];
  const database = [span("a000000000000003", "a000000000000002", "<b>SELECT</b>", 20, 300, failed)];
  await otlp("/v1/traces", {
    resourceSpans: [
      { resource: resource("shop"), scopeSpans: [{ spans }] },
      { resource: resource("database"), scopeSpans: [{ spans: database }] },
    ],
  });
  const record = { timeUnixNano: ns(290), severityText: "ERROR", severityNumber: 17, traceId: TRACE_ID, spanId: "a000000000000003" };
  await otlp("/v1/logs", {
    resourceLogs: [{ resource: resource("database"), scopeLogs: [{ logRecords: [{ ...record, body: text("deadlock of two carts") }] }] }],
  });
}

beforeAll(async () => {
  token = await backend.operator();
  place = await hostAgentPlace(join(backend.dataDir, "..", "host"), backend.apiUrl, {
    INSTALL_TOKEN: await backend.installToken(token),
    METRICS_INTERVAL: "2s",
    HEARTBEAT_INTERVAL: "2s",
  });
  agent = await startHostAgent(place);
  const lines = Array.from({ length: 200 }, (_, at) => `line ${at} of the application`);
  appendFileSync(join(place.logFolder, "app.log"), `${lines.join("\n")}\n`);
  await otlp("/v1/logs", {
    resourceLogs: [
      {
        scopeLogs: [
          {
            logRecords: [
              {
                timeUnixNano: `${Date.now()}000000`,
                severityText: "WARN",
                body: text(HOSTILE),
                attributes: [{ key: "<i>key</i>", value: text("<b>value</b>") }],
              },
            ],
          },
        ],
      },
    ],
  });
  await sendTrace();
  const rule = { name: "<u>memory</u> is used", expr: 'system_memory_usage_bytes{state="used"} > 1', severity: "warning", for: "0s" };
  expect((await call("POST", `${backend.apiUrl}/alerting/rules`, { bearer: token, body: rule })).status).toBe(201);
  expect((await call("POST", `${backend.apiUrl}/api/users`, { bearer: token, body: { ...VIEWER, role: "viewer" } })).status).toBe(201);
  const asked = async (path: string) => (await call("GET", `${backend.apiUrl}${path}`, { bearer: token })).json;
  await backend.shows("logs, a trace and metrics are there", async () => {
    const [logs, carts, trace] = [
      await asked("/query/logs?limit=500"),
      await asked("/query/logs?q=deadlock"),
      await asked(`/query/traces/${TRACE_ID}`),
    ];
    const memory = await asked("/query/prometheus/api/v1/query?query=system_memory_usage_bytes");
    return logs.length > 200 && carts.length === 1 && trace.length === 3 && memory.data.result.length > 0;
  });
});

afterAll(async () => await agent?.end());

const password = (): string => adminPassword(backend.place);

const SCREENS: readonly Screen[] = [
  ["overview", "#/overview", async (page) => await page.getByText("Healthy:").waitFor()],
  ["services", "#/services", async (page) => await page.getByRole("link", { name: "shop", exact: true }).waitFor()],
  ["service", "#/services/shop", async (page) => await page.getByRole("link", { name: "GET /cart" }).waitFor()],
  ["fleet", "#/fleet", async (page) => await page.getByRole("img", { name: "online" }).waitFor()],
  ["add", "#/add", async (page) => await page.getByLabel("Name of the cluster").waitFor()],
  ["logs", "#/logs", async (page) => await page.getByRole("row").first().click()],
  ["traces", "#/traces", async (page) => await page.getByRole("link", { name: "shop GET /cart" }).waitFor()],
  [
    "trace",
    `#/traces/${TRACE_ID}?span=a000000000000003`,
    async (page) => await page.getByRole("complementary").getByText("deadlock").waitFor(),
  ],
  [
    "metrics",
    "#/metrics?q=system_memory_usage_bytes&from=5m",
    async (page) => await page.getByRole("rowheader", { name: "used" }).waitFor(),
  ],
  [
    "cardinality",
    "#/metrics?view=cardinality",
    async (page) => await page.getByRole("link", { name: "system_memory_usage_bytes" }).waitFor(),
  ],
  ["alerts", "#/alerts", async (page) => await page.locator("#main").getByText("firing", { exact: true }).waitFor({ timeout: 150_000 })],
  ["rule", "#/alerts?rule=new", async (page) => await page.getByRole("button", { name: "Create", exact: true }).waitFor()],
  ["users", "#/settings", async (page) => await page.getByRole("cell", { name: VIEWER.email, exact: true }).waitFor()],
  ["issuers", "#/settings?part=issuers", async (page) => await page.getByRole("button", { name: "Trust issuer" }).waitFor()],
  ["credentials", "#/settings?part=credentials", async (page) => await page.getByRole("columnheader", { name: "used" }).waitFor()],
  ["usage", "#/settings?part=usage", async (page) => await page.getByRole("heading", { name: "Usage by day" }).waitFor()],
  ["audit", "#/settings?part=audit", async (page) => await page.getByRole("cell", { name: VIEWER.email }).first().waitFor()],
  ["organisations", "#/settings?part=organisations", async (page) => await page.getByRole("columnheader", { name: "id" }).waitFor()],
];

describe.each(LOOKS)("%s", (_name, options) => {
  test("every screen shows its data, passes the accessibility check, and fits the window", async () => {
    const page = await ui.open(options);
    expect(await faultsOf(page, SCREENS)).toEqual([]);
  });
});

test("text from senders is never markup or a script, does not change the text direction, and a message of a megabyte stays on one line", async () => {
  const page = await ui.open();
  await openScreen(page, "#/logs?q=onerror");
  const row = page.getByRole("row").first();
  await row.waitFor();
  expect(await row.textContent()).toContain("<img src=x onerror=alert(1)><script>alert(2)</script> \\x1b[31m \\u202e gnp.exe");
  expect((await row.boundingBox())?.height).toBeLessThan(40);
  await row.click();
  await page.getByRole("complementary", { name: "Record" }).getByText("<i>key</i>").waitFor();
  await openScreen(page, `#/traces/${TRACE_ID}`);
  await page.getByText("<b>SELECT</b>").waitFor();
  await openScreen(page, "#/alerts");
  await page.getByRole("link", { name: "<u>memory</u> is used" }).waitFor();
  expect(await page.locator("img[src=x], main b:not(.fold), main u, main i").count()).toBe(0);
});

test("a letter that is typed as soon as the query line appears is kept", async () => {
  const page = await ui.open();
  // Before the browser has painted the field: a quick user, on a slow machine.
  await page.evaluate(`new MutationObserver((_, observer) => {
    const field = document.querySelector("[role=combobox]");
    if (!field) return;
    observer.disconnect();
    field.focus();
    document.execCommand("insertText", false, "d");
  }).observe(document.body, { childList: true, subtree: true })`);
  await page.goto("/#/logs");
  const field = page.getByRole("combobox", { name: "Query" });
  await field.and(page.locator(":focus")).waitFor();
  await page.keyboard.type("eadlock");
  await page.keyboard.press("Enter");
  await eventually("only that record is left", async () => (await page.getByRole("row").count()) === 1);
  expect(await field.inputValue()).toBe("deadlock");
});

test("with the keyboard alone, a user gets from a log record to its trace and the failed span", async () => {
  const page = await ui.open();
  await page.keyboard.press("g");
  await page.keyboard.press("l");
  await page.getByRole("heading", { name: "Logs" }).waitFor();
  await page.keyboard.press("/");
  await page.keyboard.type("deadlock");
  await page.keyboard.press("Enter");
  await page.getByRole("row").first().waitFor();
  await eventually("only that record is left", async () => (await page.getByRole("row").count()) === 1);
  await page.keyboard.press("Escape");
  await page.getByRole("combobox", { name: "Query" }).blur();
  await page.keyboard.press("j");
  const link = page.getByRole("link", { name: "View trace" });
  await link.waitFor();
  for (let tabs = 0; tabs < 40 && (await page.evaluate("document.activeElement.textContent")) !== "View trace"; tabs++)
    await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.getByRole("complementary", { name: "Span" }).getByText("SELECT 1").waitFor();
  await page.keyboard.press("k");
  await page.getByRole("complementary", { name: "Span" }).getByRole("heading", { name: "load" }).waitFor();
  await page.goBack();
  await page.getByRole("row").first().waitFor();
  expect(page.url()).toContain("q=deadlock");
});

test("a key that is pressed as soon as a span appears moves on from that span", async () => {
  const page = await ui.open();
  // Before the browser has painted the span: a quick user, on a slow machine.
  await page.evaluate(`new MutationObserver((_, observer) => {
    if (!document.querySelector("[role=row][aria-selected=true]")) return;
    observer.disconnect();
    document.body.dispatchEvent(new KeyboardEvent("keydown", { key: "k", bubbles: true }));
  }).observe(document.body, { childList: true, subtree: true })`);
  await page.goto(`/#/traces/${TRACE_ID}?span=a000000000000003`);
  await page.getByRole("complementary", { name: "Span" }).getByRole("heading", { name: "load" }).waitFor();
  expect(page.url()).toContain("span=a000000000000002");
});

test("without a query, an empty result does not blame the query", async () => {
  const page = await ui.open();
  await openScreen(page, "#/logs?from=2020-01-01T00:00:00Z&to=2020-01-01T01:00:00Z");
  await page.getByText("No records. Choose a longer time range, or check your agents in Fleet.").waitFor();
  await page.getByRole("main").getByRole("link", { name: "Fleet" }).click();
  await page.getByText("0 clusters, 1 host", { exact: true }).waitFor();
  expect(ui.complaints()).toEqual([]);
});

test("a field of a record filters or excludes its value, and the address contains the filter", async () => {
  const page = await ui.open();
  await openScreen(page, "#/logs?q=application");
  await page.getByRole("row").first().click();
  await page.getByRole("button", { name: "Without log.file.name app.log" }).click();
  await page.getByText("No records match.").waitFor();
  expect(new URLSearchParams(new URL(page.url()).hash.split("?")[1]).get("q")).toContain("-log.file.name:app.log");
  await page.goBack();
  await page.getByRole("row").first().waitFor();
});

test("neighbours of a record are from its stream; more are loaded on demand", async () => {
  const page = await ui.open();
  await openScreen(page, `#/logs?q=${encodeURIComponent('"line 100 of"')}`);
  await page.getByRole("row").first().click();
  await page.getByRole("button", { name: "Before and after" }).click();
  const context = page.getByRole("region", { name: "Before and after" });
  const shows = async (from: number, to: number): Promise<void> => {
    const expected = Array.from({ length: to - from + 1 }, (_, at) => `line ${from + at} of the application`);
    await eventually(`lines ${from} to ${to}`, async () => (await context.locator("bdi").count()) === expected.length);
    expect(await context.locator("bdi").allTextContents()).toEqual(expected);
  };
  await shows(95, 105);
  await context.getByRole("button", { name: "More before" }).click();
  await shows(80, 105);
  await context.getByRole("button", { name: "More after" }).click();
  await shows(80, 120);
  await context.getByRole("combobox", { name: "Stream or host" }).selectOption("same host");
  await context.getByText("line 99 of the application").waitFor();
  expect(await violations(page)).toEqual([]);
});

test("a live tail shows new records, stops when paused, and resumes", async () => {
  const page = await ui.open();
  await openScreen(page, "#/logs?q=live&live=1");
  const write = async (words: string): Promise<void> => {
    await otlp("/v1/logs", {
      resourceLogs: [{ scopeLogs: [{ logRecords: [{ timeUnixNano: `${Date.now()}000000`, body: text(words) }] }] }],
    });
  };
  await eventually("the tail has begun and shows a record", async () => {
    await write("live one");
    return (await page.getByRole("row").count()) > 0;
  });
  await page.getByRole("button", { name: "Pause" }).click();
  const shown = await page.getByRole("row").count();
  await write("live two");
  await page.getByText(/paused, [1-9]/).waitFor();
  expect(await page.getByRole("row").count()).toBe(shown);
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("row").filter({ hasText: "live two" }).click();
  await write("live three");
  await page.getByRole("row").filter({ hasText: "live three" }).waitFor();
  await page.getByRole("complementary", { name: "Record" }).getByText("live two").waitFor();
  expect(await page.getByRole("row", { selected: true }).textContent()).toContain("live two");
});

test("if the session expires during work, the console asks for the password and keeps the typed input", async () => {
  const page = await ui.open();
  await openScreen(page, "#/alerts?rule=new");
  await page.getByLabel("Name", { exact: true }).fill("typed before the end");
  await page.locator(".cm-content").fill("up == 0");
  await page.getByText("Valid.").waitFor();
  await page.context().clearCookies();
  // Works also if a request of the page itself noticed it first, so that the dialog is already open.
  await page.getByRole("button", { name: "Create", exact: true, includeHidden: true }).dispatchEvent("click");
  const dialog = page.getByRole("dialog", { name: "Your session has expired" });
  await dialog.getByLabel("Password").fill("wrong");
  await dialog.getByRole("button", { name: "Log in", exact: true }).click();
  await dialog.getByRole("alert").waitFor();
  await dialog.getByLabel("Password").fill(password());
  await dialog.getByRole("button", { name: "Log in", exact: true }).click();
  await page.getByRole("link", { name: "typed before the end" }).waitFor();
  expect(await page.getByLabel("Name", { exact: true }).inputValue()).toBe("typed before the end");
});

test("the group-by fields of a log rule can be changed in its form, and invalid fields are reported", async () => {
  const logs = { filter: { level: "error" }, window: "5m", by: ["source"], operator: ">", threshold: 1_000_000 };
  const body = { name: "errors of each", severity: "info", logs };
  const made = await call("POST", `${backend.apiUrl}/alerting/rules`, { bearer: token, body });
  expect(made.status).toBe(201);
  const page = await ui.open({}, /status of 40[01]/);
  await openScreen(page, `#/alerts?rule=${made.json.id}`);
  const field = page.getByLabel(/^Group by, one field/);
  expect(await field.inputValue()).toBe("source");
  await field.fill("message");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("logs.by: must be one of source").waitFor();
  await field.fill("node\nlabel.k8s.pod.name\n");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("by (node, label.k8s.pod.name) > 1000000").first().waitFor();
  const rules = (await call("GET", `${backend.apiUrl}/alerting/rules`, { bearer: token })).json as { name: string; logs?: object }[];
  expect(rules.find(({ name }) => name === body.name)?.logs).toEqual({ ...logs, by: ["node", "label.k8s.pod.name"] });
});

test("the page for a new cluster shows commands with the URL filled in", async () => {
  const page = await ui.open();
  await openScreen(page, "#/add");
  await page.getByLabel("Name of the cluster").fill("north");
  await page.getByLabel(/URL of this backend/).fill("https://telemetry.example.com/");
  await page.getByRole("button", { name: "Create token" }).click();
  await page.getByText("clusterName=north").waitFor();
  const commands = (await page.locator("pre").allTextContents()).join("\n");
  expect(commands).toMatch(/--from-literal=token=\S{20,}/);
  expect(commands).toContain("--set backendUrl=https://telemetry.example.com --set clusterName=north");
  const installToken = /token=(\S+)/.exec(commands)?.[1] ?? "";
  const uid = "11111111-2222-4333-8444-555555555555";
  const registered = await call("POST", `${backend.apiUrl}/api/clusters/register`, {
    bearer: installToken,
    headers: { "idempotency-key": uid },
    body: { cluster_name: "north", cluster_uid: uid, agent_version: "0.1.0" },
  });
  expect(registered.status).toBe(201);
  await page.getByText("Waiting for the first heartbeat …").waitFor();
});

test("if the backend stops, the console says so, keeps its data, and continues when the backend is back", async () => {
  const page = await ui.open({}, /status of|ERR_CONNECTION_REFUSED|Failed to load/);
  await openScreen(page, "#/fleet");
  await page.getByText(/1 host\b/).waitFor();
  await backend.end("SIGTERM");
  await page.getByText(/The backend is unreachable/).waitFor({ timeout: 120_000 });
  await page.getByText(/1 host\b/).waitFor();
  await backend.start();
  await page.getByText(/The backend is unreachable/).waitFor({ state: "detached", timeout: 120_000 });
  await openScreen(page, "#/logs");
  await page.getByRole("row").first().waitFor();
  expect(ui.complaints()).toEqual([]);
});

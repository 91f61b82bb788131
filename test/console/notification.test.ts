// Alert notifications in a real Chromium, with a real backend, evaluator and receiver: channels, routes, silences, firing alerts and
// deliveries, by keyboard alone, in light and dark and on a phone. A rule that always fires provides the telemetry, so no agent is needed.
// (Viewers: roles.test.ts.)
import { once } from "node:events";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import type { Page } from "playwright-core";
import { Webhook } from "standardwebhooks";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { authority } from "../../agent/upstream/outgoing-proxy.fixture.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { adminPassword } from "../fixtures/backend-process.ts";
import { faultsOf, LOOKS, openScreen, violations, type Screen } from "../fixtures/browser.ts";
import { consoleOfFile } from "../fixtures/console-of-file.ts";
import { call, eventually, temporaryFolder } from "../fixtures/processes.ts";

const REFUSED = /status of 4\d\d/;
/** Markup, a quote, a backslash and a direction that would turn round what follows. */
const HOSTILE = '<u>disk</u> "C:\\" \u202e is full';
const HOSTILE_SHOWN = '<u>disk</u> "C:\\" \\u202e is full';

const folder = temporaryFolder();
const trusted = authority(folder.path, "trusted");
const backend = backendOfFile({ NOTIFY_ALLOWED_NETWORKS: "127.0.0.1", NOTIFY_CA_FILE: trusted.caFile, EVALUATION_INTERVAL: "2s" });
const ui = consoleOfFile(backend, { expected: REFUSED });
const seen: { headers: Record<string, string>; body: string }[] = [];
let answer = 200;
const receiver = createServer({ key: trusted.key, cert: trusted.cert }, (request, response) => {
  let body = "";
  request.on("data", (part: Buffer) => (body += part.toString()));
  request.on("end", () => {
    seen.push({ headers: request.headers as Record<string, string>, body });
    // Other notifications are delivered at the same time.
    response.writeHead(body.includes("shop-bot") ? answer : 200).end();
  });
});
let token: string;
let url: string;

async function api<T>(method: "GET" | "POST" | "DELETE", path: string, body?: object): Promise<T> {
  const answered = await call(method, `${backend.apiUrl}/alerting${path}`, { bearer: token, ...(body && { body }) });
  expect([path, answered.status < 300, answered.text.slice(0, 200)]).toEqual([path, true, expect.anything()]);
  return answered.json as T;
}

beforeAll(async () => {
  receiver.listen(0, "127.0.0.1");
  await once(receiver, "listening");
  url = `https://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`;
  token = await backend.operator();
  for (const [name, severity, more] of [
    ["always", "critical", { labels: { team: "shop" } }],
    [HOSTILE, "warning", { annotations: { summary: "<script>alert(1)</script>" } }],
    ["soon", "info", { for: "1h" }],
  ] as const)
    await api("POST", "/rules", { name, severity, expr: "vector(1) > 0", ...more });
  const { id } = await api<{ id: string }>("POST", "/channels", { name: "<i>bot</i>", kind: "webhook", settings: { url } });
  const times = { group_wait: "0s", group_interval: "5s" };
  await api("POST", "/routes", { matchers: [{ label: "severity", op: "=~", value: "critical|warning" }], channel_ids: [id], ...times });
  const matchers = [{ label: "alertname", op: "=", value: "<i>down</i>" }];
  await api("POST", "/inhibit-rules", { name: "<i>down</i>", source_matchers: matchers, target_matchers: matchers });
  const office = [{ times: [{ start_time: "09:00", end_time: "17:00" }], weekdays: ["monday:friday"] }];
  await api("POST", "/time-intervals", { name: "office", time_intervals: office });
  await api("POST", "/silences", {
    matchers: [{ name: "alertname", value: "planned", isRegex: false, isEqual: true }],
    endsAt: new Date(Date.now() + 3_600_000).toISOString(),
    comment: "<b>planned</b> work",
  });
  await backend.shows(
    "both were delivered",
    async () => {
      const all = await api<{ status: string; rule_ids: string[] }[]>("GET", "/deliveries?status=delivered");
      return new Set(all.flatMap(({ rule_ids: ids }) => ids)).size === 2;
    },
    150_000,
  );
});

afterAll(async () => {
  receiver.closeAllConnections();
  await new Promise((done) => receiver.close(done));
  folder[Symbol.dispose]();
});

const view = (name: string, more = ""): string => `#/alerts?view=${name}${more}`;

/** Presses Tab until this has the keys. */
async function tabTo(page: Page, name: string | RegExp, role: "button" | "link" | "textbox" = "button"): Promise<void> {
  const shown = page.getByRole(role, { name, exact: true });
  await shown.first().waitFor();
  const wanted = shown.and(page.locator(":focus"));
  for (let tabs = 0; tabs < 60 && (await wanted.count()) === 0; tabs++) await page.keyboard.press("Tab");
  expect(await wanted.count()).toBe(1);
}

const SCREENS: readonly Screen[] = [
  ["firing", view("firing"), async (page) => await page.getByRole("link", { name: "Silence always" }).waitFor()],
  ["silences", view("silences"), async (page) => await page.getByText("<b>planned</b> work").waitFor()],
  ["silence", view("silences", "&silence=new"), async (page) => await page.getByText("Matches 2 firing alerts").waitFor()],
  ["routes", view("routes"), async (page) => await page.getByText("unmatched alerts").waitFor()],
  ["route", view("routes", "&route=new"), async (page) => await page.getByText("Matches 2 firing alerts").waitFor()],
  ["inhibition", view("inhibition"), async (page) => await page.getByRole("link", { name: "<i>down</i>" }).waitFor()],
  ["inhibition rule", view("inhibition", "&inhibition_rule=new"), async (page) => await page.getByLabel(/^do not send/).waitFor()],
  ["intervals", view("intervals"), async (page) => await page.getByText("09:00-17:00 monday:friday").waitFor()],
  ["interval", view("intervals", "&time_interval=new"), async (page) => await page.getByLabel("Weekdays").waitFor()],
  ["channels", view("channels"), async (page) => await page.getByText("delivered", { exact: true }).waitFor()],
  ["channel", view("channels", "&channel=new"), async (page) => await page.getByLabel("URL, https://…").waitFor()],
  ["mail", view("channels", "&channel=new&kind=email"), async (page) => await page.getByLabel("Text (empty: default)").waitFor()],
  ["deliveries", view("deliveries"), async (page) => await page.getByRole("link", { name: HOSTILE_SHOWN }).first().waitFor()],
  ["cardinality", "#/metrics?view=cardinality", async (page) => await page.getByText(/active series is not limited/).waitFor()],
];

describe.each(LOOKS)("%s", (_name, options) => {
  test("every view of alerts shows its data, passes the accessibility check, and fits the window", async () => {
    const page = await ui.open(options);
    expect(await faultsOf(page, SCREENS)).toEqual([]);
    expect(await page.locator("main u, main i, main b, main script").count()).toBe(0);
  });
});

test("with the keyboard alone, a user creates a webhook, sees its secret once, and sends a signed test message", async () => {
  const page = await ui.open();
  await page.keyboard.press("g");
  await page.keyboard.press("a");
  await tabTo(page, "Channels");
  await page.keyboard.press("Enter");
  await tabTo(page, "Create channel", "link");
  await page.keyboard.press("Enter");
  await page.getByLabel("Name", { exact: true }).and(page.locator(":focus")).waitFor();
  await page.keyboard.type("shop-bot");
  await page.keyboard.press("Tab");
  await page.keyboard.type(url);
  await page.keyboard.press("Enter");
  const side = page.getByRole("complementary", { name: "Channel", exact: true });
  const secret = (await side.locator("pre").textContent()) ?? "";
  expect(secret).toMatch(/^whsec_/);
  await tabTo(page, "Send test");
  await page.keyboard.press("Enter");
  await side.getByText("Delivered: the receiver answered 200.").waitFor();
  const { headers, body } = seen.findLast((one) => one.body.includes("shop-bot")) ?? { headers: {}, body: "" };
  expect(new Webhook(secret).verify(body, headers)).toMatchObject({ atherops: { purpose: "test" } });
  answer = 418;
  await page.keyboard.press("Enter");
  await side.getByText(/^Not delivered: .*418/).waitFor();
  answer = 200;
  await page.reload();
  await side.getByRole("heading", { name: "shop-bot" }).waitFor();
  expect(await page.locator("pre").count()).toBe(0);
  await tabTo(page, "Close", "link");
  await page.keyboard.press("Enter");
  await side.waitFor({ state: "detached" });
  // The focus moves into the panel, and returns to the same element.
  await tabTo(page, "shop-bot", "link");
  await page.keyboard.press("Enter");
  await side.and(page.locator(":focus")).waitFor();
  await tabTo(page, "Close", "link");
  await page.keyboard.press("Enter");
  await page.getByRole("link", { name: "shop-bot" }).and(page.locator(":focus")).waitFor();
});

test("custom texts of a channel are saved, rejected if they contain unknown fields, and kept when other settings change", async () => {
  const page = await ui.open();
  await openScreen(page, view("channels", "&channel=new&kind=pagerduty"));
  await page.getByLabel("Name", { exact: true }).fill("pager");
  await page.getByLabel(/^Key of/).fill("k".repeat(32));
  await page.getByLabel(/^Title/).fill("{{ team }} is down");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByRole("alert").getByText("unknown placeholder {{ team }}").waitFor();
  const settings = { region: "us", title: "{{ labels.team }} is down", text: "{{#alerts}}{{ labels.instance }}\n{{/alerts}}" };
  await page.getByLabel(/^Title/).fill(settings.title);
  await page.getByLabel(/^Text/).fill(settings.text);
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByRole("complementary", { name: "Channel", exact: true }).getByRole("heading", { name: "pager" }).waitFor();
  await page.reload();
  await page.getByLabel("Name", { exact: true }).fill("second pager");
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByText("Saved.").waitFor();
  const channels = await api<{ name: string; settings: object }[]>("GET", "/channels");
  expect(channels.find(({ name }) => name === "second pager")?.settings).toEqual(settings);
});

test("a forbidden address is rejected with a message, and the typed input is kept", async () => {
  const page = await ui.open();
  await openScreen(page, view("channels", "&channel=new"));
  await page.getByLabel("Name", { exact: true }).fill("inner");
  await page.getByLabel("URL, https://…").fill("https://169.254.169.254/latest");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByRole("alert").getByText("is an address that requests may not be sent to").waitFor();
  expect(await page.getByLabel("Name", { exact: true }).inputValue()).toBe("inner");
});

test("a firing alert links to a filled-in silence form, which survives a login; an expired silence no longer mutes", async () => {
  const page = await ui.open();
  await openScreen(page, view("firing"));
  await page.getByRole("link", { name: `Silence ${HOSTILE_SHOWN}` }).click();
  await page.getByText("Matches 1 firing alert").waitFor();
  expect(await page.getByLabel(/^Matchers/).inputValue()).toContain(String.raw`\u202e is full`);
  await page.getByLabel("Comment").fill("a larger one comes");
  // The session ends meanwhile.
  await page.context().clearCookies();
  await page.getByRole("button", { name: "Create", exact: true, includeHidden: true }).dispatchEvent("click");
  const dialog = page.getByRole("dialog", { name: "Your session has expired" });
  await dialog.getByLabel("Password").fill(adminPassword(backend.place));
  await dialog.getByRole("button", { name: "Log in", exact: true }).click();
  await page.getByRole("button", { name: "Expire silence" }).waitFor();
  const silences = await api<{ comment: string; matchers: object[] }[]>("GET", "/silences");
  expect(silences.find(({ comment }) => comment === "a larger one comes")?.matchers).toEqual([
    { name: "alertname", value: HOSTILE, isRegex: false, isEqual: true },
    { name: "severity", value: "warning", isRegex: false, isEqual: true },
  ]);
  await openScreen(page, view("firing"));
  const row = page.getByRole("row").filter({ hasText: HOSTILE_SHOWN });
  await row.getByRole("link", { name: "silenced" }).click();
  await page.getByRole("button", { name: "Expire silence" }).click();
  await page.getByRole("button", { name: "Expire", exact: true }).click();
  await page.getByText("1 active, 0 pending").waitFor();
  await openScreen(page, view("firing"));
  await row.getByText("<i>bot</i>").waitFor();
});

test("a route is created at the first position and removed; errors are shown", async () => {
  const page = await ui.open();
  await openScreen(page, view("routes", "&route=new"));
  const matchers = page.getByLabel(/^Matchers/);
  await matchers.fill("team=shop\ncritical");
  await page.getByLabel("<i>bot</i>").check();
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByRole("alert").getByText("critical is no matcher").waitFor();
  await matchers.fill("team=shop\nseverity=~(");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByRole("alert").getByText("is not a regular expression").waitFor();
  await matchers.fill("team=shop");
  await page.getByText("Matches 1 firing alert: always").waitFor();
  await page.getByLabel(/^Position/).selectOption({ index: 0 });
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByRole("complementary", { name: "Route", exact: true }).getByRole("heading", { name: "Route 1" }).waitFor();
  const routes = await api<{ matchers: object[]; channel_ids: string[] }[]>("GET", "/routes");
  expect(routes[0]).toMatchObject({ matchers: [{ label: "team", op: "=", value: "shop" }], channel_ids: [expect.any(String)] });
  await page.getByRole("button", { name: "Remove route" }).click();
  await page.getByRole("button", { name: "Remove", exact: true }).click();
  await eventually("the route is gone", async () => (await page.getByRole("row").count()) === 3);
});

test("an inhibition rule is created, changed and removed with real keys", async () => {
  const page = await ui.open();
  await openScreen(page, view("inhibition"));
  await page.getByRole("link", { name: "Create inhibition rule" }).click();
  await page.getByLabel("Name", { exact: true }).and(page.locator(":focus")).waitFor();
  await page.keyboard.type("cluster is down");
  await page.getByLabel(/^While an alert fires/).click();
  await page.keyboard.type('alertname="ClusterDown"');
  await page.getByLabel(/^do not send/).click();
  await page.keyboard.type("severity=critical");
  await page.getByText("Matches 1 firing alert: always").waitFor();
  await page.getByLabel(/^if these labels/).click();
  await page.keyboard.type("k8s_cluster_name, region");
  await page.keyboard.press("Enter");
  const side = page.getByRole("complementary", { name: "Inhibition rule", exact: true });
  await side.getByRole("heading", { name: "cluster is down" }).waitFor();
  const stored = async () => (await api<{ name: string }[]>("GET", "/inhibit-rules")).find(({ name }) => name === "cluster is down");
  expect(await stored()).toMatchObject({
    source_matchers: [{ label: "alertname", op: "=", value: "ClusterDown" }],
    target_matchers: [{ label: "severity", op: "=", value: "critical" }],
    equal: ["k8s_cluster_name", "region"],
  });
  await side.getByLabel(/^if these labels/).click();
  await page.keyboard.press("Control+a");
  await page.keyboard.type("region");
  await side.getByRole("button", { name: "Save" }).click();
  await side.getByText("Saved.").waitFor();
  expect(await stored()).toMatchObject({ equal: ["region"] });
  await side.getByRole("button", { name: "Remove inhibition rule" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
  await side.waitFor({ state: "detached" });
  expect(await stored()).toBeUndefined();
});

test("the list of firing alerts says which ones no channel gets because of inhibition or a time interval", async () => {
  const label = (name: string, value: string): object => ({ label: name, op: "=", value });
  const [source_matchers, target_matchers] = [[label("alertname", "always")], [label("severity", "warning")]];
  const rule = await api<{ id: string }>("POST", "/inhibit-rules", { name: "shop", source_matchers, target_matchers });
  const interval = await api<{ id: string }>("POST", "/time-intervals", { name: "all day", time_intervals: [{}] });
  const muted = { matchers: [label("team", "shop")], channel_ids: [], mute_time_intervals: ["all day"] };
  const route = await api<{ id: string }>("POST", "/routes", { ...muted, position: 0 });
  const page = await ui.open();
  await openScreen(page, view("firing"));
  await page.getByRole("row", { name: "always" }).getByRole("link", { name: "muted by all day" }).click();
  await page.getByRole("link", { name: "all day" }).waitFor();
  await openScreen(page, view("firing"));
  await page.getByRole("row", { name: HOSTILE_SHOWN }).getByRole("link", { name: "inhibited" }).click();
  await page.getByRole("link", { name: "shop", exact: true }).waitFor();
  expect(new URL(page.url()).hash).toBe(view("inhibition"));
  await api("DELETE", `/routes/${route.id}`);
  await api("DELETE", `/time-intervals/${interval.id}`);
  await api("DELETE", `/inhibit-rules/${rule.id}`);
});

test("a time interval is created with real keys, chosen in a route, and then not removed", async () => {
  const page = await ui.open();
  await openScreen(page, view("intervals"));
  await page.getByRole("link", { name: "Create time interval" }).click();
  await page.getByLabel("Name", { exact: true }).and(page.locator(":focus")).waitFor();
  await page.keyboard.type("nights");
  await page.getByLabel("From-to").click();
  await page.keyboard.type("00:00-06:00, 22:00-24:00");
  await page.getByLabel("Time zone").click();
  await page.keyboard.type("Europe/Berlin");
  await page.getByRole("button", { name: "Add other times" }).click();
  await page.getByLabel("Weekdays").nth(1).click();
  await page.keyboard.type("saturday, sunday");
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByText("00:00-06:00, 22:00-24:00 Europe/Berlin; saturday, sunday").waitFor();
  await openScreen(page, view("routes", "&route=new"));
  await page.getByLabel(/^Matchers/).click();
  await page.keyboard.type("team=nobody");
  await page.getByRole("group", { name: "Nothing is sent in" }).getByLabel("nights").click();
  await page.getByRole("button", { name: "Create", exact: true }).click();
  await page.getByRole("button", { name: "Remove route" }).waitFor();
  await openScreen(page, view("intervals"));
  await page.getByRole("link", { name: "nights" }).click();
  const remove = async (): Promise<void> => {
    await page.getByRole("button", { name: "Remove time interval" }).click();
    await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
  };
  await remove();
  await page.getByRole("dialog").getByRole("alert").waitFor();
  for (const { id, matchers } of await api<{ id: string; matchers: { value: string }[] }[]>("GET", "/routes"))
    if (matchers[0]?.value === "nobody") await api("DELETE", `/routes/${id}`);
  await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
  await eventually("it is gone", async () => (await page.getByRole("link", { name: "nights" }).count()) === 0);
  expect(await api<{ name: string }[]>("GET", "/time-intervals")).toMatchObject([{ name: "office" }]);
});

test("labels of an invented alert show who would be notified, and a rule gets a receiver of its own in its form", async () => {
  const page = await ui.open();
  await openScreen(page, view("routes"));
  const card = page.getByRole("region", { name: "Who would be notified?" });
  await card.getByText("<i>bot</i>").waitFor();
  await card.getByRole("textbox").click();
  await page.keyboard.press("Control+a");
  await page.keyboard.type("severity=info");
  await card.getByText("by the default route").waitFor();
  await openScreen(page, "#/alerts?rule=new&expr=vector(1)");
  const form = page.getByRole("complementary", { name: "New rule" });
  await form.getByLabel("Name", { exact: true }).click();
  await page.keyboard.type("own receiver");
  await form.getByLabel("Severity").selectOption("info");
  await form.getByText("by the default route").waitFor();
  await form.getByLabel("Channel").selectOption("<i>bot</i>");
  await form.getByRole("button", { name: "Create" }).click();
  await page.getByRole("complementary", { name: "Rule", exact: true }).waitFor();
  const own = async () =>
    (await api<{ matchers: object[]; channel_ids: string[] }[]>("GET", "/routes")).find(({ matchers }) =>
      JSON.stringify(matchers).includes("own receiver"),
    );
  expect(await own()).toMatchObject({ channel_ids: [expect.any(String)] });
  await page.getByLabel("Channel").selectOption("as the routes say");
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Saved. The rule is evaluated").waitFor();
  await expect.poll(own).toBeUndefined();
  await page.getByLabel("Channel").selectOption("<i>bot</i>");
  await page.getByRole("button", { name: "Save" }).click();
  await expect.poll(own).toMatchObject({ channel_ids: [expect.any(String)] });
  await page.getByRole("button", { name: "Remove rule" }).click();
  const dialog = page.getByRole("dialog", { name: "Remove rule?" });
  await expect.poll(() => dialog.getByLabel("Remove its route to <i>bot</i> too").isChecked()).toBe(true);
  expect(await violations(page)).toEqual([]);
  await dialog.getByRole("button", { name: "Remove" }).click();
  await dialog.waitFor({ state: "detached" });
  expect(await own()).toBeUndefined();
});

test("deliveries are filtered, and the address contains the filter", async () => {
  const page = await ui.open();
  await openScreen(page, view("deliveries"));
  await page.getByRole("link", { name: "always" }).first().waitFor();
  await page.getByLabel("State").selectOption("failed");
  await page.getByText("No matching messages in the last 30 days.").waitFor();
  expect(page.url()).toContain("status=failed");
  await page.goBack();
  await page.getByRole("link", { name: "always" }).first().waitFor();
});

test("active series are shown next to their limit, in the usage and on the cardinality page", async () => {
  const [org] = (await call("GET", `${backend.apiUrl}/api/orgs`, { bearer: token })).json as { org_id: string }[];
  const limits = { bearer: token, body: { active_series: 4321 } };
  expect((await call("PUT", `${backend.apiUrl}/api/orgs/${org?.org_id}/limits`, limits)).status).toBe(200);
  const page = await ui.open();
  await eventually("the limit is in force", async () => {
    await openScreen(page, "#/settings?part=usage");
    await page.reload();
    await page.getByText(/records per second,/).waitFor();
    return (await page.getByText(/4,321 active series/).count()) === 1;
  });
  await openScreen(page, "#/metrics?view=cardinality");
  await page.getByText(/of 4,321 allowed/).waitFor();
  expect(await violations(page)).toEqual([]);
});

// Edits in tabs of one browser, whose cookie another tab has replaced by logging in to another organisation: nothing is written anywhere, each
// tab says so and keeps what was typed, and saves it after the first user has logged in again. For every kind of object that the API declares
// (test/contract/isolation.test.ts tries the routes themselves).
import type { Locator, Page } from "playwright-core";
import { beforeAll, expect, test } from "vitest";
import { declaredRoutes } from "../../hack/openapi.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { adminPassword, login } from "../fixtures/backend-process.ts";
import { openScreen } from "../fixtures/browser.ts";
import { consoleOfFile } from "../fixtures/console-of-file.ts";
import { call } from "../fixtures/processes.ts";

const ADMIN = "admin@localhost";
const BOB = { email: "bob@globex.example", password: "another organisation" };
const REFUSED = /status of (401|409)/;
const CHANGED = /another user has logged in with this browser/;
const TYPED = "typed before the other login";

const backend = backendOfFile({ INGEST_TOKENS: "true", NOTIFY_ALLOWED_NETWORKS: "127.0.0.1" });
const ui = consoleOfFile(backend, { expected: REFUSED });
const ids: Record<string, string> = {};
let token: string;
let bobsToken: string;

const api = async (path: string, body: object): Promise<Record<string, string>> => {
  const answer = await call("POST", `${backend.apiUrl}${path}`, { bearer: token, body });
  expect(answer.status, answer.text).toBe(201);
  return answer.json as Record<string, string>;
};

beforeAll(async () => {
  token = await backend.operator();
  await api("/api/orgs", { name: "globex", admin: BOB });
  bobsToken = await login(backend.apiUrl, BOB.email, BOB.password);
  const { id: dashboard = "" } = await api("/api/dashboards", { name: "kept", description: "", variables: [], panels: [] });
  const { id: rule = "" } = await api("/alerting/rules", { name: "kept", expr: "up == 0", severity: "info" });
  const indicator = { availability: { service: "cart" } };
  const { id: slo = "" } = await api("/alerting/slos", { name: "kept", objective: 99, window: "30d", indicator });
  const { id: channel = "" } = await api("/alerting/channels", {
    name: "kept",
    kind: "webhook",
    settings: { url: "https://127.0.0.1:1/" },
  });
  const { id: route = "" } = await api("/alerting/routes", {
    matchers: [{ label: "team", op: "=", value: "kept" }],
    channel_ids: [channel],
  });
  Object.assign(ids, { dashboard, rule, slo, channel, route });
});

interface Edit {
  /** The collection of the API that it writes to. */
  readonly collection: string;
  readonly name: string;
  readonly address: () => string;
  readonly field: (page: Page) => Locator;
  readonly value?: string;
  /** Fills in what else the form needs. */
  readonly also?: (page: Page) => Promise<unknown>;
  readonly button: string;
}

const named = (page: Page): Locator => page.getByLabel("Name", { exact: true }).first();
const inRegion = (region: RegExp | string, label: string) => (page: Page) =>
  page.getByRole("region", { name: region }).getByLabel(label, { exact: true });
const typeInto = async (page: Page, field: Locator, text: string): Promise<void> => {
  await field.click();
  await page.keyboard.press("Control+a");
  await page.keyboard.type(text);
};

const EDITS: readonly Edit[] = [
  { collection: "/api/dashboards", name: "a new dashboard", address: () => "#/dashboards/new?edit=1", field: named, button: "Save" },
  {
    collection: "/api/dashboards",
    name: "a dashboard",
    address: () => `#/dashboards/${ids["dashboard"]}?edit=1`,
    field: named,
    button: "Save",
  },
  {
    collection: "/api/views",
    name: "a view",
    address: () => "#/logs?q=level:error",
    field: (page) => page.getByLabel("View name"),
    button: "Create view",
  },
  {
    collection: "/alerting/rules",
    name: "a new rule",
    address: () => "#/alerts?rule=new&expr=up",
    field: named,
    button: "Create",
  },
  { collection: "/alerting/rules", name: "a rule", address: () => `#/alerts?rule=${ids["rule"]}`, field: named, button: "Save" },
  {
    collection: "/alerting/silences",
    name: "a silence",
    address: () => "#/alerts?view=silences&silence=new&matchers=team%3D%22shop%22",
    field: (page) => page.getByLabel("Comment"),
    button: "Create",
  },
  {
    collection: "/alerting/channels",
    name: "a channel",
    address: () => `#/alerts?view=channels&channel=${ids["channel"]}`,
    field: named,
    button: "Save",
  },
  {
    collection: "/alerting/routes",
    name: "a route",
    address: () => `#/alerts?view=routes&route=${ids["route"]}`,
    field: (page) => page.getByLabel(/^Matchers/),
    value: 'team="typed"',
    button: "Save",
  },
  {
    collection: "/alerting/inhibit-rules",
    name: "an inhibition rule",
    address: () => "#/alerts?view=inhibition&inhibition_rule=new",
    field: named,
    also: async (page) => {
      await typeInto(page, page.getByLabel(/^While an alert fires/), "team=typed");
      await typeInto(page, page.getByLabel(/^do not send/), "team=typed");
    },
    button: "Create",
  },
  {
    collection: "/alerting/time-intervals",
    name: "a time interval",
    address: () => "#/alerts?view=intervals&time_interval=new",
    field: named,
    also: async (page) => await typeInto(page, page.getByLabel("Weekdays"), "monday"),
    button: "Create",
  },
  { collection: "/alerting/slos", name: "an objective", address: () => `#/slos/${ids["slo"]}?edit=1`, field: named, button: "Save" },
  {
    collection: "/api/invitations",
    name: "an invitation",
    address: () => "#/settings?part=users",
    field: inRegion("Invitations", "E-mail"),
    value: "typed@shop.example",
    button: "Create invitation",
  },
  {
    collection: "/api/auth",
    name: "the password",
    address: () => "#/settings?part=users",
    field: (page) => page.getByLabel("New password"),
    also: async (page) => await typeInto(page, page.getByLabel("Current password"), adminPassword(backend.place)),
    button: "Change password",
  },
  {
    collection: "/api/orgs",
    name: "an organisation",
    address: () => "#/settings?part=organisations",
    field: inRegion("Organisations", "Name"),
    also: async (page) => {
      await typeInto(page, page.getByLabel("Administrator's e-mail"), "ann@initech.example");
      await typeInto(page, page.getByLabel("Password", { exact: true }), "a third organisation");
    },
    button: "Create organisation",
  },
  {
    collection: "/api/read-tokens",
    name: "a read token",
    address: () => "#/settings?part=credentials",
    field: inRegion(/^Read tokens/, "Name"),
    button: "Create read token",
  },
  {
    collection: "/api/ingest-tokens",
    name: "an ingest token",
    address: () => "#/settings?part=credentials",
    field: inRegion(/^Ingest tokens/, "Name"),
    button: "Create ingest token",
  },
  {
    collection: "/api/keys",
    name: "a key",
    address: () => "#/settings?part=credentials",
    field: inRegion(/^Keys/, "Name"),
    button: "Create key",
  },
  {
    collection: "/api/install-tokens",
    name: "a cluster to add",
    address: () => "#/add",
    field: (page) => page.getByLabel("Name of the cluster"),
    value: "typed",
    button: "Create token",
  },
  {
    collection: "/api/issuers",
    name: "an issuer",
    address: () => "#/settings?part=issuers",
    field: inRegion("Trust an issuer", "Name"),
    also: async (page) => {
      await typeInto(page, page.getByLabel(/^Issuer/), "https://issuer.example");
      await typeInto(page, page.getByLabel(/^Public keys/), '{"keys":[]}');
      await typeInto(page, page.getByLabel("Claim", { exact: true }), "sub");
      await typeInto(page, page.getByLabel(/^Value of the claim/), "agent");
    },
    button: "Trust issuer",
  },
];

/** What the console changes without a form whose input could be lost: by a button, or by a choice in a list. */
const WITHOUT_A_FORM = ["/api/users", "/api/clusters", "/api/v1/agents"];
/** What has no form in the console, and what reads. */
const NOT_IN_THE_CONSOLE = ["/api/accounts", "/alerting/alertmanager", "/mcp", "/query/loki", "/query/prometheus"];

test("each kind of object that a session may write is tried", async () => {
  const written = (await declaredRoutes()).filter(
    ({ method, access }) => method !== "GET" && typeof access === "string" && access !== "anyone",
  );
  const collections = new Set(written.map(({ path }) => /^(\/api\/v1\/\w+|\/\w+\/[\w-]+|\/\w+)/.exec(path)?.[0] ?? path));
  const tried = new Set([...EDITS.map(({ collection }) => collection), ...WITHOUT_A_FORM, ...NOT_IN_THE_CONSOLE]);
  expect([...collections].filter((collection) => !tried.has(collection))).toEqual([]);
});

/** What both organisations have, of every collection that can be listed. */
async function everything(): Promise<string[]> {
  const lists = [...new Set([...EDITS.map(({ collection }) => collection), "/api/users"])].filter((path) => path !== "/api/auth");
  const read = async (path: string, bearer: string) => (await call("GET", `${backend.apiUrl}${path}`, { bearer })).text;
  return await Promise.all(lists.flatMap((path) => [token, bobsToken].map(async (bearer) => `${path} ${await read(path, bearer)}`)));
}

/** As the form of another tab does. The tabs of the first user would ask for his password if one of them met the time without a session. */
async function logInAs(page: Page, email: string, password: string): Promise<void> {
  const body = JSON.stringify({ email, password });
  const headers = { "content-type": "application/json", "x-requested-with": "atherops" };
  const sent = `fetch("/api/auth/session", ${JSON.stringify({ method: "POST", headers, body })}).then(({ status }) => status)`;
  expect(await page.evaluate<number>(sent)).toBeLessThan(300);
}

test("no edit is written into another organisation, and each is kept and can be saved", { timeout: 600_000 }, async () => {
  const first = await ui.open();
  const tabs: { edit: Edit; page: Page; typed: string; send: () => Promise<void>; problem: Locator }[] = [];
  for (const edit of EDITS) {
    const page = await first.context().newPage();
    await page.goto("/");
    await page.locator("#main").waitFor();
    await openScreen(page, edit.address());
    if (edit.collection === "/api/views") await page.getByTitle("Saved views").click();
    const typed = edit.value ?? `${edit.name}, ${TYPED}`;
    await edit.also?.(page);
    await typeInto(page, edit.field(page), typed);
    const form = page.locator("form", { has: page.getByRole("button", { name: edit.button, exact: true }) }).first();
    const send = async () => await form.getByRole("button", { name: edit.button, exact: true }).click();
    tabs.push({ edit, page, typed, send, problem: form.getByRole("alert").filter({ hasText: CHANGED }) });
  }
  const before = await everything();
  await logInAs(first, BOB.email, BOB.password);
  const faults: string[] = [];
  for (const { edit, page, typed, send, problem } of tabs) {
    await send();
    await problem.waitFor({ timeout: 10_000 }).catch(() => void faults.push(`${edit.name}: no message`));
    if ((await edit.field(page).inputValue()) !== typed) faults.push(`${edit.name}: the edit is lost`);
  }
  expect(faults).toEqual([]);
  expect(await everything()).toEqual(before);
  await logInAs(first, ADMIN, adminPassword(backend.place));
  for (const { edit, page, send, problem } of tabs) {
    // The others would end, or need a certificate.
    if (["/api/auth", "/api/issuers"].includes(edit.collection)) continue;
    const saved = page.waitForResponse((response) => response.request().method() !== "GET" && response.url().includes(edit.collection));
    await send();
    expect([edit.name, (await saved).status()]).toEqual([edit.name, expect.toBeOneOf([200, 201, 204])]);
    await problem.waitFor({ state: "detached" });
  }
  expect(await everything()).not.toEqual(before);
  for (const { page } of tabs) await page.close({ runBeforeUnload: false });
});

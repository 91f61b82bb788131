// Responses that arrive after the user has opened another screen, in a real Chromium with a real backend: a completed save does not switch
// back to the earlier screen, and a notice about missing rows disappears with the next complete response.
import type { Page } from "playwright-core";
import { beforeAll, expect, test } from "vitest";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { adminPassword } from "../fixtures/backend-process.ts";
import { logInBy, openScreen } from "../fixtures/browser.ts";
import { consoleOfFile } from "../fixtures/console-of-file.ts";
import { call } from "../fixtures/processes.ts";

const backend = backendOfFile({ NOTIFY_ALLOWED_NETWORKS: "127.0.0.1" });
const ui = consoleOfFile(backend, { look: { viewport: { width: 1280, height: 800 } } });
let dashboardId: string;

beforeAll(async () => {
  const body = { name: "kept", description: "", variables: [], panels: [] };
  const made = await call("POST", `${backend.apiUrl}/api/dashboards`, { bearer: await backend.operator(), body });
  expect(made.status).toBe(201);
  dashboardId = made.json.id as string;
});

const press = async (page: Page, name: string): Promise<void> =>
  await page.locator("main").getByRole("button", { name, exact: true }).click();

interface Save {
  readonly name: string;
  readonly address: () => string;
  readonly path: string;
  readonly send: (page: Page) => Promise<unknown>;
}

const SAVES: readonly Save[] = [
  {
    name: "a rule",
    address: () => "#/alerts?rule=new",
    path: "/alerting/rules",
    send: async (page) => {
      await page.getByLabel("Name", { exact: true }).fill("late");
      await page.locator(".cm-content").fill("vector(1) > 2");
      await press(page, "Create");
    },
  },
  {
    name: "a channel",
    address: () => "#/alerts?view=channels&channel=new",
    path: "/alerting/channels",
    send: async (page) => {
      await page.getByLabel("Name", { exact: true }).fill("late");
      await page.getByLabel("URL, https://…").fill("https://127.0.0.1:1/");
      await press(page, "Create");
    },
  },
  {
    name: "a route",
    address: () => "#/alerts?view=routes&route=new",
    path: "/alerting/routes",
    send: async (page) => await press(page, "Create"),
  },
  {
    name: "a silence",
    address: () => `#/alerts?view=silences&silence=new&matchers=${encodeURIComponent('alertname="late"')}`,
    path: "/alerting/silences",
    send: async (page) => {
      await page.getByLabel("Comment").fill("late");
      await press(page, "Create");
    },
  },
  {
    name: "an imported dashboard",
    address: () => "#/dashboards",
    path: "/api/dashboards",
    send: async (page) => {
      const buffer = Buffer.from(JSON.stringify({ name: "late", description: "", variables: [], panels: [] }));
      await page.getByLabel("Import JSON").setInputFiles({ name: "late.json", mimeType: "application/json", buffer });
    },
  },
  {
    name: "a copied dashboard",
    address: () => `#/dashboards/${dashboardId}`,
    path: "/api/dashboards",
    send: async (page) => await press(page, "Copy"),
  },
  {
    name: "an edited dashboard",
    address: () => `#/dashboards/${dashboardId}?edit=1`,
    path: "/api/dashboards/",
    send: async (page) => await press(page, "Save"),
  },
  {
    name: "a removed dashboard",
    address: () => `#/dashboards/${dashboardId}`,
    path: "/api/dashboards/",
    send: async (page) => {
      await press(page, "Remove");
      await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
    },
  },
];

test("a late response to a save does not navigate a user who has opened another screen", async () => {
  const page = await ui.open();
  const pulledBack: string[] = [];
  for (const { name, address, path, send } of SAVES) {
    await openScreen(page, address());
    const [asked, released] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
    await page.route(
      (url) => url.pathname.startsWith(path),
      async (route) => {
        if (route.request().method() === "GET") return await route.fallback();
        asked.resolve();
        await released.promise;
        await route.continue();
      },
    );
    await send(page);
    await asked.promise;
    await openScreen(page, "#/settings");
    const answered = page.waitForResponse((response) => response.request().method() !== "GET" && response.ok());
    released.resolve();
    await (await answered).finished();
    // What follows the answer in the page is done before the page answers this.
    await page.evaluate("new Promise((done) => setTimeout(done))");
    if (new URL(page.url()).hash !== "#/settings") pulledBack.push(name);
    await page.unrouteAll();
  }
  expect(pulledBack).toEqual([]);
});

test("the notice of an unavailable shard disappears with the next complete response", async () => {
  const page = await ui.open();
  const notice = page.getByText("a shard of the log and trace store is unavailable");
  const isOfRecords = (url: URL): boolean => url.pathname === "/query/logs";
  await page.route(isOfRecords, async (route) => {
    const headers = { warning: '199 atherops "a shard of the log and trace store is unavailable: rows are missing"' };
    await route.fulfill({ headers, json: [] });
  });
  await openScreen(page, "#/logs");
  await notice.waitFor();
  await page.unroute(isOfRecords);
  await press(page, "Search");
  await notice.waitFor({ state: "detached" });
  expect(ui.complaints()).toEqual([]);
});

test("an edit is not saved into the organisation of a user who logged in in another tab, and is kept", async () => {
  const [email, secret] = ["bob@globex.example", "a long password of bob"];
  const bearer = await backend.operator();
  const made = await call("POST", `${backend.apiUrl}/api/orgs`, {
    bearer,
    body: { name: "globex", admin: { email, password: secret } },
  });
  expect(made.status).toBe(201);
  const body = { name: "shared", description: "", variables: [], panels: [] };
  const { id } = (await call("POST", `${backend.apiUrl}/api/dashboards`, { bearer, body })).json as { id: string };
  const page = await ui.open({}, /status of (401|409)/);
  await openScreen(page, `#/dashboards/${id}?edit=1`);
  const name = page.getByLabel("Name", { exact: true });
  await name.click();
  await page.keyboard.press("End");
  await page.keyboard.type(" and edited");
  const otherTab = await page.context().newPage();
  await otherTab.goto(backend.apiUrl);
  await otherTab.getByTitle("Account").click();
  await otherTab.getByRole("button", { name: "Log out" }).click();
  await otherTab.getByLabel("E-mail").waitFor();
  await logInBy(otherTab, email, secret);
  await press(page, "Save");
  await page.getByRole("alert").getByText("another user has logged in with this browser").first().waitFor();
  expect(await name.inputValue()).toBe("shared and edited");
  const names = async (token: string) =>
    (await call("GET", `${backend.apiUrl}/api/dashboards`, { bearer: token })).json.map((row: { name: string }) => row.name);
  const login = await call("POST", `${backend.apiUrl}/api/auth/login`, { body: { email, password: secret } });
  expect(await names(login.json.token as string)).toEqual([]);
  expect(await names(bearer)).toContain("shared");
  await otherTab.getByTitle("Account").click();
  await otherTab.getByRole("button", { name: "Log out" }).click();
  await otherTab.getByLabel("E-mail").waitFor();
  await logInBy(otherTab, "admin@localhost", adminPassword(backend.place));
  await press(page, "Save");
  await page.getByRole("heading", { name: "shared and edited" }).waitFor();
  expect(await names(bearer)).toContain("shared and edited");
});

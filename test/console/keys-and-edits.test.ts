// The keyboard and unsaved edits, with real keys in a real Chromium.
import type { Page } from "playwright-core";
import { beforeAll, beforeEach, expect, test } from "vitest";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { answerDialog, openScreen } from "../fixtures/browser.ts";
import { consoleOfFile } from "../fixtures/console-of-file.ts";
import { call } from "../fixtures/processes.ts";

const backend = backendOfFile();
const ui = consoleOfFile(backend);
let token: string;
let page: Page;

beforeAll(async () => {
  token = await backend.operator();
});
beforeEach(async () => {
  page = await ui.open();
});

const answer = (accepts: boolean): Promise<string> => answerDialog(page, accepts);

const SCREENS = ["overview", "logs", "services", "alerts"];

test.each(SCREENS)("what is typed after Ctrl-K on %s goes into the search, and Escape closes it", async (screen) => {
  await openScreen(page, `#/${screen}`);
  await page.getByRole("heading", { level: 1 }).waitFor();
  await page.keyboard.press("Control+k");
  const search = page.getByRole("combobox", { name: "Search" });
  // The palette may not be shown yet.
  await page.keyboard.type("logs");
  await search.waitFor();
  expect([await search.inputValue(), new URL(page.url()).hash]).toEqual(["logs", `#/${screen}`]);
  await page.keyboard.press("Escape");
  await search.waitFor({ state: "detached" });
});

async function editDashboard(): Promise<void> {
  await openScreen(page, "#/dashboards");
  await openScreen(page, "#/dashboards/new");
  await page.getByRole("textbox", { name: "Name" }).first().click();
  await page.keyboard.type("latency");
}

test.each([
  ["a link of the navigation", () => page.getByRole("link", { name: "Logs", exact: true }).click()],
  ["the browser's back button", () => page.evaluate("history.back()")],
])("an edited dashboard is kept if the user does not want to leave it by %s", async (_, leave) => {
  await editDashboard();
  const address = page.url();
  const asked = answer(false);
  await leave();
  expect(await asked).toBe("Discard your unsaved changes?");
  await expect.poll(() => page.url()).toBe(address);
  expect(await page.getByRole("textbox", { name: "Name" }).first().inputValue()).toBe("latency");
});

test("an edited rule is discarded by another view only after a question", async () => {
  await openScreen(page, "#/alerts?rule=new");
  await page.getByRole("textbox", { name: "Name", exact: true }).click();
  await page.keyboard.type("down");
  const asked = answer(true);
  await page.getByRole("group", { name: "Views" }).getByText("Silences").click();
  await asked;
  await expect.poll(() => page.url()).toContain("view=silences");
});

test("a dashboard whose panel has no query is not saved, and says which", async () => {
  await editDashboard();
  await page.getByRole("button", { name: "Add panel" }).click();
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByText("Panel 1 has no query. Enter one, or remove the panel.").waitFor();
  const saved = await call("GET", `${backend.apiUrl}/api/dashboards`, { bearer: token });
  expect(JSON.stringify(saved.json)).not.toContain("latency");
});

test("a change of the order keeps the service that is typed in the trace search", async () => {
  await openScreen(page, "#/traces");
  await page.getByRole("combobox", { name: "service" }).click();
  await page.keyboard.type("checkout");
  await page.getByRole("button", { name: "Slowest first" }).click();
  await expect.poll(() => page.url()).toContain("sort=slowest");
  expect(await page.getByRole("combobox", { name: "service" }).inputValue()).toBe("checkout");
});

// What is typed into a form is never lost without a question: every form of the console, with real keys in a real Chromium.
import { generateKeyPairSync } from "node:crypto";
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Locator, Page } from "playwright-core";
import { beforeAll, beforeEach, expect, test } from "vitest";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { answerDialog, openScreen } from "../fixtures/browser.ts";
import { consoleOfFile } from "../fixtures/console-of-file.ts";
import { call } from "../fixtures/processes.ts";

const QUESTION = "Discard your unsaved changes?";
const backend = backendOfFile({ INGEST_TOKENS: "true" });
// A refused save.
const ui = consoleOfFile(backend, { expected: /status of 40[01]/ });
let page: Page;

beforeAll(async () => {
  const bearer = await backend.operator();
  const post = async (path: string, body: object): Promise<void> =>
    expect((await call("POST", `${backend.apiUrl}${path}`, { bearer, body })).status).toBe(201);
  await post("/api/users", { email: "bea@shop.example", password: "only reading, thank you", role: "viewer" });
  const key = {
    ...generateKeyPairSync("ec", { namedCurve: "P-256" }).publicKey.export({ format: "jwk" }),
    kid: "1",
    alg: "ES256",
    use: "sig",
  };
  const rules = [{ claims: { sub: "ci" }, permit: "send" }];
  await post("/api/issuers", { name: "ci", issuer: "https://ci.example", jwks: { keys: [key] }, rules });
});
beforeEach(async () => {
  page = await ui.open();
});

const answer = (accepts: boolean): Promise<string> => answerDialog(page, accepts);

interface Form {
  readonly file: string;
  readonly address: string;
  /** Opens the form on its screen. */
  readonly button?: string;
  /** The card with the form. */
  readonly card?: string;
  readonly field: string;
  readonly isDialog?: boolean;
}

const part = (name: string): string => `#/settings?part=${name}`;
const view = (name: string, noun: string): string => `#/alerts?view=${name}&${noun}=new`;
const credential = (card: string): Form => ({
  file: "administration/resource-list.tsx",
  address: part("credentials"),
  card,
  field: "Name",
});
const FORMS: Readonly<Record<string, Form>> = {
  rule: { file: "alerts/editor.tsx", address: "#/alerts?rule=new", field: "Name" },
  silence: { file: "notification/silences.tsx", address: view("silences", "silence"), field: "Comment" },
  route: {
    file: "notification/notification-routes.tsx",
    address: view("routes", "route"),
    field: "Matchers, one per line; all must match",
  },
  "inhibition rule": { file: "notification/inhibition.tsx", address: view("inhibition", "inhibition_rule"), field: "Name" },
  "time interval": { file: "notification/time-intervals.tsx", address: view("intervals", "time_interval"), field: "Name" },
  channel: { file: "notification/channel-form.tsx", address: view("channels", "channel"), field: "Name" },
  objective: { file: "slo/slo-form.tsx", address: "#/slos?edit=new", field: "Name" },
  dashboard: { file: "dashboards/editor.tsx", address: "#/dashboards/new", field: "Name" },
  "add to dashboard": {
    file: "dashboards/add-to-dashboard.tsx",
    address: "#/logs",
    button: "Add to dashboard",
    field: "Title",
    isDialog: true,
  },
  view: { file: "parts/views.tsx", address: "#/logs", button: "Views", field: "View name", isDialog: true },
  "token of a host": { file: "fleet/add-program.tsx", address: "#/add?kind=host", field: "URL of this backend" },
  "token of a program": { file: "fleet/add-program.tsx", address: "#/add?kind=sdk", field: "Token name" },
  invitation: { file: "administration/resource-list.tsx", address: part("users"), card: "Invitations", field: "E-mail" },
  password: { file: "administration/accounts.tsx", address: part("users"), card: "Your password", field: "New password" },
  "limits of a user": {
    file: "administration/label-limits.tsx",
    address: part("users"),
    button: "Change the limits of bea@shop.example",
    field: "Limits of bea@shop.example",
  },
  "read token": credential("Read tokens for Grafana and programs"),
  "ingest token": credential("Ingest tokens for OpenTelemetry SDKs and collectors"),
  key: credential("Keys for direct ingest"),
  organisation: { file: "administration/resource-list.tsx", address: part("organisations"), card: "Organisations", field: "Name" },
  issuer: { file: "administration/issuers.tsx", address: part("issuers"), card: "Trust an issuer", field: "Name" },
  "rule of an issuer": {
    file: "administration/issuers.tsx",
    address: part("issuers"),
    button: "Add rule to ci",
    card: "Trusted issuers",
    field: "Claim",
  },
};

/** Files whose forms are questions or logins, or are given their fields by the files above. */
const UNGUARDED = ["traces/traces-screen.tsx", "traces/differences.tsx", "parts/time-picker.tsx", "login.tsx", "invitation.tsx"];
const FRAMES = ["parts/saving-form.tsx", "administration/credentials.tsx"];

test("these are all forms of the console", () => {
  const folder = join(import.meta.dirname, "../../backend/console");
  const files = globSync("**/*.tsx", { cwd: folder, exclude: (name) => name === "node_modules" });
  const withForm = files.filter((file) => /<form\b|<SavingForm\b|createForm=/.test(readFileSync(join(folder, file), "utf8")));
  const listed = [...Object.values(FORMS).map(({ file }) => file), ...UNGUARDED, ...FRAMES];
  expect(withForm.toSorted()).toEqual([...new Set(listed)].toSorted());
});

/** Opens the form, types into its field, and returns the field. */
async function edit({ address, button, card, field }: Form): Promise<Locator> {
  await openScreen(page, "#/changes");
  await openScreen(page, address);
  if (button) await page.getByRole("button", { name: button, exact: true }).first().click();
  const within = card ? page.getByRole("region", { name: card, exact: true }) : page;
  const typed = within.getByLabel(field, { exact: field.length < 12 }).first();
  await typed.click();
  await page.keyboard.type("x");
  return typed;
}

const NAMES = Object.keys(FORMS);

test.each(NAMES)("an edited form is left only after a question: %s", async (name) => {
  const form = FORMS[name] as Form;
  const typed = await edit(form);
  const [before, text] = [page.url(), await typed.inputValue()];
  const leave = async (): Promise<void> => {
    if (form.isDialog) await page.keyboard.press("Escape");
    else await page.getByRole("link", { name: "Changes", exact: true }).click();
  };
  // Twice: a browser lets a page refuse the first Escape only.
  for (let times = 0; times < 2; times++) {
    const refused = answer(false);
    await leave();
    expect(await refused).toBe(QUESTION);
    await expect.poll(() => page.url()).toBe(before);
    expect([await typed.isVisible(), await typed.inputValue()]).toEqual([true, text]);
  }
  const accepted = answer(true);
  await leave();
  expect(await accepted).toBe(QUESTION);
  await typed.waitFor({ state: "detached" });
});

test.each([
  ["a tab of the settings", "key", () => page.getByRole("group", { name: "Sections" }).getByText("Users").click()],
  ["the kind of what is connected", "token of a program", () => page.getByRole("group", { name: "Type" }).getByText("Grafana").click()],
  ["the browser's back button", "invitation", () => page.evaluate("history.back()")],
  [
    "a log-out",
    "issuer",
    async () => {
      await page.getByTitle("Account").click();
      await page.getByRole("button", { name: "Log out" }).click();
    },
  ],
])("an edited form is kept if the user does not want to leave it by %s", async (_, name, leave) => {
  const typed = await edit(FORMS[name] as Form);
  const [before, text] = [page.url(), await typed.inputValue()];
  const refused = answer(false);
  await leave();
  expect(await refused).toBe(QUESTION);
  await expect.poll(() => page.url()).toBe(before);
  expect(await typed.inputValue()).toBe(text);
});

test("closing the page asks, until the form is saved, and again after a refused save", async () => {
  const isAsked = async (): Promise<boolean> => await page.evaluate("!dispatchEvent(new Event('beforeunload', { cancelable: true }))");
  await edit(FORMS["organisation"] as Form);
  expect(await isAsked()).toBe(true);
  await page.keyboard.press("Tab");
  await page.keyboard.type("eve@x.example");
  await page.keyboard.press("Tab");
  await page.keyboard.type("short");
  await page.keyboard.press("Enter");
  await page.getByRole("region", { name: "Organisations" }).getByRole("alert").waitFor();
  expect(await isAsked()).toBe(true);
  await page.keyboard.type(" no more, but long enough");
  await page.keyboard.press("Enter");
  await page.getByRole("cell", { name: "x", exact: true }).waitFor();
  expect(await isAsked()).toBe(false);
});

test("a duration of a silence that is chosen by a click is an edit", async () => {
  await openScreen(page, view("silences", "silence"));
  await page.getByRole("button", { name: "8 h" }).click();
  const asked = answer(true);
  await page.getByRole("link", { name: "Changes", exact: true }).click();
  expect(await asked).toBe(QUESTION);
});

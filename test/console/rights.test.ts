// Settings in a real Chromium, with real keys and clicks: trusted issuers and their rules, and limits of read tokens, invitations and users;
// then the console of a user with limits.
import { generateKeyPairSync, randomUUID } from "node:crypto";
import type { Page } from "playwright-core";
import { beforeAll, expect, test } from "vitest";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { violations } from "../fixtures/browser.ts";
import { consoleOfFile } from "../fixtures/console-of-file.ts";
import { call, eventually, signedPost } from "../fixtures/processes.ts";

const backend = backendOfFile();
const VIEWER = { email: "viewer@rights.example", password: "only reading, thank you" };
const ui = consoleOfFile(backend, { look: { viewport: { width: 1440, height: 900 } }, expected: /status of (400|401|403)/ });
const { publicKey } = generateKeyPairSync("ed25519");
const JWKS = JSON.stringify({ keys: [{ ...publicKey.export({ format: "jwk" }), kid: "k1" }] });
let operator: string;

const read = async (path: string) => (await call("GET", `${backend.apiUrl}${path}`, { bearer: operator })).json;

beforeAll(async () => {
  operator = await backend.operator();
  await call("POST", `${backend.apiUrl}/api/users`, { bearer: operator, body: { ...VIEWER, role: "viewer" } });
  const { api_key: key } = (await call("POST", `${backend.apiUrl}/api/keys`, { bearer: operator, body: { name: "k" } })).json;
  const records = ["shop", "web"].map((namespace) => ({
    resource: { attributes: [{ key: "k8s.namespace.name", value: { stringValue: namespace } }] },
    scopeLogs: [{ logRecords: [{ timeUnixNano: `${Date.now()}000000`, body: { stringValue: `hello from ${namespace}` } }] }],
  }));
  expect((await signedPost(backend.apiUrl, "/ingest/logs/otlp", key, JSON.stringify({ resourceLogs: records }))).status).toBe(204);
});

async function openSettings(page: Page, part: string): Promise<void> {
  await page.goto(`${backend.apiUrl}/#/settings?part=${part}`);
  await page.getByRole("heading", { name: "Settings" }).waitFor();
}

/** Types into a field, key by key. */
async function type(field: ReturnType<Page["getByLabel"]>, text: string): Promise<void> {
  await field.click();
  await field.page().keyboard.press("End");
  await field.page().keyboard.type(text);
}

test("an administrator trusts an issuer, adds and removes a rule, and removes the issuer", async () => {
  const page = await ui.open();
  await openSettings(page, "issuers");
  const form = page.getByRole("region", { name: "Trust an issuer" });
  await type(form.getByLabel("Name", { exact: true }), "ci");
  await type(form.getByLabel(/^Issuer/), "https://ci.example");
  await form.getByLabel(/^Public keys/).fill("not JSON");
  await type(form.getByLabel("Claim", { exact: true }), "sub");
  await type(form.getByLabel(/^Value of the claim/), "repo:shop");
  await form.getByLabel("Permits to").selectOption("read");
  await type(form.getByLabel(/^Limits/), "k8s.namespace.name=shop");
  await form.getByRole("button", { name: "Trust issuer" }).click();
  await form.getByText("The public keys must be JSON").waitFor();
  await form.getByLabel(/^Public keys/).fill(JWKS);
  await page.keyboard.press("Tab");
  await form.getByRole("button", { name: "Trust issuer" }).click();
  const list = page.getByRole("region", { name: "Trusted issuers" });
  await list.getByText("read (limited to k8s.namespace.name=shop) if sub = repo:shop").waitFor();
  expect(await violations(page)).toEqual([]);

  await list.getByRole("button", { name: "Add rule to ci" }).click();
  await type(list.getByLabel("Claim", { exact: true }), "sub");
  await type(list.getByLabel(/^Value of the claim/), "repo:*");
  await list.getByLabel("Permits to").selectOption("send");
  await list.getByRole("button", { name: "Save rule" }).click();
  await list.getByText("send if sub = repo:*").waitFor();
  const [issuer] = await read("/api/issuers");
  expect(issuer).toMatchObject({
    name: "ci",
    rules: [
      { claims: { sub: "repo:shop" }, permit: "read", label_limits: { "k8s.namespace.name": ["shop"] } },
      { claims: { sub: "repo:*" }, permit: "send" },
    ],
  });
  expect(issuer.jwks.keys).toHaveLength(1);

  await list.getByRole("button", { name: "Remove rule 2 of ci" }).click();
  await list.getByText("send if sub").waitFor({ state: "detached" });
  expect((await read("/api/issuers"))[0].rules).toHaveLength(1);
  await list.getByRole("button", { name: "Remove ci" }).click();
  await page.getByRole("button", { name: "Remove", exact: true }).last().click();
  await list.getByText("None.").waitFor();
});

test("a read token and an invitation get limits, and a wrong text says what is wrong", async () => {
  const page = await ui.open();
  await openSettings(page, "credentials");
  const tokens = page.getByRole("region", { name: /^Read tokens/ });
  await type(tokens.getByLabel("Name"), "team");
  await type(tokens.getByLabel(/^Limits/), "k8s.namespace.name");
  await page.keyboard.press("Enter");
  await tokens.getByText("must be label=value").waitFor();
  await type(tokens.getByLabel(/^Limits/), "=shop,web source=cart");
  await page.keyboard.press("Enter");
  await tokens.getByText("k8s.namespace.name=shop,web source=cart").waitFor();
  const limits = { "k8s.namespace.name": ["shop", "web"], source: ["cart"] };
  expect(await read("/api/read-tokens")).toMatchObject([{ name: "team", label_limits: limits }]);

  await openSettings(page, "users");
  const invitations = page.getByRole("region", { name: "Invitations" });
  const email = `${randomUUID()}@rights.example`;
  await type(invitations.getByLabel("E-mail"), email);
  await type(invitations.getByLabel(/^Limits/), "source=cart");
  await page.keyboard.press("Enter");
  await invitations.getByText("source=cart").waitFor();
  expect(await read("/api/invitations")).toMatchObject([{ email, label_limits: { source: ["cart"] } }]);
});

test("an administrator limits a viewer, whose open page shows one namespace within 5 s and no settings of the organisation", async () => {
  const viewer = await ui.openAs(VIEWER.email, VIEWER.password);
  await viewer.goto(`${backend.apiUrl}/#/logs`);
  await viewer.getByText("hello from web").first().waitFor();

  const page = await ui.open();
  await openSettings(page, "users");
  await page.getByRole("button", { name: `Change the limits of ${VIEWER.email}` }).click();
  await type(page.getByLabel(`Limits of ${VIEWER.email}`), "k8s.namespace.name=shop");
  await page.keyboard.press("Enter");
  await page.getByRole("cell", { name: /k8s\.namespace\.name=shop/ }).waitFor();

  await eventually("the other namespace is gone", async () => {
    await viewer.reload();
    await viewer.getByText("hello from shop").first().waitFor();
    return (await viewer.getByText("hello from web").count()) === 0;
  });
  await openSettings(viewer, "users");
  // The response to the page's question for its user may be older than the limits.
  await eventually("the settings name the limits", async () => {
    await viewer.reload();
    await viewer.getByRole("heading", { name: "Settings" }).waitFor();
    return (await viewer.getByText("You can read telemetry with k8s.namespace.name=shop").count()) > 0;
  });
  expect(await viewer.getByRole("region", { name: "Users" }).count()).toBe(0);
  expect(await violations(viewer)).toEqual([]);
});

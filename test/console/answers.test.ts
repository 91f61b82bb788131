// The console's screens Changes and SLOs in a real Chromium with a real backend, with real keys and clicks: what is different, how it is
// compared, where its links lead, and error budgets. Names from senders are hostile.
import { beforeAll, describe, expect, test } from "vitest";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { faultsOf, LOOKS, openScreen, type Screen, settled } from "../fixtures/browser.ts";
import { consoleOfFile } from "../fixtures/console-of-file.ts";
import { call, eventually, signedPost } from "../fixtures/processes.ts";

const SERVICE = '<img src=x onerror=alert(1)>"}{';
const SLO = "availability of <b>checkout</b>";
const backend = backendOfFile({ EVALUATION_INTERVAL: "1s" });
const ui = consoleOfFile(backend);
let sloId: string;

/** Calls of two hours, two a minute; those of the last 15 minutes fail. */
async function sendCalls(key: string): Promise<void> {
  const spans = Array.from({ length: 240 }, (_, at) => {
    const startMs = Date.now() - 7_180_000 + at * 29_800;
    const isFailed = Date.now() - startMs < 900_000;
    return {
      traceId: (at + 1).toString(16).padStart(32, "0"),
      spanId: (at + 1).toString(16).padStart(16, "0"),
      name: "POST /pay",
      kind: 2,
      startTimeUnixNano: `${startMs}000000`,
      endTimeUnixNano: `${startMs + 20}000000`,
      ...(isFailed && { status: { code: 2, message: "refused" } }),
    };
  });
  const resource = { attributes: [{ key: "service.name", value: { stringValue: SERVICE } }] };
  const body = JSON.stringify({ resourceSpans: [{ resource, scopeSpans: [{ spans }] }] });
  expect((await signedPost(backend.apiUrl, "/ingest/traces", key, body)).status).toBe(204);
}

beforeAll(async () => {
  const bearer = await backend.operator();
  const { json } = await call("POST", `${backend.apiUrl}/api/keys`, { bearer, body: { name: "sender" } });
  await sendCalls(json.api_key);
  const slo = { name: SLO, objective: 99.9, window: "7d", indicator: { availability: { service: SERVICE } } };
  const created = await call("POST", `${backend.apiUrl}/alerting/slos`, { bearer, body: slo });
  expect(created.status, created.text).toBe(201);
  sloId = created.json.id;
  await eventually("the figures of the objective are recorded", async () => {
    const [listed] = (await call("GET", `${backend.apiUrl}/query/slos`, { bearer })).json as Record<string, unknown>[];
    return typeof listed?.["budget_remaining"] === "number" && typeof listed["burn_rate"] === "number";
  });
});

const SCREENS: readonly Screen[] = [
  [
    "changes",
    "#/changes",
    async (page) =>
      await page
        .getByRole("link", { name: /^errors of/ })
        .first()
        .waitFor(),
  ],
  ["objectives", "#/slos", async (page) => await page.getByRole("link", { name: SLO }).waitFor()],
];

describe.each(LOOKS)("%s", (_name, options) => {
  test("the screens show their data, pass the accessibility check, and fit the window", async () => {
    const page = await ui.open(options);
    const slo: Screen = ["objective", `#/slos/${sloId}`, async (page) => await page.getByRole("table", { name: /^History/ }).waitFor()];
    expect(await faultsOf(page, [...SCREENS, slo])).toEqual([]);
  });
});

test("keys open Changes, which names the service that fails; a link leads to its failed spans, and Back to the list", async () => {
  const page = await ui.open();
  await page.keyboard.press("g");
  await page.keyboard.press("c");
  await page.getByRole("heading", { name: "Changes", exact: true }).waitFor();
  await settled(page);
  const problem = page.getByRole("link", { name: /^errors of .* rose from 0 % to/ }).first();
  expect(await problem.textContent()).toContain(SERVICE);
  expect(await page.getByRole("status").textContent()).toMatch(/\d+ changes?.* problem.* compared with /);
  expect(await page.getByText("Not compared").count()).toBe(0);
  await problem.focus();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Traces", exact: true }).waitFor();
  expect(new URLSearchParams(page.url().split("?")[1]).get("service")).toBe(SERVICE);
  expect(new URLSearchParams(page.url().split("?")[1]).get("error")).toBe("true");
  await page.getByRole("row").filter({ hasText: "POST /pay" }).first().waitFor();
  await page.goBack();
  await problem.waitFor();
});

test("a comparison with yesterday is chosen, kept in the address, and finds nothing to compare calls with", async () => {
  const page = await ui.open();
  await openScreen(page, "#/changes");
  await page.getByLabel("compared with").selectOption("yesterday");
  await settled(page);
  expect(new URLSearchParams(page.url().split("?")[1]).get("with")).toBe("yesterday");
  await page
    .getByRole("link", { name: /^errors of/ })
    .first()
    .waitFor({ state: "detached" });
  expect(await page.getByText("There is no data in the range before to compare with").count(), "said once for all parts").toBe(1);
  await page.reload();
  await page.getByRole("heading", { name: "Changes", exact: true }).waitFor();
  await settled(page);
  expect(await page.getByLabel("compared with").inputValue()).toBe("yesterday");
});

test("changes of one service are shown, and a click shows all", async () => {
  const page = await ui.open();
  await openScreen(page, `#/changes?${new URLSearchParams({ service: "another" }).toString()}`);
  await page.getByText("Nothing changed that is more than chance").waitFor();
  await page.getByRole("link", { name: /show all/ }).click();
  await page
    .getByRole("link", { name: /^errors of/ })
    .first()
    .waitFor();
  expect(ui.complaints()).toEqual([]);
});

test("keys open the objectives; a click opens one with its budget, burn rates and history", async () => {
  const page = await ui.open();
  await page.keyboard.press("g");
  await page.keyboard.press("b");
  await page.getByRole("heading", { name: "Service level objectives" }).waitFor();
  expect(await page.getByRole("status").textContent()).toContain("1 without error budget");
  expect(await page.getByRole("meter").count()).toBe(1);
  await page.getByRole("link", { name: SLO }).click();
  await page.getByRole("heading", { name: SLO }).waitFor();
  const bad = page.getByText(/\d+ of 2\d\d; 0\.2\d* are allowed/);
  await bad.waitFor();
  const history = page.getByRole("table", { name: "History, newest first" });
  // Calls of two hours are in one or two points of two hours each; those without events are left out.
  expect(await history.getByRole("row").count()).toBeOneOf([2, 3]);
  expect(await page.locator("canvas").count()).toBe(1);
  await page.getByRole("link", { name: "Rules and alerts" }).click();
  await page.getByText(`SLO ${SLO}: burn rate 14.4 over 1h`).first().waitFor();
});

test("an objective is created, changed and removed with the keyboard; what the form has no field for stays", async () => {
  const page = await ui.open();
  const type = async (label: string | RegExp, text: string): Promise<void> => {
    await page.getByLabel(label, { exact: true }).focus();
    await page.keyboard.press("Control+a");
    await page.keyboard.type(text);
  };
  await openScreen(page, "#/slos");
  await page.getByRole("link", { name: "Create objective" }).press("Enter");
  await page.locator("[name=name]:focus").waitFor();
  await page.keyboard.type("Logins are fast");
  await page.getByRole("combobox", { name: "Counts", exact: true }).selectOption("latency");
  await type("Service", "login");
  await type("Good if it takes at most", "250ms");
  await type("Percent good", "99.5");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Logins are fast" }).waitFor();
  await page.getByText("calls of login within 250ms").waitFor();
  await page.getByText("99.5 % in 30d").waitFor();
  await page.goBack();
  await page.getByRole("link", { name: "Logins are fast" }).waitFor();

  const bearer = await backend.operator();
  const listed = async () =>
    ((await call("GET", `${backend.apiUrl}/alerting/slos`, { bearer })).json as { id: string; name: string }[]).find(
      ({ name }) => name !== SLO,
    );
  const created = await listed();
  const body = {
    name: "Gateway",
    objective: 99,
    window: "month",
    labels: { team: "web" },
    indicator: { logs: { total: { source: "gateway" }, bad: { query: "status>=500" } } },
  };
  const replaced = await call("PUT", `${backend.apiUrl}/alerting/slos/${created?.id}`, { bearer, body });
  expect(replaced.status, replaced.text).toBe(200);
  await page.reload();
  await page.getByRole("link", { name: "Gateway" }).click();
  await page.getByRole("link", { name: "Edit", exact: true }).click();
  await page.getByText("And source=gateway").waitFor();
  await type(/^These records/, "status>=400");
  await page.getByLabel("alert if the error budget is used too fast").press("Space");
  await page.getByRole("button", { name: "Save" }).press("Enter");
  await page.getByText("bad: status>=400; all: source=gateway").waitFor();
  expect(await listed()).toMatchObject({
    ...body,
    alerts: false,
    indicator: { logs: { total: { source: "gateway" }, bad: { query: "status>=400" } } },
  });

  await page.getByRole("link", { name: "Edit", exact: true }).click();
  await page.getByRole("button", { name: "Remove objective" }).press("Enter");
  await page.getByRole("dialog").getByRole("button", { name: "Remove" }).press("Enter");
  await page.getByRole("link", { name: SLO }).waitFor();
  expect(await listed()).toBeUndefined();
});

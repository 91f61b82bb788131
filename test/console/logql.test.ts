// LogQL in the log field of the console and of the command line, in a real Chromium with a real backend: records with their counts, fields
// and patterns, clicks that add stages, a chart of a metric query, and unsupported queries.
import { beforeAll, expect, test } from "vitest";
import { runClient } from "../../backend/cli/run-client.fixture.ts";
import { backendOfFile } from "../fixtures/backend-of-file.ts";
import { adminPassword } from "../fixtures/backend-process.ts";
import { LOOKS, openScreen, violations } from "../fixtures/browser.ts";
import { consoleOfFile } from "../fixtures/console-of-file.ts";
import { call, signedPost } from "../fixtures/processes.ts";

const backend = backendOfFile();
const ui = consoleOfFile(backend, { expected: /status of 40[01]/ });

beforeAll(async () => {
  const made = await call("POST", `${backend.apiUrl}/api/keys`, { bearer: await backend.operator(), body: { name: "loader" } });
  const attributes = (pairs: Record<string, string>) =>
    Object.entries(pairs).map(([key, stringValue]) => ({ key, value: { stringValue } }));
  const logRecords = Array.from({ length: 60 }, (_, at) => ({
    timeUnixNano: `${Date.now() - at * 20_000}000000`,
    severityText: at % 3 ? "INFO" : "ERROR",
    body: { stringValue: at % 2 ? `GET /cart in ${at} ms` : `{"status":${at % 4 ? 200 : 503},"provider":"acme-${at}"}` },
    attributes: attributes({ "http.route": at % 2 ? "/cart" : "/pay" }),
  }));
  const resource = { attributes: attributes({ "service.name": "shop" }) };
  const body = JSON.stringify({ resourceLogs: [{ resource, scopeLogs: [{ logRecords }] }] });
  const headers = { "content-type": "application/json" };
  expect((await signedPost(backend.apiUrl, "/ingest/logs/otlp", made.json.api_key, body, headers)).status).toBe(204);
});

test.each(LOOKS)("LogQL in the log field, %s", async (_look, options) => {
  const page = await ui.open(options);
  await openScreen(page, "#/logs?fields=1");
  const field = page.getByRole("combobox", { name: "Query" });
  const ask = async (query: string): Promise<void> => {
    await field.fill(query);
    await page.keyboard.press("Enter");
  };
  const rows = page.getByRole("grid", { name: "Log records" });
  await ask('{service_name="shop"} |= "cart"');
  await rows.and(page.locator('[aria-rowcount="30"]')).waitFor();
  await page.getByText("In the newest 30 matching records").waitFor();
  await page.getByRole("button", { name: "Only level error" }).click();
  await rows.and(page.locator('[aria-rowcount="10"]')).waitFor();
  expect(await field.inputValue()).toBe('{service_name="shop"} |= "cart" | level="error"');
  await page.getByRole("button", { name: "Patterns" }).click();
  await page.getByText("1 pattern of 10 records").waitFor();
  await page.getByRole("button", { name: /^Without GET/ }).click();
  await page.getByText("No records match.").waitFor();

  await ask('{service_name="shop"} | json | status >= 500 | line_format "{{.provider}} failed"');
  await rows.and(page.locator('[aria-rowcount="15"]')).waitFor();
  await rows.getByText("acme-0 failed").waitFor();
  await page.getByText("records are counted by a selector").first().waitFor();
  expect(await violations(page)).toEqual([]);

  await ask('sum by (level) (count_over_time({service_name="shop"}[5m]))');
  await page.getByRole("img", { name: /^2 series over time/ }).waitFor();
  await page.getByRole("rowheader", { name: "error" }).waitFor();
  expect(await violations(page)).toEqual([]);
  expect(await page.evaluate("document.documentElement.scrollWidth > innerWidth")).toBe(false);

  await ask('{service_name="shop"} |= ');
  await page.getByRole("alert").waitFor();
  expect(await field.getAttribute("aria-invalid")).toBe("true");
  await ask('{service_name="shop"}');
  await rows.and(page.locator('[aria-rowcount="60"]')).waitFor();
});

test("`atherops logs` accepts the same query", async () => {
  const client = async (args: readonly string[], input = "") =>
    await runClient(args, { url: backend.apiUrl, sessionFile: `${backend.folder}/session.json`, input });
  expect((await client(["login"], adminPassword(backend.place))).code).toBe(0);
  const found = await client(["logs", '{service_name="shop"} | json | status >= 500 | line_format "{{.provider}} failed"']);
  expect(found.out.trim().split("\n")).toHaveLength(15);
  expect(found.out).toContain("acme-0 failed");
  expect((await client(["logs", "--histogram", '{service_name="shop"} | json | status >= 500'])).err).toContain(
    "records are counted by a selector",
  );
  expect((await client(["logs", 'rate({service_name="shop"}[5m])'])).err).toContain("a metric query of LogQL");
});

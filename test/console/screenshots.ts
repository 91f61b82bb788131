// `npm run screenshots`: the pictures of the console in docs/screenshots, of a real backend with a real agent's metrics, and an hour of logs
// and traces of a small shop. They stay true by being taken again.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { adminPassword, backendPlace, login, startBackend } from "../fixtures/backend-process.ts";
import { logInBy, openBrowser, openPage } from "../fixtures/browser.ts";
import { hostAgentPlace, startHostAgent } from "../fixtures/host-agent-process.ts";
import { call, ROOT, temporaryFolder } from "../fixtures/processes.ts";
import { sendVisits, SHOWN, visit } from "../fixtures/shop-visits.ts";

const FOLDER = join(ROOT, "docs", "screenshots");
const HOUR_MS = 3_600_000;
const SHOPPERS = 150;

await using stack = new AsyncDisposableStack();
const folder = stack.use(temporaryFolder());
const place = await backendPlace(folder.path);
const backend = await startBackend(place);
stack.defer(async () => void (await backend.end()));
const token = await login(place.apiUrl, "admin@localhost", adminPassword(place));
const { json } = await call("POST", `${place.apiUrl}/api/install-tokens`, { bearer: token, body: {} });
const agentPlace = await hostAgentPlace(folder.path, place.apiUrl, {
  INSTALL_TOKEN: json.token,
  METRICS_INTERVAL: "2s",
  HEARTBEAT_INTERVAL: "2s",
});
const agent = await startHostAgent(agentPlace);
stack.defer(async () => void (await agent.end()));
const nowMs = Date.now();
const visits = Array.from({ length: SHOPPERS }, (_, at) =>
  visit(at, nowMs - HOUR_MS * ((SHOPPERS - at) / (SHOPPERS + 4)) ** 1.3, at === SHOPPERS - 1),
);
await sendVisits(agentPlace.otlpHttp, visits.flat());
// A minute of metrics, so that there is a line to be seen.
await sleep(60_000);

const browser = await openBrowser();
stack.defer(async () => await browser.close());
mkdirSync(FOLDER, { recursive: true });
const opened = stack.use(await openPage(browser, place.apiUrl, { colorScheme: "light", viewport: { width: 1280, height: 720 } }, /401/));
const { page } = opened;
await logInBy(page, "admin@localhost", adminPassword(place));
const SCREENS: [string, string, () => Promise<unknown>][] = [
  ["overview", "#/overview", async () => await page.getByRole("link", { name: "shop", exact: true }).waitFor()],
  ["logs", "#/logs", async () => await page.getByRole("row").filter({ hasText: "given up" }).click()],
  ["trace", `#/traces/${SHOWN}`, async () => await page.getByRole("row").filter({ hasText: "UPDATE stock" }).click()],
  [
    "metrics",
    `#/metrics?q=${encodeURIComponent("sum by (state) (system_memory_usage_bytes)")}&from=5m`,
    async () => await page.getByRole("cell", { name: /used/ }).waitFor(),
  ],
];
for (const [name, address, isThere] of SCREENS) {
  await page.goto(`/${address}`);
  await isThere();
  await sleep(500);
  await page.screenshot({ path: join(FOLDER, `${name}.png`) });
  console.log(`docs/screenshots/${name}.png`);
}

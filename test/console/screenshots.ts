// `npm run screenshots`: the pictures of the console in docs/screenshots, of a real backend with a real agent's metrics, and an hour of logs
// and traces of a small shop. They stay true by being taken again.
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { adminPassword, backendPlace, login, startBackend } from "../fixtures/backend-process.ts";
import { logInBy, openBrowser, openPage } from "../fixtures/browser.ts";
import { hostAgentPlace, startHostAgent } from "../fixtures/host-agent-process.ts";
import { call, ROOT, temporaryFolder } from "../fixtures/processes.ts";

const FOLDER = join(ROOT, "docs", "screenshots");
const HOUR_MS = 3_600_000;
const SHOPPERS = 150;
const SHOWN = "0af7651916cd43dd8448eb211c80319c";

const text = (stringValue: string) => ({ stringValue });
const attributes = (pairs: Record<string, string>) => Object.entries(pairs).map(([key, value]) => ({ key, value: text(value) }));
const ns = (ms: number): string => `${Math.round(ms)}000000`;
const hex = (value: number, digits: number): string => value.toString(16).padStart(digits, "0");

interface Made {
  readonly service: string;
  readonly span?: object;
  readonly record?: object;
}

/** What one visit leaves behind: a trace of four services, and their lines. The last one is the one that is shown, and fails. */
function visit(number: number, startMs: number, isShown: boolean): Made[] {
  const traceId = isShown ? SHOWN : hex(number + 1, 32);
  const slow = isShown ? 9 : 1 + (number % 7);
  const id = (part: number): string => hex(number * 16 + part + 1, 16);
  const span = (
    service: string,
    part: number,
    parent: number | undefined,
    name: string,
    from: number,
    to: number,
    more: object = {},
  ): Made => ({
    service,
    span: {
      traceId,
      spanId: id(part),
      parentSpanId: parent === undefined ? "" : id(parent),
      name,
      kind: 2,
      startTimeUnixNano: ns(startMs + from),
      endTimeUnixNano: ns(startMs + to),
      ...more,
    },
  });
  const line = (service: string, part: number, at: number, severityText: string, body: string): Made => ({
    service,
    record: {
      timeUnixNano: ns(startMs + at),
      severityText,
      traceId,
      spanId: id(part),
      body: text(body),
      attributes: attributes({ "http.route": "/cart" }),
    },
  });
  const failed = isShown ? { status: { code: 2, message: "lock wait timeout" } } : {};
  const end = 90 + slow * 60;
  return [
    span("shop", 0, undefined, "GET /cart", 0, end + 20, {
      attributes: attributes({ "http.route": "/cart", "http.response.status_code": isShown ? "503" : "200" }),
    }),
    span("accounts", 1, 0, "check session", 4, 30),
    span("cart", 2, 0, "load cart", 35, end),
    ...[0, 1, 2, 3].map((item) => span("stock", 3 + item, 2, `SELECT item ${item}`, 40 + item * 12, 48 + item * 12)),
    span("stock", 8, 2, "UPDATE stock", 95, end - 5, failed),
    line("shop", 0, end, isShown ? "ERROR" : "INFO", `GET /cart ${isShown ? 503 : 200} in ${end + 20} ms`),
    line("stock", 8, end - 6, isShown || slow > 5 ? "WARN" : "DEBUG", `waited ${end - 100} ms for the lock of item ${number % 40}`),
    ...(isShown ? [line("stock", 8, end - 5, "ERROR", "lock wait timeout exceeded; the cart is given up")] : []),
  ];
}

async function send(otlp: string, made: readonly Made[]): Promise<void> {
  const by = Map.groupBy(made, ({ service }) => service);
  const resources = <T>(pick: (one: Made) => T | undefined, wrap: (all: T[]) => object) =>
    [...by].map(([name, all]) => ({
      resource: { attributes: attributes({ "service.name": name }) },
      ...wrap(all.map(pick).filter((one) => one !== undefined)),
    }));
  await call("POST", `${otlp}/v1/traces`, {
    body: {
      resourceSpans: resources(
        (one) => one.span,
        (spans) => ({ scopeSpans: [{ spans }] }),
      ),
    },
  });
  await call("POST", `${otlp}/v1/logs`, {
    body: {
      resourceLogs: resources(
        (one) => one.record,
        (logRecords) => ({ scopeLogs: [{ logRecords }] }),
      ),
    },
  });
}

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
await send(agentPlace.otlpHttp, visits.flat());
// A minute of metrics, so that there is a line to be seen.
await sleep(60_000);

const browser = await openBrowser();
stack.defer(async () => await browser.close());
mkdirSync(FOLDER, { recursive: true });
const opened = stack.use(await openPage(browser, place.apiUrl, { colorScheme: "light", viewport: { width: 1280, height: 720 } }, /401/));
const { page } = opened;
await logInBy(page, "admin@localhost", adminPassword(place));
const SCREENS: [string, string, () => Promise<unknown>][] = [
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

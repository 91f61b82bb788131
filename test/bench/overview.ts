// `npm run bench -- overview [--stored 10000000] [--folder DIR] [--minutes 60] [--seconds 6]`: the overview in a real Chromium against the
// real backend with its embedded engines, a day of logs and an hour of a shop on Kubernetes.
// --folder keeps the records for another run.
//   memory  --minutes of the overview with its own refreshes, every 30 s: the clock of the page is set forward, and every request is answered
//           by the backend. The heap after a collection, nodes and listeners at the start, in the middle and at the end. Reach: flat
//   frames  while the screen is scrolled, the pointer moves over its rows and over the charts of a service, and while it refreshes. Reach:
//           60 a second. Chromium draws by the processor here, so a machine without a graphics card is the worst case
import { parseArgs } from "node:util";
import type { Page } from "playwright-core";
import { adminPassword } from "../fixtures/backend-process.ts";
import { logInBy, openBrowser, openPage, openScreen, settled } from "../fixtures/browser.ts";
import { temporaryFolder } from "../fixtures/processes.ts";
import { startFilled } from "./overview/filled-backend.ts";
import { framesDuring, scroll } from "./overview/frames.ts";

const REFRESH_MS = 30_000;
const WARM_UP = 5;

const { values: options } = parseArgs({
  options: {
    folder: { type: "string" },
    stored: { type: "string", default: "10000000" },
    minutes: { type: "string", default: "60" },
    seconds: { type: "string", default: "6" },
  },
});
const [minutes, seconds] = [Number(options.minutes), Number(options.seconds)];

async function main(): Promise<void> {
  using folder = options.folder === undefined ? temporaryFolder() : undefined;
  await using backend = await startFilled(options.folder ?? folder?.path ?? "", Number(options.stored));
  await using browser = await openBrowser();
  const open = async () => {
    const opened = await openPage(browser, backend.place.apiUrl, { viewport: { width: 1440, height: 900 } }, /401/);
    await logInBy(opened.page, "admin@localhost", adminPassword(backend.place));
    return opened;
  };
  await using first = await open();
  const frames = await framesOf(first.page);
  console.table(frames);
  await using second = await open();
  const memory = await memoryOf(second.page);
  console.table(memory);
  const complaints = [...first.complaints, ...second.complaints];
  if (complaints.length > 0) throw new Error(`the page complained: ${complaints.join("; ")}`);
  console.log(JSON.stringify({ bench: "overview", options, node: process.version, frames, memory }));
}

async function framesOf(page: Page): Promise<Record<string, Record<string, string>>> {
  const services = page.getByRole("table", { name: "Services" });
  await services.getByRole("link").first().waitFor();
  const scrolled = await framesDuring(page, async () => await scroll(page, "main", seconds));
  const pointed = await framesDuring(page, async () => await sweep(page, "main"));
  const refreshed = await framesDuring(page, async () => {
    // Refreshed every five seconds, and twice in this time.
    await openScreen(page, "#/overview?refresh=5s");
    await page.waitForTimeout(2 * 5500);
  });
  await services.getByRole("link").first().click();
  await page.getByRole("figure", { name: "Latency" }).locator("canvas").waitFor();
  await settled(page);
  const charts = await framesDuring(page, async () => await sweep(page, ".charts"));
  return {
    "overview, scrolled": scrolled,
    "overview, pointer": pointed,
    "overview, refreshed twice": refreshed,
    "service, pointer over charts": charts,
  };
}

/** The pointer moves from side to side, in small steps. */
async function sweep(page: Page, selector: string): Promise<void> {
  const box = await page.locator(selector).first().boundingBox();
  if (!box) throw new Error(`${selector} is not on the page`);
  const untilMs = performance.now() + seconds * 1000;
  for (let at = 0; performance.now() < untilMs; at++) {
    const share = (at % 200) / 100;
    const across = share < 1 ? share : 2 - share;
    await page.mouse.move(box.x + across * box.width, box.y + Math.min(box.height, 700) * (0.3 + 0.4 * across));
  }
}

async function memoryOf(page: Page): Promise<Record<string, Record<string, number>>> {
  const session = await page.context().newCDPSession(page);
  await session.send("HeapProfiler.enable");
  await session.send("Performance.enable");
  await page.clock.install({ time: Date.now() });
  await page.reload();
  await page.getByRole("table", { name: "Services" }).getByRole("link").first().waitFor();
  let requests = 0;
  page.on("requestfinished", (request) => void (requests += request.url().includes("/query/problems") ? 1 : 0));
  const refreshOnce = async (): Promise<void> => {
    const answered = page.waitForResponse((response) => response.url().includes("/query/problems"));
    await page.clock.runFor(REFRESH_MS);
    await answered;
    await settled(page);
  };
  const reading = async (): Promise<Record<string, number>> => {
    // Twice, because the first collection runs finalizers.
    for (const _ of [1, 2]) await session.send("HeapProfiler.collectGarbage");
    const { metrics } = await session.send("Performance.getMetrics");
    const of = (name: string): number => metrics.find((metric) => metric.name === name)?.value ?? Number.NaN;
    return {
      refreshes: requests,
      "heap, kB": Math.round(of("JSHeapUsedSize") / 1000),
      nodes: of("Nodes"),
      listeners: of("JSEventListeners"),
    };
  };
  const readings: Record<string, Record<string, number>> = {};
  for (let at = 0; at < WARM_UP; at++) await refreshOnce();
  readings["start"] = await reading();
  const refreshes = Math.ceil((minutes * 60_000) / REFRESH_MS);
  for (const part of ["middle", "end"]) {
    for (let at = 0; at < refreshes / 2; at++) await refreshOnce();
    readings[part] = await reading();
  }
  return readings;
}

await main();

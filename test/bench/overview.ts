// `npm run bench -- overview [--services 200] [--nodes 1000] [--records 10000000] [--minutes 60] [--refresh 5s]`: the console of a large
// organisation in a real Chromium. First the time from the address to a usable screen, and frames per second while it is scrolled, for the
// overview, the services and the fleet; then the overview stays open with auto-refresh, and each minute prints the JavaScript heap after
// garbage collection, its objects without compiled code, DOM nodes and listeners. `--faster 20` runs the page's timers 20 times as fast, so
// that three minutes are an hour of refreshes. To reach: usable within 1 s, 60 frames per second, and after an hour at most 5 % more objects,
// nodes and listeners than after five minutes.
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import type { CDPSession, Page } from "playwright-core";
import { adminPassword, backendPlace, login, startBackend } from "../fixtures/backend-process.ts";
import { logInBy, openBrowser, openPage } from "../fixtures/browser.ts";
import { cpuMs, report, shown } from "../fixtures/measure.ts";
import { call, temporaryFolder } from "../fixtures/processes.ts";
import { LargeOrganisation } from "./overview/fill.ts";
import { growth, type Heap, heapOf, objectsKb } from "./overview/heap.ts";

const { values } = parseArgs({
  options: {
    services: { type: "string", default: "200" },
    nodes: { type: "string", default: "1000" },
    records: { type: "string", default: "10000000" },
    minutes: { type: "string", default: "60" },
    refresh: { type: "string", default: "5s" },
    rounds: { type: "string", default: "5" },
    faster: { type: "string", default: "1" },
  },
});
const [SPANS_EVERY_MS, HEARTBEATS_EVERY_MS, MINUTE_MS, SCROLLED_MS] = [10_000, 30_000, 60_000, 3000];
const ADMIN = "admin@localhost";

await using stack = new AsyncDisposableStack();
const folder = stack.use(temporaryFolder());
const place = await backendPlace(folder.path);
const backend = await startBackend(place);
stack.defer(async () => void (await backend.end()));
const backendPid = backend.child.pid ?? 0;
const bearer = await login(place.apiUrl, ADMIN, adminPassword(place));
const organisation = new LargeOrganisation(place.apiUrl, {
  services: Number(values.services),
  nodes: Number(values.nodes),
  records: Number(values.records),
});
await organisation.fill(async () => (await call("POST", `${place.apiUrl}/api/install-tokens`, { bearer, body: {} })).json.token as string);
console.log("filled");
const browser = await openBrowser();
stack.defer(async () => await browser.close());
const opened = stack.use(await openPage(browser, place.apiUrl, { viewport: { width: 1440, height: 900 } }, /status of 401/));
const { page, complaints } = opened;
// Long enough for a machine under load.
page.setDefaultTimeout(5 * 60_000);
await logInBy(page, ADMIN, adminPassword(place));
const cdp = await page.context().newCDPSession(page);
await cdp.send("Performance.enable", { timeDomain: "threadTicks" });

const SCREENS: readonly [name: string, address: string, isUsable: (page: Page) => Promise<unknown>][] = [
  [
    "overview",
    `/#/overview`,
    async () =>
      await page
        .getByRole("table")
        .getByRole("link", { name: /^service-/ })
        .first()
        .waitFor(),
  ],
  [
    "services",
    `/#/services`,
    async () =>
      await page
        .getByRole("link", { name: /^service-/ })
        .first()
        .waitFor(),
  ],
  [
    "fleet",
    `/#/fleet`,
    async () =>
      await page
        .getByRole("link", { name: /^node-/ })
        .first()
        .waitFor(),
  ],
];
const speed: Record<string, Record<string, string>> = {};
for (const [name, address, isUsable] of SCREENS) {
  const found: Record<string, number[]> = {};
  const add = (figure: string, value: number): void => void (found[figure] ??= []).push(value);
  for (let round = 0; round < Number(values.rounds); round += 1) {
    await page.goto("about:blank");
    const before = [performance.now(), await mainThreadMs(), cpuMs(backendPid)] as const;
    await page.goto(address);
    await isUsable(page);
    add("usable ms", performance.now() - before[0]);
    add("page CPU ms", (await mainThreadMs()) - before[1]);
    add("backend CPU ms", cpuMs(backendPid) - before[2]);
    const beforeMs = await mainThreadMs();
    const { count, perSecond, longestFrameMs } = await scroll(page);
    add("page CPU ms a frame", ((await mainThreadMs()) - beforeMs) / count);
    add("frames/s", perSecond);
    add("longest frame ms", longestFrameMs);
  }
  speed[name] = Object.fromEntries(Object.entries(found).map(([figure, numbers]) => [figure, shown(numbers, 1)]));
}
report("overview", values, speed);

/** CPU time of the page's main thread, which no other program's load makes longer. */
async function mainThreadMs(): Promise<number> {
  const { metrics } = await cdp.send("Performance.getMetrics");
  return (metrics.find(({ name }) => name === "TaskDuration")?.value ?? Number.NaN) * 1000;
}

/** Turns the wheel for some seconds, down and up, and counts the frames. */
async function scroll(target: Page): Promise<{ count: number; perSecond: number; longestFrameMs: number }> {
  await target.mouse.move(700, 500);
  const counted = target.evaluate(async (forMs) => {
    const { requestAnimationFrame } = globalThis as typeof globalThis & { requestAnimationFrame: (run: (at: number) => void) => void };
    const times: number[] = [];
    await new Promise<void>((done) => {
      const next = (at: number): void => {
        times.push(at);
        if (at - (times[0] ?? at) < forMs) requestAnimationFrame(next);
        else done();
      };
      requestAnimationFrame(next);
    });
    const gaps = times.slice(1).map((at, index) => at - (times[index] ?? at));
    const perSecond = (gaps.length * 1000) / ((times.at(-1) ?? 0) - (times[0] ?? 0));
    return { count: gaps.length, perSecond, longestFrameMs: Math.max(...gaps) };
  }, SCROLLED_MS);
  const over = new AbortController();
  const turning = (async () => {
    for (let turn = 0; !over.signal.aborted; turn += 1) {
      await target.mouse.wheel(0, Math.floor(turn / 40) % 2 === 0 ? 120 : -120);
      await sleep(16);
    }
  })();
  const result = await counted;
  over.abort();
  await turning;
  return result;
}

for (const [everyMs, work] of [
  [SPANS_EVERY_MS, () => organisation.sendSpans(Date.now() - MINUTE_MS)],
  [HEARTBEATS_EVERY_MS, () => organisation.sendHeartbeats()],
] as const) {
  const timer = setInterval(() => void work().catch((error: Error) => console.error(error.message)), everyMs);
  stack.defer(() => clearInterval(timer));
}

await page.addInitScript((factor) => {
  const { setInterval: original } = globalThis;
  globalThis.setInterval = ((run: () => void, ms: number) => original(run, ms / factor)) as typeof setInterval;
}, Number(values.faster));
await page.goto("about:blank");
await page.goto(`/#/overview?refresh=${values.refresh}`);
await cdp.send("HeapProfiler.enable");
const minutes: Record<string, Usage> = {};
let [first, last]: Heap[] = [];
for (let minute = 1; minute <= Number(values.minutes); minute += 1) {
  await sleep(MINUTE_MS / Number(values.faster));
  last = await heapOf(cdp);
  const usage = await usageOf(cdp, last);
  minutes[`minute ${minute}`] = usage;
  if (minute === 5) first = last;
  console.log(minute, JSON.stringify(usage));
}
if (first && last) report("overview, what grew since minute 5, kB", values, { objects: growth(first, last) });
for (const complaint of complaints) console.error(complaint);
if (complaints.length > 0) process.exitCode = 1;
if (Object.keys(minutes).length > 0) report("overview, open", values, minutes);

interface Usage extends Record<string, number> {
  heapKb: number;
  objectsKb: number;
  /** DOM nodes, in the page or detached from it. */
  nodes: number;
  nodesInPage: number;
  listeners: number;
}

async function usageOf(session: CDPSession, heap: Heap): Promise<Usage> {
  const { metrics } = await session.send("Performance.getMetrics");
  const valueOf = (name: string): number => metrics.find((metric) => metric.name === name)?.value ?? Number.NaN;
  return {
    heapKb: Math.round(valueOf("JSHeapUsedSize") / 1024),
    objectsKb: objectsKb(heap),
    nodes: valueOf("Nodes"),
    nodesInPage: await page.evaluate<number>("document.evaluate('count(//node())', document).numberValue"),
    listeners: valueOf("JSEventListeners"),
  };
}

// The memory of a page that follows logs as they come: what JavaScript holds after a collection, how many nodes there are, and what the
// page's process has resident. Invariant: the first reading comes when the list is as long as it becomes (MOST_TAILED of
// backend/console/logs/rows.ts), so that what is compared is a full list with a full list.
import { setTimeout as sleep } from "node:timers/promises";
import type { CDPSession, Page } from "playwright-core";
import { INGEST_PATHS, LoadBody } from "../../fixtures/otlp-load.ts";
import { eventually, signedPost } from "../../fixtures/processes.ts";
import { residentMb } from "../../fixtures/measure.ts";
import type { Filled } from "./filled-backend.ts";

const BODIES_PER_S = 4;
const READINGS = 12;
const FULL_ROWS = 5000;
const SETTLED_MS = 2000;

interface Sent {
  records: number;
  isPaused: boolean;
}

interface Reading {
  readonly heapMb: number;
  readonly nodes: number;
  readonly residentMb: number;
}

export async function tailed(
  page: Page,
  backend: Filled,
  { seconds, rate }: { seconds: number; rate: number },
): Promise<Record<string, string>> {
  await page.goto("/#/logs?live=1");
  await page.getByRole("button", { name: "Pause" }).waitFor();
  const stop = new AbortController();
  const sent: Sent = { records: 0, isPaused: false };
  const sending = send(backend, rate, sent, stop.signal);
  try {
    await eventually("the list is full", async () => (await shownRows(page)) >= FULL_ROWS, 600_000);
    const session = await page.context().newCDPSession(page);
    const pid = await rendererPid(page);
    const before = sent.records;
    // What has come and is not drawn yet is more now and less then: nothing is under way while memory is read.
    const quiet = async <T>(reading: () => Promise<T>): Promise<T> => {
      sent.isPaused = true;
      await sleep(SETTLED_MS);
      const found = await reading();
      sent.isPaused = false;
      return found;
    };
    const readings = [await quiet(async () => await read(session, pid))];
    for (let reading = 0; reading < READINGS; reading++) {
      await sleep((seconds * 1000) / READINGS);
      readings.push(await quiet(async () => await read(session, pid)));
    }
    const of = (pick: (one: Reading) => number, digits: number): string => readings.map((one) => pick(one).toFixed(digits)).join(", ");
    return {
      records: String(sent.records - before),
      "JavaScript's heap, MB": of((one) => one.heapMb, 1),
      nodes: of((one) => one.nodes, 0),
      "resident, MB": of((one) => one.residentMb, 0),
      "last ÷ first, heap": ((readings.at(-1)?.heapMb ?? 0) / (readings[0]?.heapMb ?? 1)).toFixed(2),
    };
  } finally {
    stop.abort();
    await sending;
  }
}

async function shownRows(page: Page): Promise<number> {
  const list = page.getByRole("grid", { name: "Log records" });
  return (await list.count()) === 0 ? 0 : Number(await list.getAttribute("aria-rowcount"));
}

/** At this rate, as far as the backend takes it; what it refuses is sent no more. */
async function send({ place, key }: Filled, rate: number, sent: Sent, stop: AbortSignal): Promise<void> {
  const records = Math.ceil(rate / BODIES_PER_S);
  const body = new LoadBody("logs", records);
  const everyMs = 1000 / BODIES_PER_S;
  for (let dueMs = performance.now(); !stop.aborted; dueMs = Math.max(dueMs + everyMs, performance.now() - 1000)) {
    await sleep(Math.max(0, dueMs - performance.now()));
    if (sent.isPaused) continue;
    const { status } = await signedPost(place.apiUrl, INGEST_PATHS.logs, key, Buffer.from(body.next()));
    if (status === 204) sent.records += records;
  }
}

async function read(session: CDPSession, pid: number): Promise<Reading> {
  await session.send("HeapProfiler.collectGarbage");
  const { usedSize } = await session.send("Runtime.getHeapUsage");
  const { nodes } = await session.send("Memory.getDOMCounters");
  return { heapMb: usedSize / 1e6, nodes, residentMb: residentMb(pid) };
}

/** The newest of the browser's page processes. */
async function rendererPid(page: Page): Promise<number> {
  const browser = page.context().browser();
  if (!browser) throw new Error("the page has no browser");
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = await session.send("SystemInfo.getProcessInfo");
  await session.detach();
  return Math.max(...processInfo.filter(({ type }) => type === "renderer").map(({ id }) => id));
}

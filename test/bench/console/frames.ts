// Frames while a list is scrolled, of the browser's own trace: when each was drawn, and which ones it left out for want of time. The
// scrolling is the browser's own gesture of a wheel, at a speed that shows new rows in every frame.
import type { Page } from "playwright-core";
import { quantile } from "../../fixtures/measure.ts";

const CATEGORIES = ["disabled-by-default-devtools.timeline.frame", "disabled-by-default-devtools.timeline", "devtools.timeline"];
const SPEED_PX_PER_S = 4000;
const FRAME_MS = 1000 / 60;
const LONG_TASK_MS = 50;

interface TraceEvent {
  readonly name: string;
  /** Microseconds. */
  readonly ts: number;
  readonly dur?: number;
  readonly args?: { readonly hasPartialUpdate?: boolean };
}

/** `at`: from 0, the top, to 1, the end, where it goes up instead. */
export async function scrolled(page: Page, selector: string, at: number, seconds: number): Promise<Record<string, string>> {
  const list = page.locator(selector);
  await list.evaluate((element, part) => void (element.scrollTop = (element.scrollHeight - element.clientHeight) * part), at);
  const box = await list.boundingBox();
  const chromium = page.context().browser();
  if (!box || !chromium) throw new Error(`${selector} is not on the page`);
  const session = await page.context().newCDPSession(page);
  await chromium.startTracing(page, { categories: CATEGORIES, screenshots: false });
  await session.send("Input.synthesizeScrollGesture", {
    x: box.x + box.width / 2,
    y: box.y + box.height / 2,
    yDistance: (at === 1 ? 1 : -1) * SPEED_PX_PER_S * seconds,
    speed: SPEED_PX_PER_S,
    preventFling: true,
    gestureSourceType: "mouse",
  });
  const { traceEvents } = JSON.parse((await chromium.stopTracing()).toString()) as { traceEvents: TraceEvent[] };
  await session.detach();
  return framesOf(traceEvents);
}

function framesOf(events: readonly TraceEvent[]): Record<string, string> {
  const drawn = events
    .filter(({ name }) => name === "DrawFrame")
    .map(({ ts }) => ts / 1000)
    .toSorted((a, b) => a - b);
  const betweenMs = drawn
    .slice(1)
    .map((ms, index) => ms - (drawn[index] ?? ms))
    .toSorted((a, b) => a - b);
  const spanMs = (drawn.at(-1) ?? 0) - (drawn[0] ?? 0);
  const dropped = events.filter(({ name }) => name === "DroppedFrame");
  const tasks = events.filter(({ name, dur = 0 }) => name === "RunTask" && dur > LONG_TASK_MS * 1000);
  return {
    "frames a second": (((drawn.length - 1) * 1000) / spanMs).toFixed(1),
    "between two, p50 / p99 / most, ms": [0.5, 0.99, 1].map((part) => quantile(betweenMs, part).toFixed(1)).join(" / "),
    "later than two frames": `${betweenMs.filter((ms) => ms > 2.5 * FRAME_MS).length} of ${betweenMs.length}`,
    // The compositor drew what it had; what the page had to say came a frame later.
    "without the page's part": String(dropped.filter(({ args }) => args?.hasPartialUpdate).length),
    "left out": String(dropped.filter(({ args }) => !args?.hasPartialUpdate).length),
    [`tasks above ${LONG_TASK_MS} ms`]: String(tasks.length),
  };
}

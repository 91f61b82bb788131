// Frames of the browser's own trace while something happens: when each was drawn, and which ones it left out for want of time.
import type { Page } from "playwright-core";
import { quantile } from "../../fixtures/measure.ts";

const CATEGORIES = ["disabled-by-default-devtools.timeline.frame", "disabled-by-default-devtools.timeline", "devtools.timeline"];
const SPEED_PX_PER_S = 1000;
const FRAME_MS = 1000 / 60;
const LONG_TASK_MS = 50;

interface TraceEvent {
  readonly name: string;
  /** Microseconds. */
  readonly ts: number;
  readonly dur?: number;
  readonly args?: { readonly hasPartialUpdate?: boolean };
}

/** The frames that are drawn until `act` ends. */
export async function framesDuring(page: Page, act: () => Promise<unknown>): Promise<Record<string, string>> {
  const chromium = page.context().browser();
  if (!chromium) throw new Error("the page belongs to no browser");
  await chromium.startTracing(page, { categories: CATEGORIES, screenshots: false });
  await act();
  const { traceEvents } = JSON.parse((await chromium.stopTracing()).toString()) as { traceEvents: TraceEvent[] };
  return framesOf(traceEvents);
}

/** The browser's own gesture of a wheel, down for half of the time and up again. */
export async function scroll(page: Page, selector: string, seconds: number): Promise<void> {
  const box = await page.locator(selector).boundingBox();
  if (!box) throw new Error(`${selector} is not on the page`);
  const session = await page.context().newCDPSession(page);
  for (const direction of [-1, 1])
    await session.send("Input.synthesizeScrollGesture", {
      x: box.x + box.width / 2,
      y: box.y + box.height / 2,
      yDistance: (direction * SPEED_PX_PER_S * seconds) / 2,
      speed: SPEED_PX_PER_S,
      preventFling: true,
      gestureSourceType: "mouse",
    });
  await session.detach();
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
    frames: String(drawn.length),
    "frames a second": (((drawn.length - 1) * 1000) / spanMs).toFixed(1),
    "between two, p50 / p99 / most, ms": [0.5, 0.99, 1].map((part) => quantile(betweenMs, part).toFixed(1)).join(" / "),
    // Times of vertical synchronisation vary by a fraction of a millisecond.
    "over 16.7 ms": String(betweenMs.filter((ms) => ms > FRAME_MS + 1).length),
    "over 33 ms": String(betweenMs.filter((ms) => ms > 2 * FRAME_MS + 1).length),
    // The compositor drew what it had; what the page had to say came a frame later.
    "without the page's part": String(dropped.filter(({ args }) => args?.hasPartialUpdate).length),
    "left out": String(dropped.filter(({ args }) => !args?.hasPartialUpdate).length),
    [`tasks above ${LONG_TASK_MS} ms`]: String(tasks.length),
  };
}

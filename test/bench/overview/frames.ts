// Frames of a page while something happens: the times at which the browser lets the page draw, which are late if the page is busy.
import type { Page } from "playwright-core";
import { quantile } from "../../fixtures/measure.ts";

const SPEED_PX_PER_S = 1000;
const FRAME_MS = 1000 / 60;
/** Times of vertical synchronisation vary by a fraction of a millisecond. */
const TOLERANCE_MS = 1;

// A loop ends when the next one begins or its times are taken: two would count each frame twice.
const BEGIN = `{
  const times = (window.frameTimes = []);
  requestAnimationFrame(function next(time) {
    if (window.frameTimes !== times) return;
    times.push(time);
    requestAnimationFrame(next);
  });
}`;
const END = `{
  const times = window.frameTimes;
  window.frameTimes = undefined;
  times;
}`;

/** The frames until `act` ends. */
export async function framesDuring(page: Page, act: () => Promise<unknown>): Promise<Record<string, string>> {
  await page.evaluate(BEGIN);
  await act();
  const times = await page.evaluate<number[]>(END);
  const betweenMs = times
    .slice(1)
    .map((ms, index) => ms - (times[index] ?? ms))
    .toSorted((a, b) => a - b);
  const spanMs = (times.at(-1) ?? 0) - (times[0] ?? 0);
  const over = (ms: number): string => String(betweenMs.filter((each) => each > ms + TOLERANCE_MS).length);
  return {
    frames: String(times.length),
    "frames a second": ((betweenMs.length * 1000) / spanMs).toFixed(1),
    "between two, p50 / p99 / most, ms": [0.5, 0.99, 1].map((part) => quantile(betweenMs, part).toFixed(1)).join(" / "),
    "over 16.7 ms": over(FRAME_MS),
    "over 33 ms": over(2 * FRAME_MS),
  };
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

import { beforeEach, expect, it, vi } from "vitest";
import { ReceivedWindow, WINDOW_S } from "./stored-days.ts";

const HOUR_MS = 3_600_000;
const START_S = 1_800_000_000;
const [clock, elapsed] = [vi.spyOn(Date, "now"), vi.spyOn(performance, "now")];

function set(passedMs: number, aheadMs = 0): void {
  clock.mockReturnValue(START_S * 1000 + passedMs + aheadMs);
  elapsed.mockReturnValue(passedMs);
}

let window: ReceivedWindow;
beforeEach(() => {
  set(0);
  window = new ReceivedWindow();
});

it("begins at the time of a body that arrived while the clock was set back, until that is longer ago than the window", () => {
  set(1000, -5 * HOUR_MS);
  window.note();
  set(2000);
  expect(window.sinceS()).toBe(START_S - 5 * 3600 + 2 - WINDOW_S);
  for (const windows of [1, 2]) {
    set(windows * WINDOW_S * 1000 + 1000);
    window.note();
  }
  expect(window.sinceS()).toBe(START_S + 1 + WINDOW_S);
});

it("begins at the time of a body that arrived before the clock was set forward", () => {
  window.note();
  set(1000, 5 * HOUR_MS);
  expect(window.sinceS()).toBe(START_S + 1 - WINDOW_S);
});

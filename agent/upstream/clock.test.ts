import { pino } from "pino";
import { describe, expect, test } from "vitest";
import { BackendClock } from "./clock.ts";

function at(localMs: number): { clock: BackendClock; lines: string[]; local: { ms: number } } {
  const lines: string[] = [];
  const local = { ms: localMs };
  return { clock: new BackendClock(pino({}, { write: (line) => void lines.push(line) }), () => local.ms), lines, local };
}
const NOW = Date.parse("2026-11-21T10:00:00Z");
const date = (ms: number): string => new Date(ms).toUTCString();

describe("the signing clock", () => {
  test("uses this machine's time until the backend's is known, and while the difference is too small to measure", () => {
    const { clock, lines } = at(NOW);
    expect(clock.nowUnixS()).toBe(NOW / 1000);
    clock.observe(date(NOW + 1000), NOW, NOW + 200);
    clock.observe(undefined, NOW, NOW);
    clock.observe("yesterday-ish", NOW, NOW);
    expect(clock.skewS()).toBe(0);
    expect(lines).toEqual([]);
  });

  test("signs within the backend's window if this machine is hours off, and logs it once at each end", () => {
    const { clock, lines, local } = at(NOW);
    for (let i = 0; i < 3; i++) clock.observe(date(NOW + 7_200_000), NOW, NOW + 100);
    expect(Math.abs(clock.nowUnixS() - (NOW + 7_200_000) / 1000)).toBeLessThan(1);
    expect(lines).toHaveLength(1);
    expect(lines[0]).toContain("behind the backend's");
    local.ms = NOW + 7_200_000;
    clock.observe(date(local.ms), local.ms, local.ms + 100);
    expect(clock.nowUnixS()).toBe(local.ms / 1000);
    expect(lines).toHaveLength(2);
  });

  test("ignores a response that took too long, or during which this machine's clock was set back", () => {
    const { clock } = at(NOW);
    clock.observe(date(NOW + 60_000), NOW, NOW + 40_000);
    clock.observe(date(NOW + 60_000), NOW, NOW - 5_000);
    expect(clock.skewS()).toBe(0);
  });
});

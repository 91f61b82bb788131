import { expect, test } from "vitest";
import { rateText, shareText, worseBy, worstFirst } from "./service.ts";

const figures = (service: string, calls: number, error_ratio: number, p95_ms: number | null) => ({ service, calls, error_ratio, p95_ms });

test("orders degraded services first, then by calls; few calls and small changes do not count", () => {
  const before = [figures("slow", 100, 0, 100), figures("fails", 100, 0.01, 50), figures("busy", 9000, 0, 20), figures("few", 5, 0, 10)];
  const now = [figures("slow", 100, 0, 400), figures("busy", 9000, 0.005, 25), figures("few", 5, 1, 999), figures("fails", 100, 0.35, 50)];
  expect(worstFirst(now, before).map(({ service, worse }) => [service, worse > 0])).toEqual([
    ["fails", true],
    ["slow", true],
    ["busy", false],
    ["few", false],
  ]);
});

test.each([
  ["no calls before", 50, 0.2, undefined, 0, false],
  ["too few calls before", 50, 0.2, 9, 0, false],
  ["a steady 5 % that varies by chance", 100, 0.07, 100, 0.03, false],
  ["the same difference of many calls", 10_000, 0.07, 10_000, 0.03, true],
  ["all calls fail, of few", 10, 1, 10, 0, true],
  ["half of few calls fail", 10, 0.5, 10, 0, false],
  ["a significant difference below 1 %", 1_000_000, 0.009, 1_000_000, 0, false],
])("with %s, marks a service as degraded only if chance does not explain it", (_, calls, ratio, callsBefore, ratioBefore, isWorse) => {
  const before = callsBefore === undefined ? undefined : figures("a", callsBefore, ratioBefore, 10);
  expect(worseBy(figures("a", calls, ratio, 10), before) > 0).toBe(isWorse);
});

test.each([
  [0, "0", "0 %"],
  [0.0004, "0.024/min", "< 0.1 %"],
  [0.355, "21/min", "36 %"],
  [1234.5, "1,230/s", "120000 %"],
])("%s as a rate and as a share", (value, rate, share) => {
  expect([rateText(value), shareText(value)]).toEqual([rate, share]);
});

import { expect, test } from "vitest";
import { rateText, shareText, worseBy, worstFirst } from "./service.ts";

const figures = (service: string, calls: number, error_ratio: number, p95_ms: number | null) => ({ service, calls, error_ratio, p95_ms });

test("what got worse is first, then what is called most; few calls and small changes say nothing", () => {
  const before = [figures("slow", 100, 0, 100), figures("fails", 100, 0.01, 50), figures("busy", 9000, 0, 20), figures("few", 5, 0, 10)];
  const now = [figures("slow", 100, 0, 400), figures("busy", 9000, 0.005, 25), figures("few", 5, 1, 999), figures("fails", 100, 0.35, 50)];
  expect(worstFirst(now, before).map(({ service, worse }) => [service, worse > 0])).toEqual([
    ["fails", true],
    ["slow", true],
    ["busy", false],
    ["few", false],
  ]);
  expect(worseBy(figures("new", 50, 0.2, 10), undefined)).toBeGreaterThan(0);
});

test.each([
  [0, "0", "0 %"],
  [0.0004, "0.024/min", "< 0.1 %"],
  [0.355, "21/min", "36 %"],
  [1234.5, "1,230/s", "120000 %"],
])("%s as a rate and as a share", (value, rate, share) => {
  expect([rateText(value), shareText(value)]).toEqual([rate, share]);
});

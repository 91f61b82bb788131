import { describe, expect, it } from "vitest";
import { histogram, type Bucket } from "./text-histogram.ts";

const START = Date.parse("2026-11-22T10:00:00Z");
const bucket = (at: number, counts: Record<string, number>): Bucket => ({
  start: new Date(START + at * 150_000).toISOString(),
  end: new Date(START + (at + 1) * 150_000).toISOString(),
  counts,
});

describe("a histogram", () => {
  it("has a line for each bucket, the longest bar for the maximum, failures first, and the levels", () => {
    expect(histogram([bucket(0, { info: 90, error: 10 }), bucket(1, {}), bucket(2, { info: 49, fatal: 1 })], 60)).toEqual([
      "150 records, 2m30s a line (UTC), ▒ error and fatal",
      "2026-11-22 10:00:00  100  ▒▒▒███████████████████████████████",
      "2026-11-22 10:02:30    0",
      "2026-11-22 10:05:00   50  ▒████████████████",
      "info 139, error 10, fatal 1",
    ]);
  });

  it("has a bar for one record next to a million, and none for zero", () => {
    const [, many, one, none] = histogram([bucket(0, { info: 1e6 }), bucket(1, { error: 1 }), bucket(2, { info: 0 })], 80);
    expect([many?.endsWith("██"), one?.endsWith(" 1  ▒"), none?.endsWith(" 0")]).toEqual([true, true, true]);
  });

  it.each([1, 32, 40, 59, 60, 80, 250])("of %i columns is no wider, and at least 32", (columns) => {
    const levels = Object.fromEntries(Array.from({ length: 21 }, (_, n) => [`level ${n}`, 10 ** (n % 8)]));
    const lines = histogram([bucket(0, levels), bucket(1, { error: 3 })], columns);
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(Math.max(32, columns));
    expect(lines[1]).toMatch(columns < 60 ? /^11-22 10:00 {2}\d+ {2}█+$/ : /^2026-11-22 10:00:00 {2}\d+ {2}█+$/);
  });

  it("without records prints so, and a level contains no terminal control sequences", () => {
    expect(histogram([bucket(0, {}), bucket(1, {})], 80)).toEqual([
      "0 records, 2m30s a line (UTC), ▒ error and fatal",
      "2026-11-22 10:00:00  0",
      "2026-11-22 10:02:30  0",
    ]);
    expect(histogram([], 80)).toEqual(["no records"]);
    const odd = [{ start: "2026-11-22T10:00:00.000Z", end: "2026-11-22T10:05:00.074Z", counts: {} }];
    expect(histogram(odd, 80)[0]).toBe("0 records, 5m a line (UTC), ▒ error and fatal");
    expect(histogram([bucket(0, { "\u001b[2J\u009b": 1, "": 2 })], 80).at(-1)).toBe("- 2, \\u001b[2J\\u009b 1");
  });
});

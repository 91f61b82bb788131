import { expect, test } from "vitest";
import { durationMs, durationWanted, durationWithin, expressionDurationMs, formatDuration } from "./duration.ts";

test.each([
  ["0", 0],
  ["0s", 0],
  ["500ms", 500],
  ["30s", 30_000],
  ["5m", 300_000],
  ["1h30m", 5_400_000],
  ["168h", 604_800_000],
  ["7d", 604_800_000],
  ["1w", 604_800_000],
  ["1y", 31_536_000_000],
  ["1y2w3d4h5m6s7ms", 31_536_000_000 + 2 * 604_800_000 + 3 * 86_400_000 + 4 * 3_600_000 + 5 * 60_000 + 6007],
])("accepts %s", (text, ms) => {
  expect(durationMs(text)).toBe(ms);
});

test.each(["", "5", "1.5h", "30m1h", "1h1h", "-5m", "5 m", " 5m", "5m ", "5M", "m", "1h30", "5m\n", "1e3s", "1234567890123456s"])(
  "rejects %j",
  (text) => {
    expect(durationMs(text)).toBeUndefined();
  },
);

test("limits are inclusive, and the message contains them in the reader's units", () => {
  const bounds = { minMs: 1000, maxMs: 86_400_000 };
  expect(["1s", "1d", "24h", "999ms", "1d1ms", "nonsense"].map((text) => durationWithin(text, bounds))).toEqual([
    1000,
    86_400_000,
    86_400_000,
    undefined,
    undefined,
    undefined,
  ]);
  expect(durationWanted(bounds)).toBe("a duration from 1s to 1d, such as 30s or 1h30m");
  expect(durationWanted({ minMs: 1000 }, "15s or 5m")).toBe("a duration of at least 1s, such as 15s or 5m");
  expect(durationWanted({ maxMs: 366 * 86_400_000 })).toBe("a duration of at most 366d, such as 30s or 1h30m");
  expect(durationWanted({})).toBe("a duration, such as 30s or 1h30m");
});

test.each([0, 1, 999, 1000, 90_000, 5_400_000, 86_400_000, 31_622_400_000, 123_456_789])(
  "formats %d ms so that it parses as the same",
  (ms) => {
    expect(durationMs(formatDuration(ms))).toBe(ms);
  },
);

test("an expression also accepts fractions, any order, capitals, steps and bare seconds", () => {
  const step = 15_000;
  expect(
    ["5m", "1.5h", "1h30m", "30m1h", "5M", "2i", "1m1i", "90", "1e3", ".5", "2.", " 5m ", "$__interval", "0"].map((text) =>
      expressionDurationMs(text, step),
    ),
  ).toEqual([300_000, 5_400_000, 5_400_000, 5_400_000, 300_000, 30_000, 75_000, 90_000, 1_000_000, 500, 2000, 300_000, step, 0]);
  expect(["", "5x", "-5m", "m", "5m,", "1h 30m", "1.h"].map((text) => expressionDurationMs(text, step))).toEqual(Array(7).fill(undefined));
});

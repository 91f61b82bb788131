import { expect, test } from "vitest";
import { typedRange } from "./typed-range.ts";

const NOW = Date.parse("2026-11-25T16:03:22.500Z");

test.each([
  ["30m", "30m", undefined],
  ["last 2 hours", "2h", undefined],
  ["90 min ago", "90m", undefined],
  ["today", "2026-11-25T00:00:00.000Z", undefined],
  ["Yesterday", "2026-11-24T00:00:00.000Z", "2026-11-25T00:00:00.000Z"],
  ["14:00", "2026-11-25T14:00:00.000Z", undefined],
  ["9:05 to 15:00", "2026-11-25T09:05:00.000Z", "2026-11-25T15:00:00.000Z"],
  ["2026-11-20", "2026-11-20T00:00:00.000Z", undefined],
  ["2026-11-20 14:00 to 2026-11-20 15:30:10", "2026-11-20T14:00:00.000Z", "2026-11-20T15:30:10.000Z"],
  ["2026-11-20T14:00:00Z to now", "2026-11-20T14:00:00.000Z", undefined],
  ["2h ago to 1h ago", "2026-11-25T14:03:22.500Z", "2026-11-25T15:03:22.500Z"],
  ["17:00 to 18:00", "2026-11-24T17:00:00.000Z", "2026-11-24T18:00:00.000Z"],
  ["23:00 to 01:00", "2026-11-24T23:00:00.000Z", "2026-11-25T01:00:00.000Z"],
  ["23:00", "2026-11-24T23:00:00.000Z", undefined],
  ["yesterday to today", "2026-11-24T00:00:00.000Z", "2026-11-25T00:00:00.000Z"],
])("%s", (text, from, to) => {
  expect(typedRange(text, NOW, true)).toEqual({ from, to });
});

test.each(["", "soon", "30", "15:00 to 14:00", "25:99", "1h to 2h to 3h", "2026-13-45"])("rejects %s", (text) => {
  expect(typedRange(text, NOW, true)).toBeUndefined();
});

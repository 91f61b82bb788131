import { describe, expect, test } from "vitest";
import { checkTimeInterval, compileTimeIntervals, type TimeInterval } from "./time-intervals.ts";

const contains = (interval: TimeInterval, at: string) => compileTimeIntervals([interval])(new Date(at));
const SATURDAY = "2026-11-28T12:00:00Z";

describe("a time interval contains a time", () => {
  test.each<[TimeInterval, string, boolean]>([
    [{}, SATURDAY, true],
    [{ times: [{ start_time: "09:00", end_time: "17:00" }] }, "2026-11-28T09:00:00Z", true],
    [{ times: [{ start_time: "09:00", end_time: "17:00" }] }, "2026-11-28T16:59:59Z", true],
    [{ times: [{ start_time: "09:00", end_time: "17:00" }] }, "2026-11-28T17:00:00Z", false],
    [{ times: [{ start_time: "22:00", end_time: "24:00" }] }, "2026-11-28T23:59:59Z", true],
    [
      {
        times: [
          { start_time: "09:00", end_time: "10:00" },
          { start_time: "12:00", end_time: "13:00" },
        ],
      },
      SATURDAY,
      true,
    ],
    [{ weekdays: ["monday:friday"] }, SATURDAY, false],
    [{ weekdays: ["Monday:Friday", "saturday"] }, SATURDAY, true],
    [{ weekdays: ["sunday"] }, "2026-11-29T00:00:00Z", true],
    [{ days_of_month: ["1:5", "28"] }, SATURDAY, true],
    [{ days_of_month: ["-3:-1"] }, SATURDAY, true],
    [{ days_of_month: ["-2:-1"] }, SATURDAY, false],
    [{ days_of_month: ["20:-1"] }, SATURDAY, true],
    [{ days_of_month: ["31"] }, "2026-11-30T12:00:00Z", false],
    [{ days_of_month: ["-1"] }, "2028-02-29T12:00:00Z", true],
    [{ days_of_month: ["-1"] }, "2027-02-28T12:00:00Z", true],
    [{ months: ["october:december"] }, SATURDAY, true],
    [{ months: ["1:3", "11"] }, SATURDAY, true],
    [{ months: ["january"] }, SATURDAY, false],
    [{ years: ["2025:2026"] }, SATURDAY, true],
    [{ years: ["2027"] }, SATURDAY, false],
    [{ weekdays: ["saturday"], months: ["may"] }, SATURDAY, false],
    // 30 minutes after midnight on Sunday there.
    [{ weekdays: ["sunday"], times: [{ start_time: "00:00", end_time: "01:00" }], location: "Asia/Kolkata" }, "2026-11-28T19:00:00Z", true],
    [{ times: [{ start_time: "02:00", end_time: "03:00" }], location: "Europe/Berlin" }, "2026-07-01T00:30:00Z", true],
    [{ times: [{ start_time: "02:00", end_time: "03:00" }], location: "Europe/Berlin" }, "2026-12-01T00:30:00Z", false],
  ])("%j at %s: %s", (interval, at, expected) => expect(contains(interval, at)).toBe(expected));

  test("if one of several does; none contains nothing", () => {
    const isIn = compileTimeIntervals([{ weekdays: ["monday"] }, { weekdays: ["saturday"] }]);
    expect([isIn(new Date(SATURDAY)), compileTimeIntervals([])(new Date(SATURDAY))]).toEqual([true, false]);
  });
});

test.each<[TimeInterval, RegExp]>([
  [{ weekdays: ["someday"] }, /"someday" is not a range/],
  [{ weekdays: ["friday:monday"] }, /"friday:monday" ends before it begins/],
  [{ weekdays: ["monday:tuesday:friday"] }, /is not a range/],
  [{ months: ["0"] }, /"0" is not a range/],
  [{ months: ["13"] }, /is not a range/],
  [{ years: ["2028:2026"] }, /ends before it begins/],
  [{ days_of_month: ["0"] }, /is not a range of days/],
  [{ days_of_month: ["32"] }, /is not a range of days/],
  [{ days_of_month: ["-1:5"] }, /must end with one/],
  [{ days_of_month: ["-1:-3"] }, /ends before it begins/],
  [{ times: [{ start_time: "17:00", end_time: "09:00" }] }, /"17:00-09:00" ends before it begins/],
  [{ times: [{ start_time: "09:00", end_time: "09:00" }] }, /ends before it begins/],
  [{ location: "Mars/Olympus" }, /Mars/],
  [{ location: "+01:00" }, /is not a time zone/],
])("refuses %j", (interval, reason) => expect(() => checkTimeInterval("time_intervals[0]", interval)).toThrow(reason));

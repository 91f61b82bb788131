import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { OutageLog } from "./outage-log.ts";
import type { Log } from "../log.ts";
import { stub } from "../../test/fixtures/stub.ts";

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

test("logs an outage of many requests at its start with the cause, with a reminder and a count, and at its end", () => {
  const lines: unknown[][] = [];
  const level =
    (name: string) =>
    (fields: object, message: string): void =>
      void lines.push([name, message, fields]);
  const log = stub<Log>({ error: level("error"), warn: level("warn"), info: level("info") });
  using outages = new OutageLog(log, 1000);
  const cause = new Error("victoria-metrics", { cause: new Error("connect ECONNREFUSED") });
  const fail = () => outages.failed("the metrics store cannot be reached", cause, { code: "storage_unavailable" });
  for (let request = 0; request < 500; request++) fail();
  outages.failed("the log store cannot be reached", new Error("timeout"), {});
  vi.advanceTimersByTime(1000);
  for (let request = 0; request < 10; request++) fail();
  vi.advanceTimersByTime(2000);
  fail();
  expect(lines).toEqual([
    [
      "error",
      "the metrics store cannot be reached",
      { event: "http.requests_failing", code: "storage_unavailable", cause: "victoria-metrics: connect ECONNREFUSED" },
    ],
    ["error", "the log store cannot be reached", { event: "http.requests_failing", cause: "timeout" }],
    ["warn", "still failing: the metrics store cannot be reached", { event: "http.requests_still_failing", requests: 501, seconds: 1 }],
    ["info", "recovered: the log store cannot be reached", { event: "http.requests_recovered", requests: 1, seconds: 2 }],
    ["info", "recovered: the metrics store cannot be reached", { event: "http.requests_recovered", requests: 510, seconds: 3 }],
    [
      "error",
      "the metrics store cannot be reached",
      { event: "http.requests_failing", code: "storage_unavailable", cause: "victoria-metrics: connect ECONNREFUSED" },
    ],
  ]);
});

import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { OutageLog } from "./outage-log.ts";
import type { Log } from "../observability/log.ts";

beforeEach(() => vi.useFakeTimers());
afterEach(() => vi.useRealTimers());

test("an outage of many requests is its beginning with the cause, a reminder with a count, and its end", () => {
  const lines: unknown[][] = [];
  const level =
    (name: string) =>
    (fields: object, message: string): void =>
      void lines.push([name, message, fields]);
  const log = { error: level("error"), warn: level("warn"), info: level("info") } as unknown as Log;
  using outages = new OutageLog(log, 1000);
  const cause = new Error("victoria-metrics", { cause: new Error("connect ECONNREFUSED") });
  const meet = () => outages.failed("the metrics store cannot be reached", cause, { code: "storage_unavailable" });
  for (let request = 0; request < 500; request++) meet();
  outages.failed("the log store cannot be reached", new Error("timeout"), {});
  vi.advanceTimersByTime(1000);
  for (let request = 0; request < 10; request++) meet();
  vi.advanceTimersByTime(2000);
  meet();
  expect(lines).toEqual([
    ["error", "the metrics store cannot be reached", { code: "storage_unavailable", cause: "victoria-metrics: connect ECONNREFUSED" }],
    ["error", "the log store cannot be reached", { cause: "timeout" }],
    ["warn", "still: the metrics store cannot be reached", { requests: 501, seconds: 1 }],
    ["info", "recovered: the log store cannot be reached", { requests: 1, seconds: 2 }],
    ["info", "recovered: the metrics store cannot be reached", { requests: 510, seconds: 3 }],
    ["error", "the metrics store cannot be reached", { code: "storage_unavailable", cause: "victoria-metrics: connect ECONNREFUSED" }],
  ]);
});

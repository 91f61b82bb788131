import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { FailureStory } from "./outage-log.ts";
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
  using story = new FailureStory(log, 1000);
  const cause = new Error("victoria-metrics", { cause: new Error("connect ECONNREFUSED") });
  for (let request = 0; request < 500; request++)
    story.failed("the metrics store cannot be reached", cause, { code: "storage_unavailable" });
  story.failed("the log store cannot be reached", new Error("timeout"), {});
  vi.advanceTimersByTime(1000);
  vi.advanceTimersByTime(1000);
  expect(lines).toEqual([
    ["error", "the metrics store cannot be reached", { code: "storage_unavailable", cause: "victoria-metrics: connect ECONNREFUSED" }],
    ["error", "the log store cannot be reached", { cause: "timeout" }],
    ["warn", "still: the metrics store cannot be reached", { requests: 500, seconds: 1 }],
    ["info", "no more: the log store cannot be reached", { requests: 1, seconds: 1 }],
    ["info", "no more: the metrics store cannot be reached", { requests: 500, seconds: 2 }],
  ]);
});

import { expect, test } from "vitest";
import { isKeyRefusal, RefusedKey } from "./refused-key.ts";

const key = (apiKey: string) => ({ id: "h", apiKey, keyCreatedAt: "2026-01-01T00:00:00Z" });

/** An agent with something to send every second, and a backend that refuses its key for `seconds`: how many requests reach the backend. */
function requestsWhileRefused(seconds: number): { requests: number; longestPauseS: number } {
  let nowMs = 0;
  const refusedKey = new RefusedKey(() => nowMs);
  let requests = 0;
  let lastMs = 0;
  let longestPauseS = 0;
  for (; nowMs < seconds * 1000; nowMs += 1000) {
    if (refusedKey.pause(key("a"))) continue;
    requests++;
    longestPauseS = Math.max(longestPauseS, (nowMs - lastMs) / 1000);
    lastMs = nowMs;
    refusedKey.refused(key("a"), "revoked_key: why");
  }
  return { requests, longestPauseS };
}

test("retries a key that is rejected permanently with backoff, and at least every five minutes", () => {
  expect(requestsWhileRefused(60).requests).toBeLessThan(20);
  const day = requestsWhileRefused(86_400);
  expect(day.requests).toBeLessThan(350);
  expect(day.longestPauseS).toBeLessThanOrEqual(301);
});

test("lets one request at a time try a rejected key, until it succeeds", () => {
  let nowMs = 0;
  const refusedKey = new RefusedKey(() => nowMs);
  refusedKey.refused(key("a"), "why");
  expect(refusedKey.pause(key("a"))).toEqual({ waitMs: 1000, reason: "why" });
  nowMs = 1000;
  expect(refusedKey.pause(key("a"))).toBeUndefined();
  refusedKey.begin(key("a"));
  expect(refusedKey.pause(key("a"))?.reason).toBe("why");
  refusedKey.answered(key("a"), false);
  expect(refusedKey.pause(key("a"))).toBeUndefined();
});

test("uses another key immediately, and the same one once the backend accepted it", () => {
  const refusedKey = new RefusedKey(() => 0);
  refusedKey.refused(key("a"), "why");
  expect(refusedKey.pause(key("b"))).toBeUndefined();
  refusedKey.answered(key("a"), true);
  expect(refusedKey.pause(key("a"))).toBeUndefined();
});

test("counts only backend errors about the key itself", () => {
  const refusals = [isKeyRefusal(401, "revoked_key"), isKeyRefusal(401, "unknown_key")];
  expect(refusals).toEqual([true, true]);
  expect([isKeyRefusal(401, undefined), isKeyRefusal(401, "stale_timestamp"), isKeyRefusal(403, "forbidden")]).toEqual([
    false,
    false,
    false,
  ]);
});

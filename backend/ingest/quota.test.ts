import { expect, test } from "vitest";
import { Quota } from "./quota.ts";

test("ten seconds' worth may come at once; beyond it the debt is waited for, to the second", () => {
  let nowMs = 0;
  const quota = new Quota(
    () => ({ bytesPerSecond: 100, recordsPerSecond: 10 }),
    () => nowMs,
  );
  quota.admit("acme");
  quota.charge("acme", 500, 50);
  quota.admit("acme");
  quota.charge("acme", 10, 350);
  expect(() => quota.admit("acme")).toThrow(expect.objectContaining({ code: "over_quota", retryAfterS: 30.1 }));
  nowMs = 30_000;
  expect(() => quota.admit("acme")).toThrow("quota");
  nowMs = 30_200;
  quota.admit("acme");
  quota.admit("other");
});

test("without limits nothing is counted or refused", () => {
  const quota = new Quota(() => ({ bytesPerSecond: 0, recordsPerSecond: 0 }));
  quota.charge("acme", 1e12, 1e12);
  expect(() => quota.admit("acme")).not.toThrow();
});

test("one limit alone works, and an idle organisation does not save up more than ten seconds", () => {
  let nowMs = 0;
  const quota = new Quota(
    () => ({ bytesPerSecond: 0, recordsPerSecond: 10 }),
    () => nowMs,
  );
  quota.admit("acme");
  nowMs = 1_000_000;
  quota.charge("acme", 1e12, 101);
  expect(() => quota.admit("acme")).toThrow("quota");
});

test("a limit that is set later is not held against what came before, and the refusal names it", () => {
  let nowMs = 0;
  let limits = { bytesPerSecond: 0, recordsPerSecond: 1_000 };
  const quota = new Quota(
    () => limits,
    () => nowMs,
  );
  quota.charge("acme", 1e12, 1);
  limits = { bytesPerSecond: 100, recordsPerSecond: 1_000 };
  nowMs = 1_000;
  quota.admit("acme");
  quota.charge("acme", 2_000, 1);
  expect(() => quota.admit("acme")).toThrow("bytes_per_second is 100");
  limits = { bytesPerSecond: 0, recordsPerSecond: 0 };
  quota.admit("acme");
});

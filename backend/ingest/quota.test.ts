import { expect, test } from "vitest";
import { Quota } from "./quota.ts";

const limit = (bytesPerSecond: number, recordsPerSecond: number) => ({ bytesPerSecond, recordsPerSecond });

test("ten seconds' worth may come at once; beyond it the debt is waited for, to the second", () => {
  let nowMs = 0;
  const quota = new Quota({ owners: "organisation's", now: () => nowMs });
  const limits = limit(100, 10);
  quota.admit("acme", limits);
  quota.charge("acme", limits, { bytes: 500, records: 50 });
  quota.admit("acme", limits);
  quota.charge("acme", limits, { bytes: 10, records: 350 });
  expect(() => quota.admit("acme", limits)).toThrow(expect.objectContaining({ code: "over_quota", retryAfterS: 30.1 }));
  nowMs = 30_000;
  expect(() => quota.admit("acme", limits)).toThrow("the organisation's ingest quota");
  nowMs = 30_200;
  quota.admit("acme", limits);
  quota.admit("other", limits);
});

test("without limits nothing is counted or refused", () => {
  const quota = new Quota({ owners: "organisation's" });
  quota.charge("acme", limit(0, 0), { bytes: 1e12, records: 1e12 });
  expect(() => quota.admit("acme", limit(0, 0))).not.toThrow();
});

test("one limit alone works, and an idle owner does not save up more than ten seconds", () => {
  let nowMs = 0;
  const quota = new Quota({ owners: "organisation's", now: () => nowMs });
  const limits = limit(0, 10);
  quota.admit("acme", limits);
  nowMs = 1_000_000;
  quota.charge("acme", limits, { bytes: 1e12, records: 101 });
  expect(() => quota.admit("acme", limits)).toThrow("quota");
});

test("a limit that is set later is not held against what came before, and the refusal names it", () => {
  let nowMs = 0;
  const quota = new Quota({ owners: "organisation's", now: () => nowMs });
  quota.charge("acme", limit(0, 1000), { bytes: 1e12, records: 1 });
  nowMs = 1000;
  quota.admit("acme", limit(100, 1000));
  quota.charge("acme", limit(100, 1000), { bytes: 2000, records: 1 });
  expect(() => quota.admit("acme", limit(100, 1000))).toThrow("bytes_per_second is 100");
  quota.admit("acme", limit(0, 0));
});

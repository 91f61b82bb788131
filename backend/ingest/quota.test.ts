import { expect, test } from "vitest";
import { Quota } from "./quota.ts";

const limit = (bytesPerSecond: number, recordsPerSecond: number) => ({ bytesPerSecond, recordsPerSecond });

test("accepts ten seconds' worth at once, and beyond it returns the wait to the second", () => {
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

test("without limits counts and rejects nothing", () => {
  const quota = new Quota({ owners: "organisation's" });
  quota.charge("acme", limit(0, 0), { bytes: 1e12, records: 1e12 });
  expect(() => quota.admit("acme", limit(0, 0))).not.toThrow();
});

test("works with one limit, and an idle owner saves up at most ten seconds", () => {
  let nowMs = 0;
  const quota = new Quota({ owners: "organisation's", now: () => nowMs });
  const limits = limit(0, 10);
  quota.admit("acme", limits);
  nowMs = 1_000_000;
  quota.charge("acme", limits, { bytes: 1e12, records: 101 });
  expect(() => quota.admit("acme", limits)).toThrow("quota");
});

test("does not apply a new limit to earlier use, and names it in the rejection", () => {
  let nowMs = 0;
  const quota = new Quota({ owners: "organisation's", now: () => nowMs });
  quota.charge("acme", limit(0, 1000), { bytes: 1e12, records: 1 });
  nowMs = 1000;
  quota.admit("acme", limit(100, 1000));
  quota.charge("acme", limit(100, 1000), { bytes: 2000, records: 1 });
  expect(() => quota.admit("acme", limit(100, 1000))).toThrow("bytes_per_second is 100");
  quota.admit("acme", limit(0, 0));
});

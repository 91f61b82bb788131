import { expect, test } from "vitest";
import { LoginBackoff } from "./password.ts";

function fail(backoff: LoginBackoff, email: string, address: string, times: number): void {
  for (let attempt = 0; attempt < times; attempt++) {
    expect(backoff.begin(email, address)).toBe(0);
    backoff.end(email, address, "wrong");
  }
}

test("doubles the wait with each failure up to 15 minutes, and resets it after a correct password", () => {
  let now = 1_000_000;
  const backoff = new LoginBackoff(() => now);
  fail(backoff, "a@b", "192.0.2.1", 5);
  const waits: number[] = [];
  for (let attempt = 0; attempt < 12; attempt++) {
    waits.push(backoff.begin("a@b", "192.0.2.1") / 1000);
    now += waits.at(-1)! * 1000;
    fail(backoff, "a@b", "192.0.2.1", 1);
  }
  expect(waits).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900]);
  now += 900_000;
  expect(backoff.begin("a@b", "192.0.2.1")).toBe(0);
  backoff.end("a@b", "192.0.2.1", "right");
  fail(backoff, "a@b", "192.0.2.1", 5);
});

test("counts failures for the pair of account and address only", () => {
  const backoff = new LoginBackoff(() => 0);
  fail(backoff, "a@b", "192.0.2.1", 5);
  expect(backoff.begin("a@b", "192.0.2.1")).toBeGreaterThan(0);
  expect(backoff.begin("a@b", "192.0.2.2")).toBe(0);
  expect(backoff.begin("c@d", "192.0.2.1")).toBe(0);
});

test("limits concurrent attempts of one pair", () => {
  const backoff = new LoginBackoff(() => 0);
  const begun = Array.from({ length: 6 }, () => backoff.begin("a@b", "192.0.2.1"));
  expect(begun).toEqual([0, 0, 0, 0, 1000, 1000]);
  backoff.end("a@b", "192.0.2.1", "undecided");
  expect(backoff.begin("a@b", "192.0.2.1")).toBe(0);
});

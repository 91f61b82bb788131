import { expect, test } from "vitest";
import { OneTimeLogin } from "./one-time-login.ts";

function login(): { clock: { ms: number }; login: OneTimeLogin } {
  const clock = { ms: 1000 };
  return { clock, login: new OneTimeLogin(() => clock.ms) };
}

test("a code works once", () => {
  const { login: once } = login();
  const code = once.mint();
  expect(code).toMatch(/^[\w-]{43}$/);
  expect([once.redeem(code), once.redeem(code)]).toEqual([true, false]);
});

test("a code expires after ten minutes", () => {
  const { clock, login: once } = login();
  const first = once.mint();
  clock.ms += 599_999;
  expect(once.redeem(first)).toBe(true);
  const second = once.mint();
  clock.ms += 600_000;
  expect(once.redeem(second)).toBe(false);
});

test("a new code replaces the one before, and a wrong code invalidates none", () => {
  const { login: once } = login();
  expect(once.redeem("")).toBe(false);
  const [first, second] = [once.mint(), once.mint()];
  expect(first).not.toBe(second);
  for (const wrong of ["", first, `${second}A`, second.slice(1), "\u{1f511}"]) expect(once.redeem(wrong)).toBe(false);
  expect(once.redeem(second)).toBe(true);
});

import { expect, test } from "vitest";
import { isUnreachable } from "./unreachable.ts";

const failure = (code: string): Error => Object.assign(new Error("the statement failed"), { code });

test.each(["08006", "53100", "53200", "53300", "57P01", "58030", "ECONNREFUSED"])("%s is an outage: it may be tried again", (code) => {
  expect(isUnreachable(failure(code))).toBe(true);
});

test.each(["22P02", "23505", "42P01", "57014", "XX000"])("%s is a failure of the statement", (code) => {
  expect(isUnreachable(failure(code))).toBe(false);
});

import { expect, test } from "vitest";
import { isOverloaded, isUnreachable } from "./unreachable.ts";

const failure = (code: string): Error => Object.assign(new Error("the statement failed"), { code });

test.each(["08006", "53100", "53200", "53300", "57P01", "58030", "ECONNREFUSED"])("%s is an outage: it may be tried again", (code) => {
  expect(isUnreachable(failure(code))).toBe(true);
});

test.each(["53300", "57014", "55P03", "40001", "40P01"])("%s took or waited too long", (code) => {
  expect(isOverloaded(failure(code))).toBe(true);
});

test.each(["timeout exceeded when trying to connect", "Connection terminated due to connection timeout", "Query read timeout"])(
  "%s: the driver waited too long",
  (message) => {
    expect(isOverloaded(new Error(message))).toBe(true);
  },
);

test.each(["08006", "57P01", "ECONNREFUSED", "23505", "XX000"])("%s is no matter of time", (code) => {
  expect(isOverloaded(failure(code))).toBe(false);
});

test.each(["22P02", "23505", "42P01", "57014", "XX000"])("%s is a failure of the statement", (code) => {
  expect(isUnreachable(failure(code))).toBe(false);
});

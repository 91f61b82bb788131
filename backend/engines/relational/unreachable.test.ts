import { expect, test } from "vitest";
import { isOverloaded, isUnreachable } from "./unreachable.ts";

const failure = (code: string): Error => Object.assign(new Error("the statement failed"), { code });

test.each(["08006", "53100", "53200", "53300", "57P01", "58030", "ECONNREFUSED"])(
  "classifies %s as an outage that can be retried",
  (code) => {
    expect(isUnreachable(failure(code))).toBe(true);
  },
);

test.each(["53300", "57014", "55P03", "40001", "40P01"])("classifies %s as a timeout", (code) => {
  expect(isOverloaded(failure(code))).toBe(true);
});

test.each(["timeout exceeded when trying to connect", "Connection terminated due to connection timeout", "Query read timeout"])(
  "classifies %s as a timeout of the driver",
  (message) => {
    expect(isOverloaded(new Error(message))).toBe(true);
  },
);

test.each(["08006", "57P01", "ECONNREFUSED", "23505", "XX000"])("does not classify %s as a timeout", (code) => {
  expect(isOverloaded(failure(code))).toBe(false);
});

test.each(["22P02", "23505", "42P01", "57014", "XX000"])("classifies %s as a failure of the statement", (code) => {
  expect(isUnreachable(failure(code))).toBe(false);
});

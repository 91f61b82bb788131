import { expect, it } from "vitest";
import { bareHost, isLoopback } from "./host-name.ts";

it.each([
  ["localhost", true],
  ["LOCALHOST", true],
  ["127.0.0.1", true],
  ["127.9.9.9", true],
  ["[::1]", true],
  ["::1", true],
  ["127.0.0.1.example", false],
  ["localhost.example", false],
  ["127.0.0.256", false],
  ["0.0.0.0", false],
  ["10.0.0.1", false],
  ["", false],
])("%j is loopback: %s", (host, expected) => {
  expect(isLoopback(host)).toBe(expected);
});

it("a host has no brackets of its own", () => {
  expect(["[::1]", "::1", "a.example", ""].map(bareHost)).toEqual(["::1", "::1", "a.example", ""]);
});

// Which grant of the settings a claim gets, whatever its form.
import { expect, test } from "vitest";
import { findGrant } from "./sign-in.ts";

const GRANTS = [
  { group: "readers", org: "red", role: "viewer" },
  { group: "owners", org: "red", role: "admin" },
  { group: "blue", org: "blue", role: "admin" },
] as const;

test.each([
  [["readers"], "red viewer"],
  [["readers", "owners"], "red admin"],
  [["blue", "owners"], "red admin"],
  ["blue", "blue admin"],
  [[["readers"], { readers: 1 }, "blue", 7], "blue admin"],
  [[...Array.from({ length: 9_999 }, (_, at) => `g${at}`), "readers"], "red viewer"],
])("a claim gets the grant with the highest role, and of equal ones the first of the settings", (claim, expected) => {
  const grant = findGrant(claim, GRANTS);
  expect(`${grant?.org} ${grant?.role}`).toBe(expected);
});

test.each([undefined, null, 7, true, {}, { length: 1, 0: "readers" }, [], "", "Readers", ["read", "ers"]])("%j gets no grant", (claim) =>
  expect(findGrant(claim, GRANTS)).toBeUndefined(),
);

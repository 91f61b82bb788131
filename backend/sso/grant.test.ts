// What groups open: the settings' grants against claims of any form.
import { expect, test } from "vitest";
import { grantOf } from "./grant.ts";

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
])("a claim opens the highest role, of equal ones the first of the settings", (claim, opens) => {
  const grant = grantOf(claim, GRANTS);
  expect(`${grant?.org} ${grant?.role}`).toBe(opens);
});

test.each([undefined, null, 7, true, {}, { length: 1, 0: "readers" }, [], "", "Readers", ["read", "ers"]])("%j opens nothing", (claim) =>
  expect(grantOf(claim, GRANTS)).toBeUndefined(),
);

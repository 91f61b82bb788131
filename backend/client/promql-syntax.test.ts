import { expect, test } from "vitest";
import { explainSyntax } from "./promql-syntax.ts";

test.each([
  ["sum(up", "a ) is missing at the end, for the ( at column 4"],
  ["sum(rate(up[5m))", "the [ at column 12 is closed by the ) at column 15"],
  ["sum up)", "the ) at column 7 closes nothing"],
  ['up{job="(a}', 'the " at column 8 is not closed'],
  ["sum(", "a ) is missing at the end, for the ( at column 4"],
  ["up +", "parse error: the expression ends too early"],
])("%s is explained as: %s", (query, words) => {
  expect(explainSyntax(query, 'parse error: unexpected token ""')).toBe(words);
});

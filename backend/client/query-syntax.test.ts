import { expect, test } from "vitest";
import { explainSyntax, isLogQl, isMetricOfLogQl } from "./query-syntax.ts";

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

test.each([
  ['{service_name="shop"}', true, false],
  [' { a=~"b" } |= "c"', true, false],
  ['{"a":1}', false, false],
  ["error (timeout OR x)", false, false],
  ['sum by (level) (rate({a="b"}[5m]))', false, true],
  ['count_over_time({a="b"} |= "x" [1h])', false, true],
  ['rate(http_requests_total{a="b"})', false, false],
])("%s is LogQL of records: %s, of metrics: %s", (line, ofRecords, ofMetrics) => {
  expect([isLogQl(line), isMetricOfLogQl(line)]).toEqual([ofRecords, ofMetrics]);
});

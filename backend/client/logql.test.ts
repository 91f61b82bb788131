import { expect, test } from "vitest";
import { isLogQl, isMetricOfLogQl } from "./logql.ts";

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

import { expect, test } from "vitest";
import { formatValue, unitOfQuery } from "./unit.ts";

test.each([
  ["system_memory_usage_bytes", "bytes"],
  ["sum by (state) (system_memory_usage_bytes)", "bytes"],
  ['sum by (direction) (rate(system_network_io_bytes_total{a="b/c"}[5m]))', "Bps"],
  ["http_request_duration_seconds", "s"],
  ["rate(process_cpu_seconds_total[5m])", "cores"],
  ['sum by (container) (rate(container_cpu_usage_seconds_total{container!=""}[5m]))', "cores"],
  ["rate(http_request_duration_seconds_sum[5m])", undefined],
  ["sum by (service) (rate(traces_spanmetrics_calls_total[5m]))", "reqps"],
  ["rate(restarts_total[5m])", "cps"],
  ["histogram_quantile(0.95, sum by (le) (rate(http_request_duration_seconds_bucket[5m])))", "s"],
  ["a_bytes / b_bytes", undefined],
  ["count(a_bytes)", undefined],
  ["a_bytes + b_seconds", undefined],
  ["up", undefined],
])("%s has the unit %s", (query, unit) => {
  expect(unitOfQuery(query)).toBe(unit);
});

test.each([
  [1_610_612_736, "bytes", "1.5 GiB"],
  [2048, "Bps", "2 KiB/s"],
  [12, "bytes", "12 B"],
  [0.123, "percentunit", "12.3 %"],
  [0.0042, "s", "4.2 ms"],
  [1.25, "cores", "1.25 cores"],
  [12, "reqps", "12 req/s"],
  [90, "s", "90 s"],
  [7200, "s", "2 h"],
  [1_200_000, "short", "1.2M"],
  [1.5e21, "short", "1.5e+21"],
  [2 ** 61, "bytes", "2 EiB"],
  [1e300, "bytes", "1e+300 B"],
  [Number.NaN, "bytes", "–"],
] as const)("%d %s is formatted as %s", (value, unit, words) => {
  expect(formatValue(value, unit)).toBe(words);
});

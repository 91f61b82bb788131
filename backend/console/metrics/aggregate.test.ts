import { expect, test } from "vitest";
import { splitQuery } from "../logs/query-line.ts";
import { type Aggregate, logQlFilter, logQlOf, promQlOf, readAggregate } from "./aggregate.ts";

const filter = (line: string): string => logQlFilter(splitQuery(line), line);

test.each([
  ["", '{service_name=~".+"}'],
  ["level:error,warn", '{service_name=~".+"} | level=~"(?i)error|warn"'],
  ["source:checkout AND -http.route:/cart", '{service_name=~".+"} | service_name=~"checkout" | http_route!~"/cart"'],
  ['"connection reset" -timeout', '{service_name=~".+"} |~ "(?i)connection reset" !~ "(?i)timeout"'],
  ['user:"Ada \\"L\\" (x)" id!=7', '{service_name=~".+"} | user=~"Ada \\"L\\" \\\\(x\\\\)" | id!~"7"'],
  ["-http://h/p", '{service_name=~".+"} !~ "(?i)http://h/p"'],
  ['{service_name="shop"} |= "x"', '{service_name="shop"} |= "x"'],
])("the query %s selects %s", (line, expected) => {
  expect(filter(line)).toBe(expected);
});

test.each(["a OR b", "(a b)", "source:pay*", "duration_ms>400", "http.route:/^cart/", "NOT a", "level>=warn"])(
  "the query %s has no equal in LogQL, and the message names the condition",
  (line) => {
    expect(() => filter(line)).toThrow(/cannot be grouped: remove/);
  },
);

test.each([
  [{ of: "count", field: "", by: [] }, "sum (count_over_time({a} [60s]))"],
  [{ of: "count", field: "", by: ["source", "level"] }, "sum by (service_name, level) (count_over_time({a} [60s]))"],
  [
    { of: "unique", field: "user.id", by: ["level"] },
    'count by (level) (count by (level, user_id) (count_over_time({a} | user_id!="" [60s])))',
  ],
  [{ of: "sum", field: "bytes", by: [] }, "sum (sum_over_time({a} | unwrap bytes [60s]))"],
  [{ of: "p95", field: "duration_ms", by: ["source"] }, "quantile_over_time(0.95, {a} | unwrap duration_ms [60s]) by (service_name)"],
] satisfies [Aggregate, string][])("%j of records is %s", (aggregate, expected) => {
  expect(logQlOf(aggregate, "{a}", "60s")).toBe(expected);
});

test("spans are counted by the labels of their metrics, with the service and the error of the search", () => {
  expect(promQlOf({ of: "count", field: "", by: ["operation", "unknown"] }, { service: 'a"b', error: "true" }, "60s")).toBe(
    'sum by (span_name) (increase(traces_spanmetrics_calls_total{service="a\\"b",status_code="STATUS_CODE_ERROR"}[60s]))',
  );
  expect(promQlOf({ of: "p99", field: "", by: ["service"] }, {}, "60s")).toBe(
    "histogram_quantile(0.99, sum by (le, service) (increase(traces_spanmetrics_latency_bucket{}[60s])))",
  );
});

test.each([
  ["", { of: "count", field: "", by: ["source"] }],
  ["of=drop&by=a", { of: "count", field: "", by: ["a"] }],
  ["of=unique&field=user&by=a&by=b&by=c&by=d", { of: "unique", field: "user", by: ["a", "b", "c"] }],
  ["of=sum&field=x&by=-", { of: "sum", field: "x", by: [] }],
])("the address %s calculates %j", (address, expected) => {
  expect(readAggregate(new URLSearchParams(address), "source")).toEqual(expected);
});

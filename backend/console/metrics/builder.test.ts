// @vitest-environment node
import { expect, test } from "vitest";
import { firstQuery, parseQuery, formatQuery } from "./builder.ts";

test.each([
  ["up"],
  ['system_memory_usage_bytes{state="used", node!~"a|b"}'],
  ["rate(system_network_io_bytes_total[5m])"],
  ['sum by (direction, node) (rate(system_network_io_bytes_total{node="vm"}[1m]))'],
  ["count (up)"],
  ['histogram_quantile(0.95, sum by (le, service) (rate(traces_spanmetrics_latency_bucket{service="a\\"}) or b{c=\\""}[5m])))'],
  ["histogram_quantile(0.5, sum by (le) (rate(a_bucket[5m])))"],
  ["max by (k8s_node_name) (increase(a:b[1h]))"],
])("parses what it wrote: %s", (query) => {
  const built = parseQuery(query);
  expect(built && formatQuery(built)).toBe(query);
});

test("parses a query with any white space", () => {
  expect(parseQuery(' sum by(state)( system_memory_usage_bytes{state = "used",} )')).toBeUndefined();
  expect(parseQuery(' sum by(state)( system_memory_usage_bytes{state = "used"} )')).toMatchObject({ combination: "sum", by: ["state"] });
});

test.each([
  ["a + b"],
  ["sum(a) / sum(b)"],
  ["rate(a[5m:1m])"],
  ["a offset 5m"],
  ['{__name__="a"}'],
  ['a{b="\\x41"}'],
  ["a{b=~`c`}"],
  ["histogram_quantile(0.42, sum by (le) (rate(a[5m])))"],
  ["histogram_quantile(0.95, a)"],
  ["sum without (a) (b)"],
  ['a{b="c"} > 1'],
  ["topk(5, a)"],
])("does not parse an expression that its fields cannot show: %s", (query) => expect(parseQuery(query)).toBeUndefined());

test("starts a counter as its rate, a histogram as its 95th percentile, another metric as its values", () => {
  expect(formatQuery(firstQuery("io_bytes_total", "counter"))).toBe("sum (rate(io_bytes_total[5m]))");
  expect(formatQuery(firstQuery("latency_seconds", "histogram"))).toBe(
    "histogram_quantile(0.95, sum by (le) (rate(latency_seconds_bucket[5m])))",
  );
  expect(formatQuery(firstQuery("load", "unknown"))).toBe("load");
});

test("keeps a value with quotes as one value", () => {
  const filter = { label: "a", operator: "=", value: 'x"} or {b="' } as const;
  const query = formatQuery({ ...firstQuery("m", undefined), filters: [filter] });
  expect(query).toBe('m{a="x\\"} or {b=\\""}');
  expect(parseQuery(query)?.filters).toEqual([filter]);
});

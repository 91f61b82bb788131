import { expect, test } from "vitest";
import { evaluationOf, refuseCostly } from "./query-cost.ts";

const H = 3600;
const range = (seconds: number, step: number) => ({ points: seconds / step + 1, stepMs: step * 1000 });
const codeOf = (expression: string, evaluation = { points: 1, stepMs: 300_000 }): string => {
  try {
    refuseCostly(expression, evaluation);
    return "taken";
  } catch (error) {
    return String((error as { code?: string }).code);
  }
};

test.each([
  ["up", range(30 * 24 * H, 60)],
  ["rate(x[5m])", range(24 * H, 15)],
  ["max_over_time(rate(x[5m])[7d:1m])", range(24 * H, 90)],
  ["max_over_time(rate(x[5m])[30d:5m]) - min_over_time(rate(x[5m])[30d:5m])", range(24 * H, 90)],
  ["avg_over_time(x[30d])", range(24 * H, 90)],
  ['sum by (a) (count_over_time({b="[6h:1s]"}[1h])) # [6h:1s]', range(24 * H, 15)],
  ["quantile_over_time(0.9, max_over_time(x[1m:1s])[1h:10s])", range(6 * H, 60)],
  ["rate(x[$__interval]) + rate(x[3i])", range(6 * H, 60)],
  ["ru(free, max)", range(6 * H, 60)],
  ['count_values("version", build) > 3', { points: 1, stepMs: 300_000 }],
  ["max_over_time(x[1h:1s]) keep_metric_names + max_over_time(sum(x) by (a) limit 5 [1h:1s])", range(6 * H, 60)],
])("accepts %s", (expression, evaluation) => expect(codeOf(expression, evaluation)).toBe("taken"));

test.each([
  ["count(mode_over_time((rand(1)+rand(2))[6h:1s]))", range(6 * H, 1)],
  ["mode_over_time((rand(1)+rand(2))[6h])", range(6 * H, 1)],
  ["mode_over_time(x[21600:1])", range(6 * H, 1)],
  ["mode_over_time(rand(1)[6H:1S] offset 1h)", range(6 * H, 1)],
  ["sum_over_time(sum_over_time(rand(1)[1h:1s])[6h:1s])", range(0, 300)],
  ["sum_over_time(sum_over_time(rand(1)[1h:1s]) keep_metric_names [6h:1s])", range(0, 300)],
  ["sum_over_time(sum(sum_over_time(rand(1)[1h:1s])) by (x) [6h:1s])", range(0, 300)],
  ["sum_over_time(sum(sum_over_time(rand(1)[1h:1s])) WITHOUT (x) LIMIT 5 [6h:1s])", range(0, 300)],
  ['count(count_values("v", rand()))', range(29_000, 1)],
  ['COUNT_VALUES by (x) ("v", y)', range(60, 30)],
  ['max_over_time(count_values("v", rand())[3h:1s])', range(0, 300)],
  ['count(count_values_over_time("v", x[30d])) + count(count_values("v", x))', range(0, 300)],
  [`mode_over_time(union(${Array.from({ length: 400 }, (_, n) => `label_set(rand(1),"a","${n}")`).join(",")})[1h:1s])`, range(3600, 15)],
  ["sum_over_time((sum_over_time((sum_over_time(x[1h:1m]))[1d:1m]))[30d:1m])", range(0, 300)],
  [Array.from({ length: 60 }, () => "mode_over_time(rand(1)[3h:1s])").join("+"), range(600, 1)],
  [`aggr_over_time((${Array.from({ length: 500 }, () => '"mode_over_time"').join(",")}), rand(1)[1h:1s])`, range(600, 1)],
  [`${"ru(1,".repeat(14)}1${")".repeat(14)}`, range(0, 300)],
  ["x".repeat(65_537), range(0, 300)],
  [`x${"[1h:1h]".repeat(101)}`, range(0, 300)],
  ["[]".repeat(8000), range(0, 300)],
])("rejects %s as too expensive", (expression, evaluation) => expect(codeOf(expression, evaluation)).toBe("query_too_expensive"));

test("rejects WITH templates, which can expand without limit, by name", () => {
  expect(codeOf("WITH (a = x + x, b = a + a) b")).toBe("invalid_parameter");
  expect(codeOf("with(f(y) = y + y) f(f(1))")).toBe("invalid_parameter");
  expect(codeOf("with_this + 1")).toBe("taken");
});

test("rejects an escaped function name, which could be any", () => {
  expect(codeOf("count_values\\_over_time(x[1h])")).toBe("invalid_parameter");
  expect(codeOf("a\\-b[5m] + rate(a\\-b[5m])")).toBe("taken");
});

test("rejects a window of unknown length", () => expect(codeOf("max_over_time(rand(1)[soon:1s])")).toBe("invalid_parameter"));

test.each(['"', "'", "`", "[", "(", "\\'", "a[", '"\\'])("reads 64 KiB of %j without a delay", (text) => {
  const before = process.cpuUsage();
  codeOf(text.repeat(64_000 / text.length));
  expect(process.cpuUsage(before).user / 1000).toBeLessThan(2000);
});

test("the estimate uses the same start, end and step as the engine", () => {
  const params = new URLSearchParams({ start: "2026-11-22T00:00:00Z", end: "1795309200.5", step: "1m" });
  expect(evaluationOf("query_range", params)).toEqual({ points: 61, stepMs: 60_000 });
  expect(Object.fromEntries(params)).toEqual({ start: "1795305600", end: "1795309200.5", step: "60000ms" });
  expect(evaluationOf("query", new URLSearchParams({ step: "0.5" }))).toEqual({ points: 1, stepMs: 500 });
  for (const [name, value] of [
    ["start", "-6h"],
    ["end", "now"],
    ["step", "soon"],
    ["step", "0"],
  ] as const) {
    expect(() => evaluationOf("query_range", new URLSearchParams({ start: "1", end: "2", step: "1", [name]: value }))).toThrow(`${name}: `);
  }
});

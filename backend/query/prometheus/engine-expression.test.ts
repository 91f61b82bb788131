// Which expressions the engine gets in another spelling.
import { expect, it } from "vitest";
import { engineExpression } from "./engine-expression.ts";

it.each(["avg_over_time(a[5m])", 'clamp(max_over_time(a{x=")"}[5m] offset 1h), 0, (1))', " quantile_over_time(0.9, a[5m]) # )"])(
  "%s drops names",
  (expression) => {
    expect(engineExpression(expression)).toBe(`label_del(${expression}\n, "__name__")`);
  },
);

it.each([
  "a",
  "sum(floor(a))",
  "last_over_time(a[5m])",
  "floor(a) + ceil(b)",
  "floor(a) keep_metric_names",
  'floor({__name__=~"a|b"})',
  'max_over_time({job="x"}[5m])',
  "floor(a",
  '"floor(a)"',
  "constructor(a)",
])("%s stays", (expression) => {
  expect(engineExpression(expression)).toBe(expression);
});

it("a function of Prometheus 3 has the engine's name, a text stays", () => {
  expect(engineExpression('sum(double_exponential_smoothing(a{b="double_exponential_smoothing"}[5m], 0.5, 0.5))')).toBe(
    'sum(holt_winters(a{b="double_exponential_smoothing"}[5m], 0.5, 0.5))',
  );
});

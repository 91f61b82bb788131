// For which expressions Prometheus returns a scalar or a string, and which expressions are rewritten for the engine.
import { expect, test } from "vitest";
import { answerString, engineExpression, isScalar, toScalar } from "./prometheus-semantics.ts";

test.each([
  "1",
  "-1.5e3 + 2",
  "(1 + 2) * 3 ^ -2 % 5",
  "0x1f / .5",
  "Inf - NaN",
  "time() - 60",
  "PI()",
  "1 == bool 2",
  'scalar(sum by (a) (up{b=")"} > 1)) * 2',
  "# text\n1",
])("%s is a scalar", (expression) => expect(isScalar(expression)).toBe(true));

test.each([
  "",
  "up",
  "up + 1",
  "vector(1)",
  "1 > 2",
  "scalar(up) + up",
  "scalar",
  "time",
  "timestamp(up)",
  "absent(up)",
  '{a="b"}',
  "1 default 2",
  "up[5m]",
  '"1"',
])("%j is no scalar", (expression) => expect(isScalar(expression)).toBe(false));

const at = (query: string) => new URLSearchParams({ query, time: "1700000000.5" });

test.each([
  ['"a text"', "a text"],
  [" 'it''s' ", undefined],
  ["'say \\'hi\\'\\n'", "say 'hi'\n"],
  ["`raw\\n`", "raw\\n"],
  ['""', ""],
  ['"a" + "b"', undefined],
  ["up", undefined],
])("%s is the string %j", (query, text) => {
  const answer = answerString(at(query));
  const expected = text === undefined ? undefined : { status: "success", data: { resultType: "string", result: [1_700_000_000.5, text] } };
  expect(answer && JSON.parse(answer.toString("utf8"))).toEqual(expected);
});

test("a scalar without a sample is NaN", () => {
  const vector = (result: object[]) => Buffer.from(JSON.stringify({ status: "success", data: { resultType: "vector", result } }));
  const read = (answer: Buffer) => JSON.parse(answer.toString("utf8")).data;
  expect(read(toScalar(vector([{ metric: {}, value: [7, "2"] }]), at("1+1")))).toEqual({ resultType: "scalar", result: [7, "2"] });
  expect(read(toScalar(vector([]), at("scalar(none)")))).toEqual({ resultType: "scalar", result: [1_700_000_000.5, "NaN"] });
});

test.each(["avg_over_time(a[5m])", 'clamp(max_over_time(a{x=")"}[5m] offset 1h), 0, (1))', " quantile_over_time(0.9, a[5m]) # )"])(
  "%s drops names",
  (expression) => {
    expect(engineExpression(expression)).toBe(`label_del(${expression}\n, "__name__")`);
  },
);

test.each([
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
])("%s keeps names", (expression) => {
  expect(engineExpression(expression)).toBe(expression);
});

test("renames a function of Prometheus 3 to the engine's name, but not within a text", () => {
  expect(engineExpression('sum(double_exponential_smoothing(a{b="double_exponential_smoothing"}[5m], 0.5, 0.5))')).toBe(
    'sum(holt_winters(a{b="double_exponential_smoothing"}[5m], 0.5, 0.5))',
  );
});

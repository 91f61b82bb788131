// Which expressions Prometheus answers with a scalar or a string, and which it does not.
import { expect, test } from "vitest";
import { answerString, isScalar, toScalar } from "./scalar-results.ts";

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
])("%j is none", (expression) => expect(isScalar(expression)).toBe(false));

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

test("a scalar without a sample is not a number", () => {
  const vector = (result: object[]) => Buffer.from(JSON.stringify({ status: "success", data: { resultType: "vector", result } }));
  const read = (answer: Buffer) => JSON.parse(answer.toString("utf8")).data;
  expect(read(toScalar(vector([{ metric: {}, value: [7, "2"] }]), at("1+1")))).toEqual({ resultType: "scalar", result: [7, "2"] });
  expect(read(toScalar(vector([]), at("scalar(none)")))).toEqual({ resultType: "scalar", result: [1_700_000_000.5, "NaN"] });
});

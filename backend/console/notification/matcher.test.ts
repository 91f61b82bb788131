import { expect, test } from "vitest";
import { fromSilence, toSilence } from "../../client/matcher.ts";
import { labelsKey, matchersOf, parseMatchers, formatMatchers } from "./matcher.ts";

test.each([
  ['severity="critical"', { label: "severity", op: "=", value: "critical" }],
  [" team != shop ", { label: "team", op: "!=", value: "shop" }],
  ['instance=~"db-.*"', { label: "instance", op: "=~", value: "db-.*" }],
  [String.raw`pod!~"a\\d\"\n"`, { label: "pod", op: "!~", value: 'a\\d"\n' }],
  ["empty=", { label: "empty", op: "=", value: "" }],
])("parses %s", (text, matcher) => {
  expect(parseMatchers(`\n${text}\n`)).toEqual([matcher]);
});

test.each(["critical", "=a", "1a=b", 'a="b', 'a="b"c"'])("%s is rejected with a message that contains it", (text) => {
  expect(() => parseMatchers(text)).toThrow(text);
});

test("parses what it wrote as the same, with any content", () => {
  const values = ["", "plain", 'a"b', "a\\b", "a\nb", "\\n", "\\u202e", "\u202e \u001b[31m \r <b>", '"', "=~"];
  const matchers = values.flatMap((value) => ["=", "!=", "=~", "!~"].map((op) => ({ label: "a_1", op, value })));
  expect(parseMatchers(formatMatchers(matchers))).toEqual(matchers);
  expect(formatMatchers(matchers)).not.toMatch(/[\u202e\u001b\r]/);
  expect(matchers.map(toSilence).map(fromSilence)).toEqual(matchers);
});

test("matchers of an alert start with its name, up to the limit of a silence", () => {
  const labels = Object.fromEntries([...Array.from({ length: 30 }, (_, at) => [`label_${at}`, "x"]), ["alertname", "memory"]]);
  const own = matchersOf(labels);
  expect([own.length, formatMatchers(own.slice(0, 1))]).toEqual([20, 'alertname="memory"']);
});

test("labels in another order are the same alert, other labels are not", () => {
  expect(labelsKey({ a: "1", b: "2" })).toBe(labelsKey({ b: "2", a: "1" }));
  expect(labelsKey({ a: "1", b: "2" })).not.toBe(labelsKey({ a: "1", b: "3" }));
});

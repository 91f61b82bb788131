import { expect, test } from "vitest";
import { fillVariables, seriesLegend } from "./dashboard.ts";

test.each([
  ['up{node="$node"}', { node: "a" }, 'up{node="a"}'],
  ['up{node="${node}",c="[[c]]"}', { node: "a", c: "b" }, 'up{node="a",c="b"}'],
  ['up{node="${node:regex}"}', { node: "a" }, 'up{node="a"}'],
  ['up{node=~"$node"}', { node: "a.b" }, 'up{node=~"a\\\\.b"}'],
  ['up{node=~"$node-.+"}', { node: "a|b" }, 'up{node=~"a\\\\|b-.+"}'],
  ['up{node="$node"}', { node: 'x"} or secret{a="' }, 'up{node="x\\"} or secret{a=\\""}'],
  ["topk($n, up)", { n: "5" }, "topk(5, up)"],
  ["topk($n, up)", { n: "5, up) or (up" }, "topk($n, up)"],
  ['up{node="$other"}', { node: "a" }, 'up{node="$other"}'],
  ['up{node="$toString"}', { node: "a" }, 'up{node="$toString"}'],
  ['node:"$node"', { node: "a b" }, 'node:"a b"'],
])("%s with %j is %s", (query, chosen, expected) => {
  expect(fillVariables(query, chosen)).toBe(expected);
});

test("does not expand a value that looks like a variable", () => {
  expect(fillVariables('a{b="$x",c="$y"}', { x: "$y", y: "1" })).toBe('a{b="$y",c="1"}');
});

test("fills the values of labels into a legend, and nothing for a missing one", () => {
  expect(seriesLegend("{{pod}} {{ container }} used", { pod: "p", container: "c" })).toBe("p c used");
  expect(seriesLegend("{{missing}} used", {})).toBe("used");
});

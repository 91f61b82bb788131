import { expect, test } from "vitest";
import { hasTerm, piecesOf, type Term, withoutTerm, withTerm, written } from "./query-line.ts";

const term = (name: string, value: string, not = false): Term => ({ not, name, value });

test.each<[Term, string]>([
  [term("level", "error"), "level:error"],
  [term("level", "info", true), "-level:info"],
  [term("label.http.route", "/cart"), 'http.route:"/cart"'],
  [term("label.user", "Ada Lovelace"), 'user:"Ada Lovelace"'],
  [term("label.level", "x"), "label.level:x"],
  [term("label.label.x", "y"), "label.label.x:y"],
  [term("label.<i>key</i>", 'a "b" \\'), '"<i>key</i>":"a \\"b\\" \\\\"'],
  [term("label.path", "a*b,c"), 'path:"a*b,c"'],
  [term("", "two words"), '"two words"'],
  [term("", "a:b"), '"a:b"'],
  [term("", "OR"), '"OR"'],
  [term("", "-x", true), '-"-x"'],
  [term("source", ""), 'source:""'],
])("%j is written as %s", (of, text) => {
  expect(written(of)).toBe(text);
});

test.each([
  ['a "b c" (d OR e) -/f g/ h:"i j"', ["a", '"b c"', "(d OR e)", "-/f g/", 'h:"i j"']],
  ["a\\ b (c", ["a\\ b", "(c"]],
  ['"open and on', ['"open and on']],
])("%s has its pieces", (line, pieces) => {
  expect(piecesOf(line)).toEqual(pieces);
});

test.each([
  ["", "level:error"],
  ["timeout", "timeout level:error"],
  ["timeout AND level:warn", "timeout level:error"],
  ["-level:error timeout", "timeout level:error"],
  ["a OR b", "(a OR b) level:error"],
  ["NOT level:warn x", "x level:error"],
])("%s with level:error", (line, expected) => {
  expect(withTerm(line, term("level", "error"))).toBe(expected);
});

test("a condition is found and taken away again", () => {
  const line = withTerm("timeout", term("label.a b", "c", true));
  expect(line).toBe('timeout -"a b":c');
  expect(hasTerm(line, term("label.a b", "c", true))).toBe(true);
  expect(withoutTerm(line, term("label.a b", "c", true))).toBe("timeout");
  expect(withoutTerm("timeout AND level:error", term("level", "error"))).toBe("timeout");
});

import { expect, test } from "vitest";
import {
  hasTerm,
  patternCondition,
  chosenFields,
  splitQuery,
  type Term,
  addCondition,
  removeTerm,
  addTerm,
  formatTerm,
} from "./query-line.ts";

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
])("writes %j as %s", (of, text) => {
  expect(formatTerm(of)).toBe(text);
});

test.each([
  ['a "b c" (d OR e) -/f g/ h:"i j"', ["a", '"b c"', "(d OR e)", "-/f g/", 'h:"i j"']],
  ["a\\ b (c", ["a\\ b", "(c"]],
  ['"open and on', ['"open and on']],
])("splits %s into its pieces", (line, pieces) => {
  expect(splitQuery(line)).toEqual(pieces);
});

test.each([
  ["", "level:error"],
  ["timeout", "timeout level:error"],
  ["timeout AND level:warn", "timeout level:error"],
  ["-level:error timeout", "timeout level:error"],
  ["a OR b", "(a OR b) level:error"],
  ["NOT level:warn x", "x level:error"],
])("%s with level:error", (line, expected) => {
  expect(addTerm(line, term("level", "error"))).toBe(expected);
});

test("finds a condition and removes it again", () => {
  const line = addTerm("timeout", term("label.a b", "c", true));
  expect(line).toBe('timeout -"a b":c');
  expect(hasTerm(line, term("label.a b", "c", true))).toBe(true);
  expect(removeTerm(line, term("label.a b", "c", true))).toBe("timeout");
  expect(removeTerm("timeout AND level:error", term("level", "error"))).toBe("timeout");
});

test.each([
  ["GET /cart <_> in <_> ms", "/^GET \\/cart .* in .* ms/"],
  ["a.b*c (1) [x] {y} $ ^ | \\", "/^a\\.b\\*c \\(1\\) \\[x\\] \\{y\\} \\$ \\^ \\| \\\\/"],
  ["tab\there", "/^tab\\shere/"],
  ["<_> started", "/^.* started/"],
])("text of %s is matched by %s", (pattern, condition) => {
  expect(patternCondition(pattern)).toBe(condition);
  // It stays one condition in the line, excluded or not.
  expect(splitQuery(`level:error -${condition}`)).toEqual(["level:error", `-${condition}`]);
});

test.each(["<_>", "<_> <_>", ""])("finds no text to search for in %j", (pattern) => {
  expect(patternCondition(pattern)).toBeUndefined();
});

test("adds a condition once, and it applies to all alternatives", () => {
  expect(addCondition("level:error", "/^a/")).toBe("level:error /^a/");
  expect(addCondition("level:error /^a/", "/^a/")).toBe("level:error /^a/");
  expect(addCondition("a OR b", "-/^a/")).toBe("(a OR b) -/^a/");
});

test.each([
  ['{service_name="shop"}', term("level", "error"), '{service_name="shop"} | level="error"'],
  ['{service_name="shop"} | level="warn"', term("level", "error"), '{service_name="shop"} | level="error"'],
  ['{service_name="shop"} | level!="error"', term("level", "error"), '{service_name="shop"} | level="error"'],
  ['{service_name="shop"}', term("source", 'a "b" \\'), '{service_name="shop"} | service_name="a \\"b\\" \\\\"'],
  ['{service_name="shop"} ', term("label.http.route", "/cart", true), '{service_name="shop"} | http_route!="/cart"'],
  ['{service_name="shop"}', term("label.2xx-rate", "1"), '{service_name="shop"} | _2xx_rate="1"'],
  ['{service_name="shop"}', term("", "two words", true), '{service_name="shop"} != "two words"'],
])("extends LogQL %s with the stage of %j", (line, of, expected) => {
  expect(addTerm(line, of)).toBe(expected);
  expect(hasTerm(expected, of)).toBe(true);
  expect(hasTerm(removeTerm(expected, of), of)).toBe(false);
});

test("converts a pattern to a line filter of LogQL", () => {
  const condition = patternCondition("GET /cart <_> in <_> ms") ?? "";
  expect(addCondition('{a="b"}', condition)).toBe('{a="b"} |~ "^GET /cart .* in .* ms"');
  expect(addCondition('{a="b"}', `-${condition}`)).toBe('{a="b"} !~ "^GET /cart .* in .* ms"');
});

test("filters a truncated value by its start, in either language", () => {
  const cut = { not: false, name: "label.user agent", value: 'Mozilla/5.0 (a|b)\n"x"', isCut: true };
  expect(formatTerm(cut)).toBe(String.raw`"user agent":/^Mozilla\/5\.0\x{20}\(a\|b\)\x{a}\x{22}x\x{22}/`);
  expect(splitQuery(addTerm("timeout", cut))).toHaveLength(2);
  expect(removeTerm(addTerm("timeout", cut), cut)).toBe("timeout");
  expect(addTerm('{a="b"}', { ...cut, not: true })).toBe(
    String.raw`{a="b"} | user_agent!~"(?s)Mozilla\\/5\\.0\\x{20}\\(a\\|b\\)\\x{a}\\x{22}x\\x{22}.*"`,
  );
});

test.each([
  ["level:error source:a,b timeout", { level: "source:a,b timeout", source: "level:error timeout" }],
  ['"my key":x AND level:error -node:n', { '"my key"': "level:error -node:n", level: '"my key":x AND -node:n' }],
  ["http://host/path", {}],
  ["a OR level:error", {}],
  ['{level="error"} | node="x"', {}],
])("the values of %s are chosen for %j", (line, expected) => {
  expect(Object.fromEntries(chosenFields(line).map(({ field, rest }) => [field, rest]))).toEqual(expected);
});

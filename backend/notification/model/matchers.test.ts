// Matchers have the same meaning as in Alertmanager, and hostile ones are refused or cheap.
import { describe, expect, it } from "vitest";
import { checkMatchers, compileMatchers, countExpressions, toMatcher, type Matcher, type MatchOperator, readMatcher } from "./matchers.ts";

function one(op: MatchOperator, value: string, label = "instance"): Matcher {
  return toMatcher({ label, op, value });
}

function hold(op: MatchOperator, value: string, of: string): boolean {
  return compileMatchers([one(op, value)])({ instance: of });
}

describe("a matcher matches", () => {
  // Alertmanager's own table (pkg/labels/matcher_test.go), and what its parser's documentation says.
  it.each([
    ["=", "bar", "bar", true],
    ["=", "bar", "foo-bar", false],
    ["!=", "bar", "bar", false],
    ["!=", "bar", "foo-bar", true],
    ["=~", "bar", "bar", true],
    ["=~", "bar", "foo-bar", false],
    ["=~", ".*bar", "foo-bar", true],
    ["!~", "bar", "bar", false],
    ["!~", "bar", "foo-bar", true],
    ["!~", ".*bar", "foo-bar", false],
    ["=~", "foo.bar", "foo-bar", true],
    ["=~", String.raw`foo\.bar`, "foo-bar", false],
    ["=~", String.raw`foo\.bar`, "foo.bar", true],
    ["=", "foo\nbar", "foo\nbar", true],
    ["=~", "foo.bar", "foo\nbar", false],
    ["=~", "(?s)foo.bar", "foo\nbar", true],
    ["=~", "bar.?", "bar\n", false],
    ["=~", "db-1|db-2", "db-2", true],
    ["=~", "db-1|db-2", "db-20", false],
    ["=~", "(?i)DB-.*", "db-7", true],
  ] as const)("if %s %j of %j is %j", (op, value, of, holds) => {
    expect(hold(op, value, of)).toBe(holds);
  });

  it("a missing label like an empty one", () => {
    const labels = { severity: "critical" };
    expect(compileMatchers([one("=", "")])(labels)).toBe(true);
    expect(compileMatchers([one("!=", "a")])(labels)).toBe(true);
    expect(compileMatchers([one("=~", ".+")])(labels)).toBe(false);
    expect(compileMatchers([one("!=", "", "constructor")])(labels)).toBe(false);
  });

  it("if all of several do, and everything without any", () => {
    const both = compileMatchers([one("=~", "db-.*"), one("=", "critical", "severity")]);
    expect(both({ instance: "db-1", severity: "critical" })).toBe(true);
    expect(both({ instance: "db-1", severity: "info" })).toBe(false);
    expect(both({ instance: "web-1", severity: "critical" })).toBe(false);
    expect(compileMatchers([])({})).toBe(true);
  });

  it("nothing, even if negated, if its stored expression is invalid", () => {
    expect(hold("=~", "(", "x")).toBe(false);
    expect(hold("!~", "(", "x")).toBe(false);
  });
});

describe("rejected matchers", () => {
  it.each([
    ["an expression that is none", one("=~", "[regexp"), /^matchers\[0\]\.value: is not a regular expression/],
    ["one that would be read only between our brackets", one("=~", "a)|(?:b"), /^matchers\[0\]\.value: is not a regular expression/],
    ["one that repeats too much", one("=~", ".*a.{45}x"), /^matchers\[0\]\.value: must have at most 12/],
    ["one that has as many ways to go on", one("=~", `.*a${"(a|b)".repeat(11)}[yb]`), /^matchers\[0\]\.value: must have at most 12/],
    ["one that repeats an empty group", one("=~", "(){1000}"), /^matchers\[0\]\.value: must have at most 12/],
    [
      "one that ignores the case of all characters",
      one("=~", `(?i)[${"\u0100-\uffff".repeat(300)}]`),
      /^matchers\[0\]\.value: must have at most 12/,
    ],
    ["a value that is too long", one("=", "x".repeat(1001)), /^matchers\[0\]\.value: must have at most 1000/],
    ["a NUL, which a database would not take", one("=", "a\u0000b"), /^matchers\[0\]\.value: must be well-formed/],
    ["half a character", one("=", "a\ud800"), /^matchers\[0\]\.value: must be well-formed/],
    ["a name that is none", one("=", "a", "my-label"), /^matchers\[0\]\.name: /],
  ])("rejects %s", (_, matcher, message) => {
    expect(() => checkMatchers([matcher], { anyAlert: true })).toThrow(message);
  });

  it.each(["(?:shop|pay|cart|mail)-(?:db|web|cache)-.*", "(?:eu|us)-(?:east|west)-[12][abc]|local", ".*a(a|b)(a|b)[yb]"])(
    "accepts %s",
    (value) => {
      expect(() => checkMatchers([one("=~", value)], { anyAlert: true })).not.toThrow();
    },
  );

  it("names the invalid matcher, and accepts at most twenty", () => {
    expect(() => checkMatchers([one("=", "a"), one("=~", "(")], { anyAlert: true })).toThrow(/^matchers\[1\]\.value/);
    const many = Array.from({ length: 21 }, () => one("=", "a"));
    expect(() => checkMatchers(many, { anyAlert: true })).toThrow("matchers: must have at most 20");
  });

  it("rejects expressions that take long to compile together, and accepts long lists of values", () => {
    const expressions = Array.from({ length: 3 }, () => one("=~", `${"a".repeat(900)}.`));
    expect(() => checkMatchers(expressions, { anyAlert: true })).toThrow(
      /^matchers: all expressions together must have at most 2000 characters/,
    );
    const groups = Array.from({ length: 15 }, () => one("=~", "((((((((((((a)))))))))))){12}"));
    expect(() => checkMatchers(groups, { anyAlert: true })).toThrow(/^matchers: all expressions together/);
    const lists = Array.from({ length: 20 }, () => one("=~", "abc|".repeat(240)));
    expect(() => checkMatchers(lists, { anyAlert: true })).not.toThrow();
  });

  it("rejects a silence of every alert, and accepts such a route", () => {
    for (const matchers of [[], [one("=", "")], [one("=~", ".*")], [one("!=", "a"), one("!~", "a.+")]]) {
      expect(() => checkMatchers(matchers, { anyAlert: false })).toThrow(/^matchers: at least one must not match/);
      expect(() => checkMatchers(matchers, { anyAlert: true })).not.toThrow();
    }
    for (const matchers of [[one("=", "a")], [one("=~", ".*"), one("=~", ".+")], [one("!=", "")], [one("!~", "")]])
      expect(() => checkMatchers(matchers, { anyAlert: false })).not.toThrow();
  });
});

it("limits the time of the regular expression engine: a long value never matches", () => {
  expect(hold("=~", "a.*", `a${"b".repeat(999)}`)).toBe(true);
  expect(hold("=~", "a.*", `a${"b".repeat(1000)}`)).toBe(false);
  expect(hold("!~", "a.*", `a${"b".repeat(1000)}`)).toBe(true);
});

it("counts expressions that are more than lists of values", () => {
  expect(countExpressions([one("=", "a.*"), one("=~", "a|b"), one("=~", "a.*"), one("!~", "(a|b)c")])).toBe(2);
});

describe("a matcher as text", () => {
  // From Alertmanager's pkg/labels/parse_test.go; commas separate no matchers here.
  it.each([
    ["foo=bar", "foo", "=", "bar"],
    ['foo="bar"', "foo", "=", "bar"],
    ["foo=~bar.*", "foo", "=~", "bar.*"],
    ['foo!~"bar.*"', "foo", "!~", "bar.*"],
    [' dings != "bums" ', "dings", "!=", "bums"],
    ['"quoted"="x"', "quoted", "=", "x"],
    ["foo=", "foo", "=", ""],
    ['foo=""', "foo", "=", ""],
    ["tricky=~~~", "tricky", "=~", "~~"],
    [String.raw`trickier==\\=\=\"`, "trickier", "=", String.raw`=\=\="`],
    [String.raw`contains_quote != "\""`, "contains_quote", "!=", '"'],
    ['contains_comma !~ "foo,bar"', "contains_comma", "!~", "foo,bar"],
    [String.raw`quote="She said: \"Hi\""`, "quote", "=", 'She said: "Hi"'],
    [String.raw`foo=bar\t`, "foo", "=", String.raw`bar\t`],
    [String.raw`foo=bar\n`, "foo", "=", "bar\n"],
    ["foo=bar\\", "foo", "=", "bar\\"],
  ])("%s", (text, label, op, value) => {
    expect(readMatcher(text)).toEqual(toMatcher({ label, op: op as MatchOperator, value }));
  });

  it.each(['job="value', 'job=value"', String.raw`a==\\=\=\""`, 'a = foo"bar', 'invalid-name = "x"', "foo", "", "=a", String.raw`a="b\"`])(
    "rejects %s",
    (text) => {
      expect(readMatcher(text)).toBeUndefined();
    },
  );
});

import * as fc from "fast-check";
import { expect, test } from "vitest";
import { type LogQuery, parseLogQuery } from "./parse.ts";
import { globExpression } from "./scan.ts";

/** Empty if it is parsed. */
function refusalOf(text: string): string {
  try {
    parseLogQuery(text);
    return "";
  } catch (error) {
    return (error as Error).message;
  }
}

/** A query with all its brackets. */
function shown(query: LogQuery | undefined): string {
  if (!query) return "";
  if (query.kind === "not") return `NOT ${shown(query.part)}`;
  if (query.kind === "message") return `${query.value.kind === "text" ? "" : query.value.kind}<${query.value.text}>`;
  if (query.kind === "field")
    return `${query.name}${query.comparison}[${query.values.map(({ kind, text }) => (kind === "text" ? text : `${kind}<${text}>`)).join("|")}]`;
  return `(${query.parts.map(shown).join(query.kind === "and" ? " & " : " | ")})`;
}

test.each([
  ["", ""],
  ["  ", ""],
  ["timeout", "<timeout>"],
  ["lock AND wait", "(<lock> & <wait>)"],
  ["lock wait", "(<lock> & <wait>)"],
  ["level:error OR level:warn", "(level=[error] | level=[warn])"],
  ["level:error,warn", "level=[error|warn]"],
  ["level:(error warn)", "level=[error|warn]"],
  ["level:(error OR warn)", "level=[error|warn]"],
  ["level=error", "level=[error]"],
  ["a b OR c d", "((<a> & <b>) | (<c> & <d>))"],
  ["(a OR b) c", "((<a> | <b>) & <c>)"],
  ["NOT (a OR b)", "NOT (<a> | <b>)"],
  ["-level:info", "NOT level=[info]"],
  ["level!=info", "NOT level=[info]"],
  ["- - a", "(<-> & <-> & <a>)"],
  ["NOT NOT a", "<a>"],
  ["source:pay*", "source=[glob<pay*>]"],
  ["time*out", "glob<time*out>"],
  ["duration_ms>400", "duration_ms>[400]"],
  ["duration_ms:>=0.5", "duration_ms>=[0.5]"],
  ["temperature<-3e2", "temperature<[-3e2]"],
  ["trace_id:*", "trace_id=[any<*>]"],
  ["-order.id:*", "NOT order.id=[any<*>]"],
  ['"two words" key:"a b"', "(<two words> & key=[a b])"],
  ['say:"a \\"b\\" c"', 'say=[a "b" c]'],
  ["/time(d )?out/", "regex<time(d )?out>"],
  ["http.route:/^\\/cart/", "http.route=[regex<^/cart>]"],
  ["log.file.path:/var/log/app.log", "log.file.path=[/var/log/app.log]"],
  ["log.file.path=/var", "log.file.path=[/var]"],
  ["http://host/path", "<http://host/path>"],
  ["error: -", "(<error:> & <->)"],
  ["12:30 10.0.0.1:80", "(<12:30> & <10.0.0.1:80>)"],
  ["handler(a, b) x", "(<handler(a,> & <b)> & <x>)"],
  ["(handler(a) x)", "(<handler(a)> & <x>)"],
  ["literal\\*star", "<literal*star>"],
  ["and or not", "(<and> & <or> & <not>)"],
  ["*", "glob<*>"],
  ['"a b":c "a b"', "(a b=[c] & <a b>)"],
  ['-"<i>key</i>":"x y"', "NOT <i>key</i>=[x y]"],
])("%s", (text, tree) => {
  expect(shown(parseLogQuery(text))).toBe(tree);
});

test.each([
  ["(a OR b", "column 1: this ( is not closed"],
  ["a) b", "<a)>"],
  ["a )", "column 3: this ) closes nothing"],
  ["OR a", "column 1: OR belongs between two conditions"],
  ["a AND", "column 6: a condition is missing at the end"],
  ["a AND OR b", "column 7: OR belongs between two conditions"],
  ["()", "column 2: this ) comes before a condition"],
  ['"open', 'column 1: a closing " is missing'],
  ["/open", "column 1: a closing / is missing"],
  ["level:", "column 1: level: needs a value; for example level:error"],
  ["duration_ms>abc", "column 1: after > comes a number; for example duration_ms>400"],
  ["List<String>", 'as text: "List<String>"'],
  ["level:(error", "column 1: the ( after level: is not closed"],
  ["duration_ms>", "column 1: after > comes a number; for example duration_ms>400"],
  ["level:error,,warn", "column 13: a value is missing after the comma; for example level:a,b"],
  ["level:error, warn", "column 13: a value is missing after the comma"],
  ['{app="x"} |= "timeout"', 'column 1: LogQL is not accepted here; for example service:checkout "timeout"'],
  ['{"app":"x"}', '<{"app":"x"}>'],
])("rejects %s with its column and an example, or parses it as text", (text, words) => {
  let answer: string;
  try {
    answer = shown(parseLogQuery(text));
  } catch (error) {
    answer = (error as Error).message;
  }
  expect(answer).toContain(words);
});

test("parses a query of any text or rejects it with a column and an example, within its limits", () => {
  const piece = fc.constantFrom(...'( ) - a : , * " / \\ > < = level é'.split(" "), "NOT ", "AND ", " OR ", " ");
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 60 }), (pieces) => {
      expect(refusalOf(pieces.join(""))).toMatch(/^$|^query: column \d+: .+; for example /);
    }),
    { numRuns: 2000 },
  );
  for (const text of ["(".repeat(3000), "-".repeat(3999), "NOT ".repeat(999), "a ".repeat(1999), "a:".repeat(1999), '"'.repeat(3999)])
    expect(() => parseLogQuery(text)).not.toThrow(RangeError);
  expect(() => parseLogQuery("a".repeat(4001))).toThrow("at most 4000 characters");
  expect(() => parseLogQuery("a ".repeat(101))).toThrow("at most 100 conditions");
  expect(() => parseLogQuery(`${"(".repeat(21)}a${")".repeat(21)}`)).toThrow("at most 20 groups");
});

test.each([
  ["pay*", true, "(?s)^pay.*$"],
  ["a.b*c", true, String.raw`(?s)^a\.b.*c$`],
  ["*a*b*", false, "(?si)a.*b"],
  [String.raw`a\*b*`, true, String.raw`(?s)^a\*b.*$`],
])("parses %s as a regular expression", (pattern, isWhole, expression) => {
  expect(globExpression(pattern, { isWhole, anyCase: !isWhole })).toBe(expression);
});

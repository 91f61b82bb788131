import * as fc from "fast-check";
import { expect, test } from "vitest";
import { filtersOf, termsOf, withTerm, written, type Term } from "./query-line.ts";

test.each<[string, [string, string][]]>([
  ["", []],
  ["timeout", [["q", "timeout"]]],
  [
    '"two words" -noise',
    [
      ["q", "two words"],
      ["not_q", "noise"],
    ],
  ],
  [
    "level:error node:n1",
    [
      ["level", "error"],
      ["node", "n1"],
    ],
  ],
  [
    "k8s.pod.name=web-1 -env=prod",
    [
      ["label.k8s.pod.name", "web-1"],
      ["not_label.env", "prod"],
    ],
  ],
  ['key="a \\"b\\" c"', [["label.key", 'a "b" c']]],
  [
    "/time(d )?out/ -/health\\/z/",
    [
      ["regex", "time(d )?out"],
      ["not_regex", "health/z"],
    ],
  ],
  ["/\\d+\\.\\d/", [["regex", "\\d+\\.\\d"]]],
  [
    "http://host/path error: -",
    [
      ["q", "http://host/path"],
      ["q", "error:"],
      ["q", "-"],
    ],
  ],
])("%s", (line, filters) => {
  expect(filtersOf(line)).toEqual(filters);
});

test.each([
  ["-level:debug", /cannot be asked/],
  ['"open', /closing "/],
  ["/open", /closing \//],
])("%s is refused in words", (line, words) => {
  expect(() => filtersOf(line)).toThrow(words);
});

test("what is written of a term reads as that term", () => {
  const value = fc.string({ minLength: 1, maxLength: 12 });
  const name = fc.stringMatching(/^[a-z][a-z0-9._]{0,8}$/);
  const term: fc.Arbitrary<Term> = fc.oneof(
    fc.record({ kind: fc.constant("text" as const), not: fc.boolean(), name: fc.constant(""), value }),
    fc.record({ kind: fc.constant("label" as const), not: fc.boolean(), name, value: fc.string({ maxLength: 12 }) }),
    fc.record({ kind: fc.constant("field" as const), not: fc.constant(false), name: fc.constantFrom("level", "source", "node"), value }),
  );
  fc.assert(
    fc.property(fc.array(term, { maxLength: 5 }), (terms) => {
      expect(termsOf(terms.map(written).join(" "))).toEqual(terms);
    }),
    { numRuns: 2000 },
  );
});

test("filtering for what was filtered out turns it round", () => {
  const term: Term = { kind: "label", not: false, name: "app", value: "cart" };
  expect(withTerm("timeout -app=cart", term)).toBe("timeout app=cart");
  expect(withTerm("level:info", { kind: "field", not: false, name: "level", value: "error" })).toBe("level:error");
});

import { expect, test } from "vitest";
import { patternCondition } from "./pattern-condition.ts";
import { piecesOf, withCondition } from "./query-line.ts";

test.each([
  ["GET /cart <_> in <_> ms", "/^GET \\/cart .* in .* ms/"],
  ["a.b*c (1) [x] {y} $ ^ | \\", "/^a\\.b\\*c \\(1\\) \\[x\\] \\{y\\} \\$ \\^ \\| \\\\/"],
  ["tab\there", "/^tab\\shere/"],
  ["<_> started", "/^.* started/"],
])("%s is matched as text by %s", (pattern, condition) => {
  expect(patternCondition(pattern)).toBe(condition);
  // It stays one condition in the line, excluded or not.
  expect(piecesOf(`level:error -${condition}`)).toEqual(["level:error", `-${condition}`]);
});

test.each(["<_>", "<_> <_>", ""])("%j has no text to search for", (pattern) => {
  expect(patternCondition(pattern)).toBeUndefined();
});

test("a condition is added once, and binds to all alternatives", () => {
  expect(withCondition("level:error", "/^a/")).toBe("level:error /^a/");
  expect(withCondition("level:error /^a/", "/^a/")).toBe("level:error /^a/");
  expect(withCondition("a OR b", "-/^a/")).toBe("(a OR b) -/^a/");
});

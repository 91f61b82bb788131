// How long a regular expression of a query may block the event loop, for one text and for one record.
import { beforeEach, expect, it } from "vitest";
import { ApiError } from "../../errors.ts";
import { beginRecord, compilePattern, Patterns } from "./regex.ts";

beforeEach(beginRecord);

const LONG = "ab".repeat(100_000);

it.each(["a.{50}[yz]", `a${"(a|b)".repeat(60)}[yz]`, "(?:a{20}|b{20}){2}z"])("rejects %s on a long text", (text) => {
  const pattern = compilePattern(text);
  const refused = /^this query has a regular expression of many parts that reads more than \d+ characters of one record: /;
  for (const ask of [() => pattern.test(LONG), () => pattern.find(LONG), () => [...pattern.all(LONG)]]) {
    expect(ask).toThrow(ApiError);
    expect(ask).toThrow(refused);
  }
  expect(pattern.test("ab".repeat(1000))).toBe(false);
});

it.each(["a", "timeout after \\d+ms", "(GET|POST|PUT) /api/\\w+/\\d+", "a.{8}z"])("accepts %s on the longest line", (text) => {
  expect(compilePattern(text).find("n".repeat(256 * 1024))).toBeUndefined();
});

it("limits all expressions of one record to a second, and starts anew for the next one", () => {
  const count = (text: string): number => [...compilePattern("[^b]*z|a").all(text)].length;
  expect(() => count("a".repeat(100_000))).toThrow(/^this query has regular expressions that take more than 1 s for one record: /);
  expect(() => count("a")).toThrow("for one record");
  beginRecord();
  expect(count("aba")).toBe(2);
  expect(() => count("a".repeat(100_000))).toThrow("for one record");
  expect(new Patterns().compile("a").test("a")).toBe(true);
});

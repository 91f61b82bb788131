// How many expensive parts a regular expression may have, which limits its time.
import { describe, expect, it } from "vitest";
import { branchesOf, checkPatterns, isCostly, stepsOf } from "./pattern.ts";

describe("a regular expression", () => {
  it.each([
    ["timeout after (an hour|a day)", 0],
    ["timeout after \\d+ms", 1],
    ["a*", 1],
    ["ab+?c", 1],
    ["(?:ab)?c", 3],
    ["a{20}", 20],
    ["a{2,20}", 20],
    ["a{20,}", 20],
    [".{20}", 20],
    ["x(ab){10}", 20],
    ["(a[bc]){10}", 20],
    ["((a{10}){10}){5}", 500],
    ["[a-z]{30}", 30],
    ["[]{9}]{30}", 30],
    ["[\\]{9}]{30}", 30],
    ["[[:alpha:]{9}]{30}", 30],
    ["\\Q(a){50}\\E", 0],
    ["\\{50}", 0],
    ["\\({50}", 100],
    ["\\x{10FFFF}", 0],
    ["\\pL\\p{Greek}[^\\PN]", 150],
    ["a{1000000000}", 1000],
    ["[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}", 35],
    ["\\b(?:[0-9]{1,3}\\.){3}[0-9]{1,3}\\b", 21],
    ["{3}", 0],
    ["(((", 0],
    [")){9}", 0],
    ["", 0],
    ["(){9}", 9],
    ["(?:(?:(){10}){10}){10}", 1000],
    ["(?i)[а-яё]+", 1],
    ["[\u0100-\uffff]", 1],
    ["(?i)[\u0100-\uffff]", 15],
    ["(?s-m:(?i:[[:alpha:]-a-\\x{FFFF}\\d-!-\\x{ffff}]))", 32],
  ])("%s takes %i steps", (pattern, steps) => {
    expect(stepsOf(pattern)).toBe(steps);
  });

  it.each([
    ["timeout", 0],
    ["(a|b)", 1],
    ["a|b|c", 2],
    ["(?:shop|pay|cart)-(?:db|web)", 3],
    ["(a|b)".repeat(150), 150],
    ["((a|b)|c)(d", 2],
    ["a|b)|c", 2],
    ["[|]\\|\\Q|\\E", 0],
  ])("%s has as many branches as %i", (pattern, branches) => {
    expect(branchesOf(pattern)).toBe(branches);
  });

  it.each([
    "(?:a?b?c?){0,1000}z",
    "[ab].{999}z",
    "\\pL{3}",
    "(\\p{Greek}|a){3}",
    "(?:[\\PL]?){9}",
    "((((a{9}){9}){9}){9}){9}",
    ".".repeat(51),
    "a".repeat(1001),
    "(){1000}",
    `${"(".repeat(400)}a${")".repeat(400)}{50}`,
    `(?i)[${"\u0100-\uffff".repeat(300)}]`,
  ])("%s is too expensive, alone or as a part", (pattern) => {
    for (const patterns of [
      { regex: [], not_regex: [pattern] },
      { regex: ["a"], not_regex: ["b", `x|${pattern}`] },
    ])
      expect(() => checkPatterns(patterns)).toThrow(/^not_regex: the regular expressions of a query have at most (?:50|1000)/);
  });

  it.each([
    [["timeout after (an hour|a day|\\d+ms)"], false],
    [["error|warn|fatal|panic"], false],
    [["GET /api/\\w+/\\d+ [45]\\d\\d"], false],
    [["a.{8}[yz]"], true],
    [["a.{4}", "b.{5}"], true],
    [[`a${"(?:a|b)".repeat(9)}z`], true],
    [["[0-9a-f]{8}-([0-9a-f]{4}-){3}[0-9a-f]{12}"], true],
    [["[|]{2}\\|\\Q||||||||\\E"], false],
  ])("%j: expensive is %s", (patterns, costly) => {
    expect(isCostly(patterns)).toBe(costly);
  });

  it.each([
    ["characters", "a".repeat(500), "a"],
    ["parts that cost", ".".repeat(25), "."],
  ])("shares its limit of %s with all others of the query", (_what, half, one) => {
    expect(() => checkPatterns({ regex: [half, half], not_regex: [] })).not.toThrow();
    expect(() => checkPatterns({ regex: [half, half], not_regex: [one] })).toThrow(/^not_regex: /);
  });
});

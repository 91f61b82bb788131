// For which words of a text the index is used.
import { describe, expect, it } from "vitest";
import { sql } from "../../engines/clickhouse/sql.ts";
import { hasWords, withHints, wordsOf } from "./words.ts";

describe("words", () => {
  it.each([
    ["a_b c-d.e", ["a", "b", "c", "d", "e"]],
    [" straße 日本 語", ["straße", "日本", "語"]],
    ["a\u0000b{c}~\u007fd", ["a", "b", "c", "d"]],
    ["...", []],
  ])("of %j", (text, words) => {
    expect(wordsOf(text)).toEqual(words);
  });

  it("are searched in lower case, each once", () => {
    expect(hasWords(["Time", "OUT", "Time", "ÄB"]).text).toBe(
      "(hasToken(lower(message), 'time')) AND (hasToken(lower(message), 'out')) AND (hasToken(lower(message), 'Äb'))",
    );
  });
});

describe("hints of a substring", () => {
  const condition = sql`x`;

  it.each(["word", "two words", "", " leading", "trailing ", "a/"])(
    "does not exist for %j: its words may be parts of longer ones",
    (text) => {
      expect(withHints(text, condition)).toBe(condition);
    },
  );

  it("are the longest words between its ends", () => {
    expect(withHints("/Api/", condition).text).toBe("(indexHint((hasToken(lower(message), 'api')))) AND (x)");
    const hints = withHints("x a bbb cc dddd eeeee y", condition).text;
    expect([...hints.matchAll(/'(\w+)'/g)].map(([, word]) => word)).toEqual(["eeeee", "dddd", "bbb", "cc"]);
  });
});

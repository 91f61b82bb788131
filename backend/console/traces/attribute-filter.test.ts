import { expect, test } from "vitest";
import { readAttributes, writtenAttribute } from "./attribute-filter.ts";

test("pairs are read, quoted ones too, and written again as they are read", () => {
  expect(readAttributes(' http.route=/cart user="Ada Lovelace"  empty= ')).toEqual([
    ["http.route", "/cart"],
    ["user", "Ada Lovelace"],
    ["empty", ""],
  ]);
  expect(writtenAttribute("user", "Ada Lovelace")).toBe('user="Ada Lovelace"');
  expect(writtenAttribute("http.route", "/cart")).toBe("http.route=/cart");
  expect(writtenAttribute("a b", "c")).toBeUndefined();
  expect(writtenAttribute("a", 'say "x y"')).toBeUndefined();
});

test.each([
  ["http.response.status_code>=500", "compared for equality only"],
  ["status!=200", "compared for equality only"],
  ["/cart", "write name=value"],
  ['user="Ada', "write name=value"],
])("%s is refused with an example", (text, words) => {
  expect(() => readAttributes(text)).toThrow(words);
});

import { expect, test } from "vitest";
import { parseAttributes, formatAttribute } from "./search.ts";

test("comparisons are separated, quoted ones too, and written again as they are read", () => {
  const text = ' http.route=/cart user="Ada Lovelace"  http.response.status_code>=500 !enduser.id empty="" ';
  expect(parseAttributes(text)).toEqual([
    "http.route=/cart",
    "user=Ada Lovelace",
    "http.response.status_code>=500",
    "!enduser.id",
    "empty=",
  ]);
  expect(formatAttribute("user", "Ada Lovelace")).toBe('user="Ada Lovelace"');
  expect(formatAttribute("http.route", "/cart")).toBe("http.route=/cart");
  expect(formatAttribute("a b", "c")).toBeUndefined();
  expect(formatAttribute("a", 'say "x y"')).toBeUndefined();
});

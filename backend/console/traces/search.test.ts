import { expect, test } from "vitest";
import { readAttributes, writtenAttribute } from "./search.ts";

test("comparisons are separated, quoted ones too, and written again as they are read", () => {
  const text = ' http.route=/cart user="Ada Lovelace"  http.response.status_code>=500 !enduser.id empty="" ';
  expect(readAttributes(text)).toEqual([
    "http.route=/cart",
    "user=Ada Lovelace",
    "http.response.status_code>=500",
    "!enduser.id",
    "empty=",
  ]);
  expect(writtenAttribute("user", "Ada Lovelace")).toBe('user="Ada Lovelace"');
  expect(writtenAttribute("http.route", "/cart")).toBe("http.route=/cart");
  expect(writtenAttribute("a b", "c")).toBeUndefined();
  expect(writtenAttribute("a", 'say "x y"')).toBeUndefined();
});

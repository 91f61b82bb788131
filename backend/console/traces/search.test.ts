import { expect, test } from "vitest";
import { addAttribute, formatAttribute, parseAttributes } from "./search.ts";

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
});

test.each([
  ["a b", "c"],
  ['user.name with space=x"y', 'say "x y" \\'],
  ["!a>=b", ""],
  ['"', "C:\\dir\n"],
])("the attribute %j with any value is searched for, and replaced by the next value", (key, value) => {
  const typed = addAttribute(addAttribute(addAttribute("b=1", key, value), "c", "2"), key, value);
  const quoted = JSON.stringify(key);
  expect(parseAttributes(typed)).toEqual(["b=1", "c=2", `${quoted}=${value}`]);
});

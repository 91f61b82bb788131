import { expect, test } from "vitest";
import { addAttribute, formatAttribute, parseAttributes, panelParameters, panelQuery, searchOfPanel } from "./search.ts";

test("splits comparisons, quoted ones too, and writes them back unchanged", () => {
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
])("searches for the attribute %j with any value, and replaces it with the next value", (key, value) => {
  const typed = addAttribute(addAttribute(addAttribute("b=1", key, value), "c", "2"), key, value);
  const quoted = JSON.stringify(key);
  expect(parseAttributes(typed)).toEqual(["b=1", "c=2", `${quoted}=${value}`]);
});

test("a search survives as the query of a panel", () => {
  const search = { service: "check out", operation: 'GET "/"', min: "400", error: "true", attributes: "http.route=/cart user=Ada" };
  const query = panelQuery(new URLSearchParams(search));
  expect(query).toBe('service="check out" operation="GET \\"/\\"" duration_ms>=400 error=true http.route=/cart user=Ada');
  expect(searchOfPanel(query)).toEqual(search);
  expect(panelParameters("service=shop duration_ms<=20 a=b")).toMatchObject({ service: "shop", max_duration_ms: "20", where: ["a=b"] });
});

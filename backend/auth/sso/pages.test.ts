import { expect, test } from "vitest";
import { prefersHtml } from "./pages.ts";

test.each<[accept: string | undefined, prefers: boolean]>([
  ["text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true],
  ["TEXT/HTML", true],
  ["application/json;q=0.5, text/html;q=0.6", true],
  [undefined, false],
  ["*/*", false],
  ["application/json", false],
  ["text/html, application/json", false],
  ["text/html;q=0", false],
  ["text/html;q=many", false],
])("Accept: %s prefers a page: %s", (accept, prefers) => {
  expect(prefersHtml(accept)).toBe(prefers);
});

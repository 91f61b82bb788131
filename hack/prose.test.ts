// Pages, and tables of texts for users, are written in plain English: no private word of hack/lint/words.mjs outside of code.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { filesOfRepository } from "./citations.ts";
import { privateWords } from "./lint/words.mjs";

const ROOT = join(import.meta.dirname, "..");

/** The page without code, links' addresses and quoted messages. */
function prose(page: string): string {
  return readFileSync(join(ROOT, page), "utf8")
    .replaceAll(/^```[^]*?^```/gm, "")
    .replaceAll(/`[^`\n]*`/g, "")
    .replaceAll(/\]\([^)]*\)/g, "]");
}

/** Pages of docs/reference are made from the code, where the linter applies the list. */
const PAGES = filesOfRepository().filter((file) => file.endsWith(".md") && !file.startsWith("docs/reference/"));
const TABLES = ["common/agent-metrics.json", "common/log-events.json", "backend/query/prometheus/metric-help.json"];
const wordsOf = (page: string): string[] => [...new Set(privateWords(prose(page)).map(({ word, use }) => `${word} → ${use}`))];

test("pages are in plain English", () => {
  const found = [...PAGES, ...TABLES].map((page) => ({ page, words: wordsOf(page) }));
  expect(PAGES.length).toBeGreaterThan(40);
  expect(found.filter(({ words }) => words.length > 0)).toEqual([]);
});

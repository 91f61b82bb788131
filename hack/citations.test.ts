// Files, sections of pages and links that comments and pages mention exist. No comment names its callers, which the imports show.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { filesOfRepository, proseOf, findWrongLinks, findWrongNames, findWrongSections, type Problem } from "./citations.ts";

const FILES = new Set(filesOfRepository());
const WITH_PROSE = [...FILES].filter(
  (file) => /\.(?:ts|mjs|md|yaml|sh|sql|service|tpl)$|Dockerfile/.test(file) && !/\/golden\/|^hack\/tools\/[^/]+\//.test(file),
);

/** Files of other repositories, files that programs here create, and an attribute of spans that looks like a file. */
const ELSEWHERE = new Set([
  "compatibility/prometheus_and_openmetrics.md",
  "metrics/data-model.md",
  "compiled/systemd/atherops-otel-agent.service",
  "build-images.sh",
  "dist/build-images.sh",
  "RELEASE_NOTES.md",
  "peer.service",
]);
const isOurs = ({ what }: Problem): boolean => !ELSEWHERE.has(what);

describe("mentioned paths exist", () => {
  test("files, in comments and pages", () => {
    expect(WITH_PROSE.length).toBeGreaterThan(400);
    expect(WITH_PROSE.flatMap((file) => findWrongNames(file, FILES)).filter(isOurs)).toEqual([]);
  });

  test("links of pages, with their headings", () => {
    const pages = WITH_PROSE.filter((file) => file.endsWith(".md"));
    expect(pages.length).toBeGreaterThan(15);
    expect(pages.flatMap((page) => findWrongLinks(page, FILES))).toEqual([]);
  });

  test("sections of pages, in quotes after their page", () => {
    expect(WITH_PROSE.flatMap((file) => findWrongSections(file, FILES))).toEqual([]);
  });
});

test("each folder of agent/ and backend/ is in ARCHITECTURE.md", () => {
  const rows = readFileSync(join(import.meta.dirname, "..", "ARCHITECTURE.md"), "utf8").match(/^\| `(?:agent|backend)\/.*$/gm) ?? [];
  const listed = rows.flatMap((row) => {
    const [names = ""] = row.slice(2).split(" | ");
    return names.split(", ").map((name) => `${row.slice(3).split("/")[0]}/${name.replaceAll("`", "").split("/").at(-1)}`);
  });
  const folders = [...FILES]
    .filter((file) => /^(?:agent|backend)\/[^/]+\/.*\.ts$/.test(file))
    .map((file) => file.split("/").slice(0, 2).join("/"));
  const present = new Set(folders.filter((folder) => !["agent/bin", "agent/systemd"].includes(folder)));
  expect([...present].filter((folder) => !listed.includes(folder))).toEqual([]);
  expect(listed.filter((folder) => !present.has(folder))).toEqual([]);
});

test("no comment names its callers, or an issue of a tracker", () => {
  const callers = /\b(?:called|used|started|wired|thrown) (?:once |only )*(?:by|in|from) `?[\w/.-]+\.ts\b|\b(?:Called|Used) by\b/i;
  const issue = /\bissues? #?\d+\b/i;
  const programs = WITH_PROSE.filter((file) => /\.(?:ts|mjs)$/.test(file) && !file.startsWith("hack/citations"));
  const found = programs.flatMap((file) =>
    [...proseOf(file)].filter(([, text]) => callers.test(text) || issue.test(text)).map(([line, text]) => `${file}:${line}: ${text}`),
  );
  expect(found).toEqual([]);
});

describe("the search itself", () => {
  test("finds a missing page, and who mentions it", () => {
    const without = new Set([...FILES].filter((file) => file !== "docs/decisions.md"));
    const names = findWrongNames("common/protocol/signature.ts", without).map(({ what }) => what);
    expect(names).toEqual(["docs/decisions.md"]);
    expect(findWrongLinks("CONTRIBUTING.md", new Set(["CONTRIBUTING.md"])).map(({ what }) => what)).toContain("ARCHITECTURE.md");
  });

  test("reads comments, not code", () => {
    const prose = [...proseOf("common/protocol/signature.ts").values()].join(" ");
    expect(prose).toContain("Timing-safe");
    expect(prose).not.toContain("import {");
  });
});

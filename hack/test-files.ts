// Which test files the words of a command line name, and what they import. Invariant: what is found here is what vitest would run for
// the same words.
import { existsSync, globSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";
import { importsIn } from "./imports.ts";

/** Whoever loads one of these runs third-party programs or a database: *.engine.test.ts and test/ may, no other test. */
export const ENGINES = [
  "hack/fetch-tools.ts",
  "test/fixtures/postgres.ts",
  "backend/engines/relational/database.ts",
  "backend/engines/sqlite/open.ts",
  "backend/engines/clickhouse/embedded.ts",
  "backend/engines/clickhouse/http-front.fixture.ts",
];

/** Options of vitest whose value is the next word. */
const WITH_VALUE = new Set(["-t", "--testNamePattern", "--project", "--reporter", "--testTimeout", "--maxWorkers"]);

/** The words that are meant to name files: neither options nor their values. */
export function pathsAmong(words: readonly string[]): string[] {
  return words.filter((word, at) => !word.startsWith("-") && !WITH_VALUE.has(words[at - 1] ?? ""));
}

/** The test files that `words` name, relative to `root`: files, folders, or a part of a path (as vitest reads them). */
export function testFiles(root: string, words: readonly string[]): string[] {
  const named = pathsAmong(words);
  if (named.length === 0) return [];
  const all = globSync("{agent,backend,common,hack,test}/**/*.test.ts", { cwd: root });
  return all.filter((file) => named.some((word) => file.includes(relative(root, resolve(root, word)))));
}

/** Whether `file` loads `target`, by relative imports, itself or through others; imports of types load nothing. Both are absolute. */
export function reaches(file: string, target: string): boolean {
  const seen = new Set([file]);
  for (const each of seen) {
    if (each === target) return true;
    for (const imported of importsOf(each)) seen.add(imported);
  }
  return false;
}

function importsOf(file: string): string[] {
  return importsIn(readFileSync(file, "utf8"))
    .filter(({ path, isType }) => path.startsWith(".") && !isType)
    .map(({ path }) => join(dirname(file), path))
    .filter((path) => path.endsWith(".ts") && existsSync(path) && statSync(path).isFile());
}

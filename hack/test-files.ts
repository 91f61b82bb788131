// Which test files the words of a command line name, and what they import. Invariant: a word that names no file or folder with tests
// names nothing here, and is left to vitest.
import { existsSync, globSync, readFileSync, statSync } from "node:fs";
import { dirname, join, relative, resolve } from "node:path";

/** Options of vitest whose value is the next word. */
const WITH_VALUE = new Set(["-t", "--testNamePattern", "--project", "--reporter", "--testTimeout", "--maxWorkers"]);

/** The test files that `words` name, relative to `root`: files, folders, or a part of a path (as vitest reads them). */
export function testFiles(root: string, words: readonly string[]): string[] {
  const named = words.filter((word, at) => !word.startsWith("-") && !WITH_VALUE.has(words[at - 1] ?? ""));
  if (named.length === 0) return [];
  const all = globSync("{agent,backend,hack,test}/**/*.test.ts", { cwd: root });
  return all.filter((file) => named.some((word) => file.includes(relative(root, resolve(root, word)))));
}

/** Whether `file` imports `target`, by relative imports, itself or through others. Both are absolute. */
export function reaches(file: string, target: string): boolean {
  const seen = new Set([file]);
  for (const each of seen) {
    if (each === target) return true;
    for (const imported of importsOf(each)) seen.add(imported);
  }
  return false;
}

function importsOf(file: string): string[] {
  const source = readFileSync(file, "utf8");
  return [...source.matchAll(/(?:from|import)\s*\(?\s*"(\.{1,2}\/[^"]+)"/g)]
    .map(([, path = ""]) => join(dirname(file), path))
    .filter((path) => path.endsWith(".ts") && existsSync(path) && statSync(path).isFile());
}

// Folders of a program must not import each other in a cycle. Lint finds cycles of files; this test finds those of folders. A file directly
// in the program's folder counts as a folder. Type imports and dynamic imports count, tests do not.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { importsIn } from "./imports.ts";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

/** Folder → folders that it imports, with one import of each as `file -> file`. */
function foldersOf(program: string): Map<string, Map<string, string>> {
  const folders = new Map<string, Map<string, string>>();
  // The file of limits imports nothing, so it counts as a folder too: the files above and below it share it.
  const folderOf = (file: string): string =>
    dirname(file) === program || /^[^/]+\/[^/]+\/[\w-]+-limits\.ts$/.test(file) ? file : dirname(file);
  for (const entry of readdirSync(join(ROOT, program), { recursive: true, encoding: "utf8" })) {
    const file = join(program, entry);
    if (!file.endsWith(".ts") || /\.(test|fixture)\.ts$/.test(file) || file.includes("node_modules")) continue;
    const imports = folders.get(folderOf(file)) ?? new Map<string, string>();
    folders.set(folderOf(file), imports);
    for (const { path } of importsIn(readFileSync(join(ROOT, file), "utf8"))) {
      if (!path.startsWith(".") || !path.endsWith(".ts")) continue;
      const target = normalize(join(dirname(file), path));
      if (target.startsWith(`${program}/`) && folderOf(target) !== folderOf(file)) imports.set(folderOf(target), `${file} -> ${target}`);
    }
  }
  return folders;
}

/** The imports that are left when folders that import none of the others, or are imported by none, are removed repeatedly. */
function circlesOf(folders: Map<string, Map<string, string>>): string[] {
  const left = new Map(folders);
  const among = (folder: string): string[] => [...(folders.get(folder)?.keys() ?? [])].filter((imported) => left.has(imported));
  for (;;) {
    const imported = new Set([...left.keys()].flatMap((folder) => among(folder)));
    const edge = [...left.keys()].filter((folder) => among(folder).length === 0 || !imported.has(folder));
    if (edge.length === 0) break;
    for (const folder of edge) left.delete(folder);
  }
  return [...left.values()].flatMap((imports) => [...imports].filter(([folder]) => left.has(folder)).map(([, why]) => why));
}

test("finds two folders that import each other, with the imports", () => {
  const folders = new Map([
    ["top", new Map([["a", "top.ts -> a/x.ts"]])],
    ["a", new Map([["b", "a/x.ts -> b/y.ts"]])],
    [
      "b",
      new Map([
        ["a", "b/y.ts -> a/z.ts"],
        ["ground", "b/y.ts -> ground.ts"],
      ]),
    ],
    ["ground", new Map()],
  ]);
  expect(circlesOf(folders)).toEqual(["a/x.ts -> b/y.ts", "b/y.ts -> a/z.ts"]);
});

test.each(["agent", "backend"])("no two folders of %s/ import each other, directly or through others", (program) => {
  const folders = foldersOf(program);
  expect(folders.size).toBeGreaterThan(10);
  expect(circlesOf(folders)).toEqual([]);
});

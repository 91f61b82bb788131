// The rooms of a program stand above those that they import. Lint refuses circles of files; circles of folders are found here. A file that
// lies loose in the program's own folder is a room by itself. Type imports and imports made as the program runs count, tests do not.
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";
import { importsIn } from "./imports.ts";

const ROOT = dirname(dirname(fileURLToPath(import.meta.url)));

/** Room → rooms that it imports, with one import of each as `file -> file`. */
function roomsOf(program: string): Map<string, Map<string, string>> {
  const rooms = new Map<string, Map<string, string>>();
  const roomOf = (file: string): string => (dirname(file) === program ? file : dirname(file));
  for (const entry of readdirSync(join(ROOT, program), { recursive: true, encoding: "utf8" })) {
    const file = join(program, entry);
    if (!file.endsWith(".ts") || /\.(test|fixture)\.ts$/.test(file) || file.includes("node_modules")) continue;
    const imports = rooms.get(roomOf(file)) ?? new Map<string, string>();
    rooms.set(roomOf(file), imports);
    for (const { path } of importsIn(readFileSync(join(ROOT, file), "utf8"))) {
      if (!path.startsWith(".") || !path.endsWith(".ts")) continue;
      const target = normalize(join(dirname(file), path));
      if (target.startsWith(`${program}/`) && roomOf(target) !== roomOf(file)) imports.set(roomOf(target), `${file} -> ${target}`);
    }
  }
  return rooms;
}

/** What stays when rooms that import none of the others, or are imported by none, are taken away again and again: imports of circles. */
function circlesOf(rooms: Map<string, Map<string, string>>): string[] {
  const left = new Map(rooms);
  const among = (room: string): string[] => [...(rooms.get(room)?.keys() ?? [])].filter((imported) => left.has(imported));
  for (;;) {
    const imported = new Set([...left.keys()].flatMap((room) => among(room)));
    const edge = [...left.keys()].filter((room) => among(room).length === 0 || !imported.has(room));
    if (edge.length === 0) break;
    for (const room of edge) left.delete(room);
  }
  return [...left.values()].flatMap((imports) => [...imports].filter(([room]) => left.has(room)).map(([, why]) => why));
}

test("two rooms that import each other are found, with the imports", () => {
  const rooms = new Map([
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
  expect(circlesOf(rooms)).toEqual(["a/x.ts -> b/y.ts", "b/y.ts -> a/z.ts"]);
});

test.each(["agent", "backend"])("no two rooms of %s/ import each other, straight or round others", (program) => {
  const rooms = roomsOf(program);
  expect(rooms.size).toBeGreaterThan(10);
  expect(circlesOf(rooms)).toEqual([]);
});

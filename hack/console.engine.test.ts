// The console's build, as processes in a copy of its sources.
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readConsole } from "../backend/http/console.ts";
import { buildTree } from "./build-tree.fixture.ts";

let tree: ReturnType<typeof buildTree>;
beforeAll(() => {
  tree = buildTree("hack/console.mjs", ["hack/lock.mjs", "backend/console", "backend/client", "docs/dashboards"]);
  mkdirSync(join(tree.path, "backend/http"));
});
afterAll(() => tree?.[Symbol.dispose]());

const built = (): string => join(tree.path, "backend/http/console");
const served = () => readConsole(new URL(`file://${built()}/`));

test("two that build at once leave one whole console and nothing else, and a third has nothing to do", { timeout: 240_000 }, async () => {
  // What a build leaves that was killed before it was done.
  for (const left of ["draft", "before"]) mkdirSync(join(tree.path, `backend/http/console.${left}`));
  const both = await Promise.all([tree.build(), tree.build()]);
  expect(both.map(({ exitCode, stderr }) => [exitCode, stderr])).toEqual([
    [0, ""],
    [0, ""],
  ]);
  expect(readdirSync(join(tree.path, "backend/http"))).toEqual(["console"]);
  expect(served()?.has("index.html")).toBe(true);
  const first = statSync(built());
  await tree.build();
  expect(statSync(built()).ino).toBe(first.ino);
});

test("a source that changed is built anew, and one that is wrong leaves what was there", { timeout: 240_000 }, async () => {
  const source = join(tree.path, "backend/console/main.tsx");
  const text = readFileSync(source, "utf8");
  writeFileSync(source, `${text}\nlet ;\n`);
  const wrong = await tree.build();
  expect([wrong.exitCode, existsSync(join(built(), "files.json"))]).toEqual([1, true]);
  expect(wrong.stderr).toContain("main.tsx");
  writeFileSync(source, `${text}\ndocument.title = "built anew";\n`);
  expect((await tree.build()).exitCode).toBe(0);
  const scripts = readdirSync(built()).filter((name) => name.endsWith(".js"));
  expect(scripts.some((name) => readFileSync(join(built(), name), "utf8").includes("built anew"))).toBe(true);
});

// The console's build, as processes in a copy of its sources.
import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readConsole } from "../backend/http/console.ts";
import { buildTree } from "../test/fixtures/build-tree.ts";

let tree: ReturnType<typeof buildTree>;
beforeAll(() => {
  tree = buildTree("hack/console.mjs", ["hack/licences.mjs", "hack/lock.mjs", "backend/console", "backend/client", "docs/dashboards"]);
  mkdirSync(join(tree.path, "backend/http"));
});
afterAll(() => tree?.[Symbol.dispose]());

const built = (): string => join(tree.path, "backend/http/console");
const served = () => readConsole(new URL(`file://${built()}/`));

test("two concurrent builds leave one complete console and nothing else, and a third has nothing to do", { timeout: 240_000 }, async () => {
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

test("the first paint is at most 60 kB, and the whole console at most 430 kB, gzip", () => {
  const kilobytes = (names: Iterable<string>): number =>
    [...names].reduce((sum, name) => sum + gzipSync(readFileSync(join(built(), name))).length, 0) / 1000;
  const all = readdirSync(built()).filter((name) => /\.(?:js|css|html|svg)$/.test(name));
  // What the first paint needs is in the page.
  const first = ["index.html"];
  expect(readFileSync(join(built(), "index.html"), "utf8")).not.toMatch(/<script[^>]* src=|rel="(?:stylesheet|modulepreload)"/);
  expect(kilobytes(first)).toBeLessThanOrEqual(60);
  expect(kilobytes(all)).toBeLessThanOrEqual(430);
  console.log(`first paint ${kilobytes(first).toFixed(1)} kB, all ${kilobytes(all).toFixed(1)} kB`);
});

test("rebuilds after a change, and keeps the previous build if a source is invalid", { timeout: 240_000 }, async () => {
  const source = join(tree.path, "backend/console/main.tsx");
  const text = readFileSync(source, "utf8");
  writeFileSync(source, `${text}\nlet ;\n`);
  const wrong = await tree.build();
  expect([wrong.exitCode, existsSync(join(built(), "files.json"))]).toEqual([1, true]);
  expect(wrong.stderr).toContain("main.tsx");
  writeFileSync(source, `${text}\ndocument.title = "built anew";\n`);
  expect((await tree.build()).exitCode).toBe(0);
  expect(readFileSync(join(built(), "index.html"), "utf8")).toContain("built anew");
});

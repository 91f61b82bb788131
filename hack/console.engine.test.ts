// The console's build, as processes in a tree of its own that has this one's packages.
import {
  copyFileSync,
  cpSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { afterAll, beforeAll, expect, test } from "vitest";
import { readConsole } from "../backend/http/console.ts";
import { ROOT } from "./bundle.ts";

let tree: string;
beforeAll(() => {
  tree = mkdtempSync(join(tmpdir(), "atherops-console-"));
  mkdirSync(join(tree, "hack"));
  for (const file of ["console.mjs", "lock.mjs"]) copyFileSync(join(ROOT, "hack", file), join(tree, "hack", file));
  for (const folder of ["backend/console", "backend/client", "docs/dashboards"])
    cpSync(join(ROOT, folder), join(tree, folder), { recursive: true });
  mkdirSync(join(tree, "backend/http"));
  symlinkSync(join(ROOT, "node_modules"), join(tree, "node_modules"));
});
afterAll(() => rmSync(tree, { recursive: true, force: true }));

const built = (): string => join(tree, "backend/http/console");
const build = () => execa(process.execPath, ["hack/console.mjs"], { cwd: tree, reject: false });
const served = () => readConsole(new URL(`file://${built()}/`));

test("two that build at once leave one whole console and nothing else, and a third has nothing to do", { timeout: 240_000 }, async () => {
  // What a build leaves that was killed before it was done.
  for (const left of ["draft", "before"]) mkdirSync(join(tree, `backend/http/console.${left}`));
  const both = await Promise.all([build(), build()]);
  expect(both.map(({ exitCode, stderr }) => [exitCode, stderr])).toEqual([
    [0, ""],
    [0, ""],
  ]);
  expect(readdirSync(join(tree, "backend/http"))).toEqual(["console"]);
  expect(served()?.has("index.html")).toBe(true);
  const first = statSync(built());
  await build();
  expect(statSync(built()).ino).toBe(first.ino);
});

test("a source that changed is built anew, and one that is wrong leaves what was there", { timeout: 240_000 }, async () => {
  const source = join(tree, "backend/console/main.tsx");
  const text = readFileSync(source, "utf8");
  writeFileSync(source, `${text}\nlet ;\n`);
  const wrong = await build();
  expect([wrong.exitCode, existsSync(join(built(), "files.json"))]).toEqual([1, true]);
  expect(wrong.stderr).toContain("main.tsx");
  writeFileSync(source, `${text}\ndocument.title = "built anew";\n`);
  expect((await build()).exitCode).toBe(0);
  const scripts = readdirSync(built()).filter((name) => name.endsWith(".js"));
  expect(scripts.some((name) => readFileSync(join(built(), name), "utf8").includes("built anew"))).toBe(true);
});

// Each workspace declares exactly the packages that it imports: an unused package would have to be shipped, licensed and patched, and a
// missing one would be found only by chance, through another workspace.
import { globSync, readFileSync } from "node:fs";
import { isBuiltin } from "node:module";
import { join } from "node:path";
import { expect, test } from "vitest";
import packageFile from "../package.json" with { type: "json" };
import { ROOT } from "./bundle.ts";
import { importsIn, packageOf } from "./imports.ts";

test.each(packageFile.workspaces)("%s depends exactly on the packages that its programs import", (workspace) => {
  const { dependencies } = JSON.parse(readFileSync(join(ROOT, workspace, "package.json"), "utf8")) as {
    dependencies: Record<string, string>;
  };
  const inner = packageFile.workspaces.filter((other) => other.startsWith(`${workspace}/`));
  const files = globSync(`${workspace}/**/*.{ts,tsx}`, { cwd: ROOT, exclude: ["**/node_modules/**"] }).filter(
    (file) => !/\.(?:test|fixture|d)\.ts$/.test(file) && !inner.some((other) => file.startsWith(`${other}/`)),
  );
  expect(files.length).toBeGreaterThan(5);
  const imported = new Set(
    files.flatMap((file) => importsIn(readFileSync(join(ROOT, file), "utf8")).flatMap(({ path }) => packageOf(path) ?? [])),
  );
  expect([...imported].filter((name) => !isBuiltin(name)).sort()).toEqual(Object.keys(dependencies).sort());
});

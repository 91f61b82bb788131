import { chmodSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../test/fixtures/processes.ts";
import { isExecutable, isReadable } from "./file-access.ts";

test("a file is executable by its mode, for every user; a missing one is neither executable nor readable", () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "program");
  writeFileSync(file, "");
  chmodSync(file, 0o644);
  expect([isExecutable(file), isReadable(file)]).toEqual([false, true]);
  chmodSync(file, 0o755);
  expect([isExecutable(file), isReadable(file)]).toEqual([true, true]);
  const nowhere = [join(folder.path, "none"), join(file, "below"), ""];
  expect(nowhere.flatMap((path) => [isExecutable(path), isReadable(path)])).toEqual(nowhere.flatMap(() => [false, false]));
});

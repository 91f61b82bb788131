import { statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../test/fixtures/processes.ts";
import { makeFolder } from "./make-folder.ts";

test("all that is missing is made with the mode, and what is there is kept", () => {
  using folder = temporaryFolder();
  makeFolder(join(folder.path, "a", "b"), 0o700);
  expect(statSync(join(folder.path, "a", "b")).mode & 0o777).toBe(0o700);
  makeFolder(join(folder.path, "a", "b"), 0o755);
  expect(statSync(join(folder.path, "a", "b")).mode & 0o777).toBe(0o700);
});

test("where nothing can be made it throws, also where the parent is there and says it is not", () => {
  expect(() => makeFolder("/proc/atherops/config", 0o700)).toThrow("ENOENT");
  using folder = temporaryFolder();
  const file = join(folder.path, "file");
  writeFileSync(file, "");
  expect(() => makeFolder(join(file, "a"), 0o700)).toThrow("EEXIST");
});

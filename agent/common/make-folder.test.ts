import { mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { makeFolder } from "./make-folder.ts";

function place(): string {
  const folder = mkdtempSync(join(tmpdir(), "atherops-folder-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

test("all that is missing is made with the mode, and what is there is kept", () => {
  const folder = place();
  makeFolder(join(folder, "a", "b"), 0o700);
  expect(statSync(join(folder, "a", "b")).mode & 0o777).toBe(0o700);
  makeFolder(join(folder, "a", "b"), 0o755);
  expect(statSync(join(folder, "a", "b")).mode & 0o777).toBe(0o700);
});

test("where nothing can be made it throws, also where the parent is there and says it is not", () => {
  expect(() => makeFolder("/proc/atherops/config", 0o700)).toThrow("ENOENT");
  const file = join(place(), "file");
  writeFileSync(file, "");
  expect(() => makeFolder(join(file, "a"), 0o700)).toThrow("EEXIST");
});

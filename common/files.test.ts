// Power failures are tested in test/faults/files-power-cut.test.ts.
import { chmodSync, linkSync, mkdirSync, readdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../test/fixtures/processes.ts";
import { folderSynced, renameDurably, syncFolder, writeDurably, makeFolder, isExecutable } from "./files.ts";

test("creates a file with its mode, and replaces another with its own, despite drafts of a killed process", () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "key");
  writeDurably(file, "one");
  expect([readFileSync(file, "utf8"), statSync(file).mode & 0o777]).toEqual(["one", 0o600]);
  writeFileSync(`${file}.new`, "left by a killed process", { mode: 0o666 });
  chmodSync(`${file}.new`, 0o666);
  writeDurably(file, "two", 0o640);
  expect([readFileSync(file, "utf8"), statSync(file).mode & 0o777]).toEqual(["two", 0o640]);
  expect(readdirSync(folder.path)).toEqual(["key"]);
});

test("does not change another file that has a draft as a second link", () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "config");
  writeFileSync(join(folder.path, "last-good"), "good");
  linkSync(join(folder.path, "last-good"), `${file}.new`);
  writeDurably(file, "next");
  expect([readFileSync(join(folder.path, "last-good"), "utf8"), readFileSync(file, "utf8")]).toEqual(["good", "next"]);
});

test("leaves no draft if a write fails", () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "taken");
  mkdirSync(file);
  expect(() => writeDurably(file, "text")).toThrow("EISDIR");
  expect(readdirSync(folder.path)).toEqual(["taken"]);
});

test("renames a file", () => {
  using folder = temporaryFolder();
  writeDurably(join(folder.path, "candidate"), "checked");
  renameDurably(join(folder.path, "candidate"), join(folder.path, "config"));
  expect(readdirSync(folder.path)).toEqual(["config"]);
});

test("ignores a folder that cannot be synced, but not one that does not exist", async () => {
  using folder = temporaryFolder();
  const none = join(folder.path, "none");
  expect(() => syncFolder("/proc/self")).not.toThrow();
  expect(() => syncFolder(none)).toThrow("ENOENT");
  await expect(folderSynced("/proc/self")).resolves.toBeUndefined();
  await expect(folderSynced(none)).rejects.toThrow("ENOENT");
});

test("creates all missing folders with the mode, and keeps existing ones", () => {
  using folder = temporaryFolder();
  makeFolder(join(folder.path, "a", "b"), 0o700);
  expect(statSync(join(folder.path, "a", "b")).mode & 0o777).toBe(0o700);
  makeFolder(join(folder.path, "a", "b"), 0o755);
  expect(statSync(join(folder.path, "a", "b")).mode & 0o777).toBe(0o700);
});

test("throws if no folder can be created, even if the parent exists and the system reports that it does not", () => {
  expect(() => makeFolder("/proc/atherops/config", 0o700)).toThrow("ENOENT");
  using folder = temporaryFolder();
  const file = join(folder.path, "file");
  writeFileSync(file, "");
  expect(() => makeFolder(join(file, "a"), 0o700)).toThrow("EEXIST");
});

test("a file is executable by its mode, for every user; a missing one and a folder are not", () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "program");
  writeFileSync(file, "");
  chmodSync(file, 0o644);
  expect(isExecutable(file)).toBe(false);
  chmodSync(file, 0o755);
  expect(isExecutable(file)).toBe(true);
  const nowhere = [join(folder.path, "none"), join(file, "below"), "", folder.path];
  expect(nowhere.filter(isExecutable)).toEqual([]);
});

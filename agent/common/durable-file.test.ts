// That what is written survives a power cut: test/faults/files-power-cut.test.ts.
import { chmodSync, linkSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { folderSynced, renameDurably, syncFolder, writeDurably } from "./durable-file.ts";

function place(): string {
  const folder = mkdtempSync(join(tmpdir(), "atherops-durable-"));
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }));
  return folder;
}

test("a file is made with its mode, and replaced by another with its own, whatever a killed process left", () => {
  const folder = place();
  const file = join(folder, "key");
  writeDurably(file, "one");
  expect([readFileSync(file, "utf8"), statSync(file).mode & 0o777]).toEqual(["one", 0o600]);
  writeFileSync(`${file}.new`, "left by a killed process", { mode: 0o666 });
  chmodSync(`${file}.new`, 0o666);
  writeDurably(file, "two", 0o640);
  expect([readFileSync(file, "utf8"), statSync(file).mode & 0o777]).toEqual(["two", 0o640]);
  expect(readdirSync(folder)).toEqual(["key"]);
});

test("a draft that is a second name of another file leaves that one as it is", () => {
  const folder = place();
  const file = join(folder, "config");
  writeFileSync(join(folder, "last-good"), "good");
  linkSync(join(folder, "last-good"), `${file}.new`);
  writeDurably(file, "next");
  expect([readFileSync(join(folder, "last-good"), "utf8"), readFileSync(file, "utf8")]).toEqual(["good", "next"]);
});

test("what cannot be written leaves no draft", () => {
  const folder = place();
  const file = join(folder, "taken");
  mkdirSync(file);
  expect(() => writeDurably(file, "text")).toThrow("EISDIR");
  expect(readdirSync(folder)).toEqual(["taken"]);
});

test("a file gets another name", () => {
  const folder = place();
  writeDurably(join(folder, "candidate"), "judged");
  renameDurably(join(folder, "candidate"), join(folder, "config"));
  expect(readdirSync(folder)).toEqual(["config"]);
});

test("a folder that cannot be synced is passed by, one that is not there is not", async () => {
  const none = join(place(), "none");
  expect(() => syncFolder("/proc/self")).not.toThrow();
  expect(() => syncFolder(none)).toThrow("ENOENT");
  await expect(folderSynced("/proc/self")).resolves.toBeUndefined();
  await expect(folderSynced(none)).rejects.toThrow("ENOENT");
});

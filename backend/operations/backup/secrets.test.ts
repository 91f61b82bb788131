// A process is killed in the middle of writing a secret, or a file that it replaces: what is read afterwards is complete.
import { spawnSync } from "node:child_process";
import { readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { writeDurably } from "../../../common/files.ts";
import { temporaryFolder } from "../../../test/fixtures/processes.ts";
import { generatedOnce } from "./secrets.ts";

/** Runs `writes` in a process that is killed in a call of node:fs: before it, after it, or when half of the text is written. */
function killedIn(call: string, when: string, writes: string): void {
  const moduleOf = (path: string) => JSON.stringify(new URL(path, import.meta.url).href);
  const script = `
    import fs from "node:fs";
    import { syncBuiltinESMExports } from "node:module";
    const real = fs.${call};
    fs.${call} = (first, text, ...others) => {
      if ("${when}" === "half") real(first, text.slice(0, text.length / 2), ...others);
      if ("${when}" === "after") real(first, text, ...others);
      process.kill(process.pid, "SIGKILL");
    };
    syncBuiltinESMExports();
    const { generatedOnce } = await import(${moduleOf("./secrets.ts")});
    const { writeDurably } = await import(${moduleOf("../../../common/files.ts")});
    ${writes}`;
  expect(spawnSync(process.execPath, ["--input-type=module", "-e", script])).toMatchObject({ signal: "SIGKILL" });
}

const [FIRST, SECOND] = ["1".repeat(40), "2".repeat(40)];

test.each([
  ["writeFileSync", "before", SECOND],
  ["writeFileSync", "half", SECOND],
  ["writeFileSync", "after", SECOND],
  ["linkSync", "before", SECOND],
  ["linkSync", "after", FIRST],
])("after kill -9 in %s, %s it, a secret is complete or absent", (call, when, expected) => {
  using folder = temporaryFolder();
  killedIn(call, when, `generatedOnce(${JSON.stringify(folder.path)}, "key", () => "${FIRST}");`);
  expect(generatedOnce(folder.path, "key", () => SECOND)).toBe(expected);
  expect(statSync(join(folder.path, "key")).mode & 0o777).toBe(0o600);
});

test.each([
  ["writeFileSync", "before", FIRST],
  ["writeFileSync", "half", FIRST],
  ["writeFileSync", "after", FIRST],
  ["renameSync", "before", FIRST],
  ["renameSync", "after", SECOND],
])("after kill -9 in %s, %s it, a file that is replaced is the old or the new one", (call, when, expected) => {
  using folder = temporaryFolder();
  const file = join(folder.path, "state.json");
  writeDurably(file, FIRST);
  killedIn(call, when, `writeDurably(${JSON.stringify(file)}, "${SECOND}");`);
  expect(readFileSync(file, "utf8")).toBe(expected);
  writeDurably(file, SECOND);
  expect(readFileSync(file, "utf8")).toBe(SECOND);
});

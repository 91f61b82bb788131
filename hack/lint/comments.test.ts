// The lint plugin `comments`, as oxlint runs it.
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { execa } from "execa";
import { expect, test } from "vitest";
import { temporaryFolder } from "../../test/fixtures/processes.ts";

/** The rules that oxlint reports in a program. */
async function reportedIn(program: string): Promise<string[]> {
  using folder = temporaryFolder();
  const rules = { "comments/whole": "error", "comments/explained-sleep": "error" };
  mkdirSync(join(folder.path, "src"));
  writeFileSync(
    join(folder.path, ".oxlintrc.json"),
    JSON.stringify({ jsPlugins: [join(import.meta.dirname, "comments.mjs")], categories: { correctness: "off" }, rules }),
  );
  writeFileSync(join(folder.path, "src/program.ts"), program);
  const oxlint = join(import.meta.dirname, "../../node_modules/oxlint/bin/oxlint");
  const { stdout } = await execa(process.execPath, [oxlint, "--format=json"], { cwd: folder.path, reject: false });
  return (JSON.parse(stdout) as { diagnostics: { code: string }[] }).diagnostics.map(({ code }) => code);
}

test("rejects a comment that opens with Of, but not a line that continues one", async () => {
  const program = "/** Of one request. */\nexport const LIMIT = 1;\n// The limit\n// Of one request.\nexport const OTHER = 2;\n";
  expect(await reportedIn(program)).toEqual(["comments(whole)"]);
});

test("rejects a sleep without a comment, and accepts one with a comment above or next to it", async () => {
  const sleep = "await sleep(10);";
  expect(await reportedIn(`${sleep}\n// The load runs for 10 ms.\n${sleep}\n${sleep} // The load runs.\n`)).toEqual([
    "comments(explained-sleep)",
  ]);
});

/* oxlint-disable plain-english/words -- programs that the rule is tried on */
// The lint rule plain-english/words, as oxlint runs it.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { execa } from "execa";
import { describe, expect, test } from "vitest";
import { privateWords, wordsOfName } from "./words.mjs";

const ROOT = join(import.meta.dirname, "../..");

/** The private words that oxlint reports in a program. */
async function reported(program: string): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), "atherops-words-"));
  try {
    const rules = { "plain-english/words": "error", "plain-english/whole-comments": "error" };
    const config = { jsPlugins: [join(import.meta.dirname, "plugin.mjs")], rules };
    mkdirSync(join(folder, "src"));
    writeFileSync(join(folder, ".oxlintrc.json"), JSON.stringify(config));
    writeFileSync(join(folder, "src/program.ts"), program);
    const oxlint = join(ROOT, "node_modules/oxlint/bin/oxlint");
    const { stdout } = await execa(process.execPath, [oxlint, "--format=json"], { cwd: folder, reject: false });
    const { diagnostics } = JSON.parse(stdout) as { diagnostics: { code: string; message: string }[] };
    return diagnostics
      .filter(({ code }) => code.startsWith("plain-english"))
      .map(({ message }) => /^"([^"]*)"/.exec(message)?.[1] ?? message)
      .sort();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

describe("the rule plain-english/words", () => {
  test("reports comments, string literals, templates and declared names", async () => {
    const program = [
      "// Nobody calls this.",
      'export const insertLane = "whoever sent it";',
      "export interface Verdict { readonly isTold: boolean }",
      "export function judge(stranger: string): string { return `${stranger} is set aside`; }",
    ].join("\n");
    expect(await reported(program)).toEqual(["Lane", "Nobody", "Told", "Verdict", "aside", "judge", "stranger", "whoever"]);
  });

  test("reports a comment that opens with Of, and no line that continues one", async () => {
    const program = "/** Of one request. */\nexport const LIMIT = 1;\n// The limit\n// Of one request.\nexport const OTHER = 2;\n";
    expect(await reported(program)).toEqual([expect.stringContaining("without the line below")]);
  });

  test("leaves plain English, imports and names of other modules alone", async () => {
    const program =
      'import { judged } from "./insert-lane.ts";\n// The agent retries failed requests.\nexport const batch = judged("place");\n';
    expect(await reported(program)).toEqual([]);
  });
});

test("a name is searched word by word", () => {
  expect(wordsOfName("HTTPLaneOf_told2")).toBe("HTTP Lane Of told2");
  expect(privateWords("untold, stolen planes and fastidious strangers").map(({ word }) => word)).toEqual(["strangers"]);
  expect(privateWords("labels that tell series apart, and are told apart")).toEqual([]);
});

test("no folder is left out", () => {
  const { overrides } = JSON.parse(readFileSync(join(ROOT, ".oxlintrc.json"), "utf8")) as { overrides: { rules: object }[] };
  expect(overrides.length).toBeGreaterThan(2);
  expect(overrides.filter(({ rules }) => "plain-english/words" in rules)).toEqual([]);
});

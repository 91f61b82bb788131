import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../test/fixtures/processes.ts";
import { SettingsError, SettingsReader } from "./settings-reader.ts";

/** What the reader finds wrong, a line each. */
function problemsOf(env: NodeJS.ProcessEnv, read: (reader: SettingsReader) => unknown): string[] {
  const reader = new SettingsReader(env);
  read(reader);
  try {
    reader.finish();
    return [];
  } catch (error) {
    if (!(error instanceof SettingsError)) throw error;
    return error.message
      .split("\n")
      .slice(1)
      .map((line) => line.trim());
  }
}

test("all problems are reported at once, each with its variable and what is wanted", () => {
  const env = { FLAG: "yes", COUNT: "1.5", EVERY: "500ms", LEVEL: "loud", LISTEN: "here", FILE: "/nowhere/x" };
  const problems = problemsOf(env, (read) => [
    read.required("NAME"),
    read.flag("FLAG"),
    read.integer("COUNT", 1, 1),
    read.duration("EVERY", "30s", 1000),
    read.oneOf("LEVEL", ["info", "debug"]),
    read.listen("LISTEN", ":1"),
    read.readableFile("FILE"),
  ]);
  expect(problems).toEqual([
    "NAME is required",
    "FLAG: must be true or false",
    "COUNT: must be a whole number of at least 1",
    'EVERY: "500ms" is not a duration of at least 1s, such as 15s or 5m',
    "LEVEL: must be one of info, debug",
    'LISTEN: "here" is not host:port',
    "FILE: cannot read /nowhere/x: ENOENT",
  ]);
});

test("what is not set, or empty, is the default", () => {
  const read = new SettingsReader({ EVERY: "", COUNT: "" });
  expect([read.duration("EVERY", "1h30m", 0), read.integer("COUNT", 7, 1), read.oneOf("LEVEL", ["info", "debug"])]).toEqual([
    5_400_000,
    7,
    "info",
  ]);
  expect([read.list("LIST"), read.flag("FLAG"), read.text("NAME"), read.listen("LISTEN", "[::1]:9090")]).toEqual([
    [],
    false,
    undefined,
    { host: "::1", port: 9090 },
  ]);
});

test("X_FILE reads X from a file without its last line break; both is a problem, and so is a file that is not there", () => {
  using folder = temporaryFolder();
  const file = join(folder.path, "token");
  writeFileSync(file, "secret\n");
  expect(new SettingsReader({ TOKEN_FILE: file }).text("TOKEN")).toBe("secret");
  expect(problemsOf({ TOKEN_FILE: file, TOKEN: "x" }, (read) => read.text("TOKEN"))).toEqual([
    "TOKEN and TOKEN_FILE are both set: set one",
  ]);
  const gone = { TOKEN_FILE: `${file}-gone` };
  expect(problemsOf(gone, (read) => read.text("TOKEN"))).toEqual([`TOKEN_FILE: cannot read ${file}-gone: ENOENT`]);
  expect(problemsOf(gone, (read) => read.text("TOKEN", { mayBeGone: true }))).toEqual([]);
});

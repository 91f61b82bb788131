import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { temporaryFolder } from "../test/fixtures/processes.ts";
import { duration, file, flag, integer, list, listen, oneOf, text } from "./settings-kinds.ts";
import { group, setting, SettingsError, settingsHelp, SettingsReader, type Setting, type Table } from "./settings-table.ts";

const description = "Described.";

/** The problems that the reader reports, one per line. */
function problemsOf(env: NodeJS.ProcessEnv, table: Table): string[] {
  const reader = new SettingsReader(env);
  reader.readPlain(table);
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

test("reports all problems at once, each with its variable and the expected value", () => {
  const env = { FLAG: "yes", COUNT: "1.5", PORTS: "9", EVERY: "500ms", LEVEL: "loud", LISTEN: "here", FILE: "/nowhere/x" };
  const problems = problemsOf(env, {
    name: setting("NAME", text, { isRequired: true, description }),
    flag: setting("FLAG", flag, { default: "false", description }),
    count: setting("COUNT", integer({ min: 1 }), { default: "1", description }),
    ports: setting("PORTS", integer({ min: 1, max: 8 }), { default: "1", description }),
    everyMs: setting("EVERY", duration({ min: 1000 }), { default: "30s", description }),
    level: setting("LEVEL", oneOf(["info", "debug"]), { default: "info", description }),
    listen: setting("LISTEN", listen(), { default: ":1", description }),
    file: setting("FILE", file, { description }),
  });
  expect(problems).toEqual([
    "NAME is required",
    "FLAG: must be true or false",
    "COUNT: must be a whole number of at least 1",
    "PORTS: must be a whole number from 1 to 8",
    'EVERY: "500ms" is not a duration of at least 1s, such as 15s or 5m',
    "LEVEL: must be one of info, debug",
    'LISTEN: "here" is not host:port',
    "FILE: cannot read /nowhere/x: ENOENT",
  ]);
});

const TABLE = {
  ...group("First", {
    everyMs: setting("EVERY", duration({ min: 0 }), { default: "1h30m", description }),
    name: setting("NAME", text, { description }),
    list: setting("LIST", list, { default: "", description }),
  }),
  ...group("Second", {
    listen: setting("LISTEN", listen(), { default: { host: "[::1]:9090", cluster: ":9090" }, description }),
    proxy: setting("PROXY", text, { isSecret: true, isEitherCase: true, description }),
    token: setting("TOKEN", text, { isRequired: true, isSecret: true, description }),
  }),
};

test("uses the default, or the profile's, for an unset or empty variable", () => {
  const read = (profile: string) => new SettingsReader({ EVERY: "", NAME: "" }, profile).readPlain(TABLE);
  expect(read("host")).toEqual({ everyMs: 5_400_000, name: undefined, list: [], listen: { host: "::1", port: 9090 } });
  expect(read("cluster").listen).toEqual({ host: "", port: 9090 });
});

test("separates secrets from settings that can be logged, and prefers lower case where curl does", () => {
  const reader = new SettingsReader({ PROXY: "http://a", proxy: "http://b", TOKEN: "t", LIST: "a, b" });
  expect(reader.readSecrets(TABLE)).toEqual({ proxy: "http://b", token: "t" });
  expect(Object.keys(reader.readPlain(TABLE))).toEqual(["everyMs", "name", "list", "listen"]);
});

test("the help lists every variable with its default, by group", () => {
  expect(settingsHelp(TABLE, "cluster")).toBe(`Settings, read from the environment (X_FILE reads X from a file), with their defaults:

First
  EVERY   1h30m
  NAME
  LIST

Second
  LISTEN  :9090
  PROXY
  TOKEN   (required)
`);
});

test("reads X from the file X_FILE without its last line break; rejects both together, and a missing file", () => {
  using folder = temporaryFolder();
  const path = join(folder.path, "token");
  writeFileSync(path, "secret\n");
  const table = { token: setting("TOKEN", text, { description }) };
  expect(new SettingsReader({ TOKEN_FILE: path }).read(table.token)).toBe("secret");
  expect(problemsOf({ TOKEN_FILE: path, TOKEN: "x" }, table)).toEqual(["TOKEN and TOKEN_FILE are both set: set one"]);
  const missing = { TOKEN_FILE: `${path}-gone` };
  expect(problemsOf(missing, table)).toEqual([`TOKEN_FILE: cannot read ${path}-gone: ENOENT`]);
  expect(problemsOf(missing, { token: setting("TOKEN", text, { mayBeGone: true, description }) })).toEqual([]);
});

test("reads a secret that is not in the environment from the folder for secrets, but no other settings", () => {
  using folder = temporaryFolder();
  for (const name of ["TOKEN", "NAME"]) writeFileSync(join(folder.path, name), "in the folder\n");
  const token = setting("TOKEN", text, { isSecret: true, description });
  const read = (env: NodeJS.ProcessEnv, row: Setting = token) => new SettingsReader(env, "", folder.path).read(row);
  expect(read({})).toBe("in the folder");
  expect(read({ TOKEN: "in the environment" })).toBe("in the environment");
  expect(read({}, setting("NAME", text, { description }))).toBeUndefined();
  expect(read({}, setting("OTHER", text, { isSecret: true, description }))).toBeUndefined();
  mkdirSync(join(folder.path, "OTHER"));
  const reader = new SettingsReader({}, "", folder.path);
  reader.read(setting("OTHER", text, { isSecret: true, description }));
  expect(() => reader.finish()).toThrow(`SECRETS_FOLDER: cannot read ${join(folder.path, "OTHER")}: EISDIR`);
});

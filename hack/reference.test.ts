// The reference pages say what the code does: a page that differs fails, and so does a setting that is read and not in its manual.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { readSettings as readAgentSettings } from "../agent/settings.ts";
import { readSettings as readBackendSettings } from "../backend/settings.ts";
import { LOG_EVENTS } from "../common/log-events.ts";
import { manualOf, pages } from "./reference.ts";

const ROOT = join(import.meta.dirname, "..");

describe("a page made from the sources", async () => {
  test.each(Object.entries(await pages()))("%s is up to date (else: npm run reference)", (path, text) => {
    expect(readFileSync(join(ROOT, path), "utf8")).toBe(text);
  });
});

/** Messages of `unavailable`, straight or by one of the functions that make it. */
const THROWN =
  /(?:"unavailable", |\bunavailable\(|storeError\(error, |const message = (?=.*;\s*throw new ApiError\("unavailable"))(["`])(?<text>[^"`\n]+)\1/g;

describe("what docs/contract.md tells of 503", () => {
  const [, section = ""] = readFileSync(join(ROOT, "docs/contract.md"), "utf8").split("\n## 503 `unavailable`\n");
  const told = [...section.matchAll(/^\| (?<messages>`[^|]+) \|/gm)].flatMap(({ groups }) =>
    [...(groups?.["messages"] ?? "").matchAll(/`([^`]+)`/g)].map(([, message = ""]) => message),
  );
  /** Beginnings of messages; a value in one stands as `…`. */
  const thrown = globSync("backend/**/*.ts", { cwd: ROOT, exclude: ["**/*.test.ts", "**/node_modules/**"] })
    .flatMap((file) => [...readFileSync(join(ROOT, file), "utf8").matchAll(THROWN)])
    .map(({ groups }) => groups?.["text"]?.replaceAll(/\$\{[^}]*\}/g, "…") ?? "")
    // Nobody is there to read it.
    .filter((text) => text !== "the client disconnected");
  const isOf = (text: string, message: string) => (message.startsWith("…") ? text.includes(message.slice(1)) : text.startsWith(message));

  test("is what the backend says", () => {
    expect(told.length).toBeGreaterThan(12);
    expect(told.filter((message) => !thrown.some((text) => isOf(text, message)))).toEqual([]);
  });

  test("is all that it says", () => {
    expect(thrown.length).toBeGreaterThan(12);
    expect(thrown.filter((text) => !told.some((message) => isOf(text, message)))).toEqual([]);
  });
});

/** The names that `read` asks the environment for. */
function namesRead(read: (env: NodeJS.ProcessEnv) => unknown): Set<string> {
  const names = new Set<string>();
  const env = new Proxy<NodeJS.ProcessEnv>(
    {},
    {
      get: (_target, name) => {
        if (typeof name === "string" && /^[A-Z0-9_]+$/.test(name)) names.add(name);
        return undefined;
      },
    },
  );
  try {
    read(env);
  } catch {
    // Required settings are missing, which is told at the end, when all were read.
  }
  return names;
}

/** Not settings of ours: where programs are looked up. */
const OF_THE_SYSTEM = new Set(["PATH", "XDG_CACHE_HOME", "HOME"]);

describe("a manual", () => {
  test.each([
    [
      "agent/settings.ts",
      [(env: NodeJS.ProcessEnv) => readAgentSettings("host", env), (env: NodeJS.ProcessEnv) => readAgentSettings("cluster", env)],
    ],
    ["backend/settings.ts", [(env: NodeJS.ProcessEnv) => readBackendSettings(env)]],
  ] as const)("of %s has every setting that is read", (file, readers) => {
    const told = new Set(manualOf(file).flatMap((setting) => setting.names));
    const read = readers.flatMap((reader) => [...namesRead(reader)]).filter((name) => !OF_THE_SYSTEM.has(name));
    // X_FILE is the file form of X, unless it is a setting of its own.
    expect(read.filter((name) => !told.has(name) && !told.has(name.replace(/_FILE$/, "")))).toEqual([]);
  });
});

test("every operation of the HTTP APIs tells what it answers when all is well", async () => {
  const written = Object.entries(await pages()).filter(([path]) => path.includes("openapi"));
  const untold = written.flatMap(([, text]) => text.match(/"description": "success"|"schema": \{\}/g) ?? []);
  expect(written).toHaveLength(2);
  expect(untold).toEqual([]);
});

describe("the log events", () => {
  const sources = globSync("{agent,backend,common}/**/*.ts", { cwd: ROOT, exclude: ["**/*.test.ts", "**/node_modules/**"] }).map((file) =>
    readFileSync(join(ROOT, file), "utf8"),
  );
  const used = sources.flatMap((text) =>
    [...text.matchAll(/\bevent: "(?<event>[a-z_]+\.[a-z_]+)"/g)].map(({ groups }) => groups?.["event"]),
  );

  test("that are logged are all in common/log-events.ts", () => {
    expect(used.length).toBeGreaterThan(5);
    expect(used.filter((event) => !Object.hasOwn(LOG_EVENTS, event ?? ""))).toEqual([]);
  });
});

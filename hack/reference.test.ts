// The reference pages describe the code as it is: a page that differs fails.
import { globSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import logEvents from "../common/log-events.json" with { type: "json" };
import { pages } from "./reference.ts";

const ROOT = join(import.meta.dirname, "..");

describe("a generated page", async () => {
  test.each(Object.entries(await pages()))("%s is up to date (else: npm run reference)", (path, text) => {
    expect(readFileSync(join(ROOT, path), "utf8")).toBe(text);
  });
});

/** Messages of `unavailable`, straight or by one of the functions that make it. */
const THROWN =
  /(?:"unavailable", |fullMessage(?:: | = )|\bunavailable\(|storeError\([^"]+, |const message = (?=.*;\s*throw new ApiError\("unavailable"))(["`])(?<text>[^"`\n]+)\1/g;

describe("the 503 messages in docs/contract.md", () => {
  const [, section = ""] = readFileSync(join(ROOT, "docs/contract.md"), "utf8").split("\n## 503 `unavailable`\n");
  const documented = [...section.matchAll(/^\| (?<messages>`[^|]+) \|/gm)].flatMap(({ groups }) =>
    [...(groups?.["messages"] ?? "").matchAll(/`([^`]+)`/g)].map(([, message = ""]) => message),
  );
  /** Beginnings of messages; a value is replaced by `…`. */
  const thrown = globSync("backend/**/*.ts", { cwd: ROOT, exclude: ["**/*.test.ts", "**/node_modules/**"] })
    .flatMap((file) => [...readFileSync(join(ROOT, file), "utf8").matchAll(THROWN)])
    .map(({ groups }) => groups?.["text"]?.replaceAll(/\$\{[^}]*\}/g, "…") ?? "")
    // No client is there to read it.
    .filter((text) => text !== "the client disconnected");
  const isOf = (text: string, message: string) => (message.startsWith("…") ? text.includes(message.slice(1)) : text.startsWith(message));

  test("are messages of the backend", () => {
    expect(documented.length).toBeGreaterThan(12);
    expect(documented.filter((message) => !thrown.some((text) => isOf(text, message)))).toEqual([]);
  });

  test("are all messages of the backend", () => {
    expect(thrown.length).toBeGreaterThan(12);
    expect(thrown.filter((text) => !documented.some((message) => isOf(text, message)))).toEqual([]);
  });
});

test("every operation of the HTTP APIs documents its successful response", async () => {
  const written = Object.entries(await pages()).filter(([path]) => path.includes("openapi"));
  const undocumented = written.flatMap(([, text]) => text.match(/"description": "success"|"schema": \{\}/g) ?? []);
  expect(written).toHaveLength(2);
  expect(undocumented).toEqual([]);
});

describe("the log events", () => {
  const sources = globSync("{agent,backend,common}/**/*.ts", { cwd: ROOT, exclude: ["**/*.test.ts", "**/node_modules/**"] }).map((file) =>
    readFileSync(join(ROOT, file), "utf8"),
  );
  const used = sources.flatMap((text) =>
    [...text.matchAll(/\bevent: "(?<event>[a-z_]+\.[a-z_]+)"/g)].map(({ groups }) => groups?.["event"]),
  );

  test("that are logged are in common/log-events.json", () => {
    expect(used.length).toBeGreaterThan(5);
    expect(used.filter((event) => !Object.hasOwn(logEvents, event ?? ""))).toEqual([]);
  });

  test("have a meaning, and what to do or an empty text", () => {
    const isComplete = (texts: readonly string[]): boolean => texts.length === 2 && texts[0] !== "";
    expect(Object.entries(logEvents).filter(([event, texts]) => !/^[a-z_]+\.[a-z_]+$/.test(event) || !isComplete(texts))).toEqual([]);
  });

  test("are part of every log message", () => {
    const calls = sources.flatMap((text) => logCalls(text));
    expect(calls.length).toBeGreaterThan(150);
    expect(calls.filter((call) => !/\bevent\b/.test(call))).toEqual([]);
  });
});

/** The text of each call `log.warn(…)`, up to its closing parenthesis. */
function logCalls(text: string): string[] {
  return [...text.matchAll(/\blog\??\.(?:debug|info|warn|error|fatal)\(/g)].map(({ index, 0: start }) => {
    let depth = 1;
    let end = index + start.length;
    for (; depth > 0 && end < text.length; end++) {
      if (text[end] === "(") depth += 1;
      if (text[end] === ")") depth -= 1;
    }
    return text.slice(index, end);
  });
}

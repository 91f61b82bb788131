// Links of every command to the console: each command has a screen or is listed as one without, and links have the range and the query.
import { PassThrough } from "node:stream";
import type { Command } from "commander";
import { describe, expect, test } from "vitest";
import { longestIn, screenOf, SCREEN_NAMES } from "./console-links.ts";
import { buildProgram } from "./program.ts";
import type { World } from "./settings.ts";

const world = (): World => ({
  settings: { url: "http://127.0.0.1:1", passwordFile: undefined, sessionFile: "/nonexistent/session.json" },
  stdin: new PassThrough(),
  stdout: new PassThrough(),
  stderr: new PassThrough(),
});
const descendants = (command: Command): Command[] => command.commands.flatMap((child) => [child, ...descendants(child)]);
const all = descendants(buildProgram(world())).filter((command) => command.name() !== "help");
const pathOf = (command: Command): string => (command.parent?.parent ? `${pathOf(command.parent)} ${command.name()}` : command.name());

/** Commands that no screen shows. */
const WITHOUT_SCREEN: readonly string[] = [
  "apply",
  "completion",
  "export",
  "export-telemetry",
  "issuers",
  "login",
  "logout",
  "mcp",
  "password",
  "profiles",
  "retention",
  "views",
];

test.each(all.map((command) => [pathOf(command), command] as const))(
  "%s has a screen, or is listed as a command without one",
  (_path, command) => {
    expect([longestIn(SCREEN_NAMES, command), longestIn(WITHOUT_SCREEN, command)].filter(Boolean)).toHaveLength(1);
  },
);

test("no table has a command that does not exist", () => {
  const paths = new Set(all.map(pathOf));
  expect([...SCREEN_NAMES, ...WITHOUT_SCREEN].filter((name) => !paths.has(name))).toEqual([]);
});

/** The link after these arguments, without what the command does. */
async function linkOf(args: readonly string[]): Promise<URLSearchParams & { screen: string }> {
  const program = buildProgram(world());
  let link = "";
  for (const command of descendants(program)) command.action(() => undefined);
  program.hook("postAction", (_program, command) => void (link = screenOf(command) ?? ""));
  await program.parseAsync(args, { from: "user" });
  const [screen = "", query] = link.split("?");
  return Object.assign(new URLSearchParams(query), { screen });
}

const START = "2026-11-29T10:00:00Z";
const TRACE = "5B8AA5A2D2C872E8321CF37308D69DF2";
const RANGE = ["--start", START, "--end", "2026-11-29T11:00:00Z"];

describe("the link has the query of", () => {
  test.each<[string, readonly string[], string, Record<string, string>]>([
    [
      "logs",
      ["logs", "timeout", "OR", "refused", "--level", "error", "--label", "http.route=/a b", ...RANGE],
      "#/logs",
      { q: '(timeout OR refused) level:error label.http.route:"/a b"', from: START },
    ],
    [
      "patterns",
      ["logs", "--patterns", "--grep", "a b", "--not-regex", "a/b", ...RANGE],
      "#/logs",
      { q: '"a b" -/a\\/b/', view: "patterns" },
    ],
    ["LogQL", ["logs", '{a="b"} |= "c"', ...RANGE], "#/logs", { q: '{a="b"} |= "c"' }],
    ["tail", ["tail", "x"], "#/logs", { q: "x", live: "1" }],
    ["spans", ["traces", "--service", "shop", "--error", ...RANGE], "#/traces", { service: "shop", error: "true", from: START }],
    ["one trace's spans", ["traces", "--trace-id", TRACE], `#/traces/${TRACE.toLowerCase()}`, {}],
    [
      "a search",
      ["traces", "search", "--min", "2s", "--label", "a=b c", "--where", "d>=5", "--order", "duration", ...RANGE],
      "#/traces",
      { min: "2000", attributes: 'a="b c" d>=5', sort: "slowest", from: START },
    ],
    ["a trace", ["trace", TRACE], `#/traces/${TRACE.toLowerCase()}`, {}],
    ["metrics", ["metrics", "sum(up)", ...RANGE], "#/metrics", { q: "sum(up)", from: START }],
    ["operations", ["services", "operations", "a/b", ...RANGE], "#/services/a%2Fb", { from: START }],
    ["the map", ["services", "map", ...RANGE], "#/services", { view: "map", from: START }],
    [
      "changes",
      ["changes", "--service", "shop", "--compare-with", "yesterday", ...RANGE],
      "#/changes",
      { service: "shop", with: "yesterday", from: START },
    ],
    ["objectives", ["slos"], "#/slos", {}],
    ["usage", ["usage"], "#/settings", { part: "usage" }],
  ])("%s", async (_name, args, screen, query) => {
    const link = await linkOf(args);
    expect(link.screen).toBe(screen);
    expect(Object.fromEntries(link)).toMatchObject(query);
  });

  test("a range that ends now, in absolute times", async () => {
    const link = await linkOf(["services", "--since", "2h"]);
    expect(Date.parse(link.get("to") ?? "") - Date.parse(link.get("from") ?? "")).toBeGreaterThan(2 * 3_600_000 - 5000);
  });
});

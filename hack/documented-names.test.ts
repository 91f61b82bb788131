// Commands, options, metrics, statuses of error codes and defaults of chart values that the pages name are those of the programs and charts.
// The records in docs/adr and docs/measurements keep the names of their time.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Command } from "commander";
import { expect, test } from "vitest";
import { parse } from "yaml";
import { buildProgram } from "../backend/cli/program.ts";
import type { World } from "../backend/cli/settings.ts";
import { ERROR_CODES } from "../backend/errors.ts";
import { filesOfRepository } from "./citations.ts";
import { agentMetrics, backendMetrics } from "./reference-pages.ts";

const ROOT = join(import.meta.dirname, "..");
const PAGES = filesOfRepository()
  .filter((file) => file.endsWith(".md") && !/^docs\/(?:adr|measurements)\/|^CHANGELOG/.test(file))
  .map((file) => [file, readFileSync(join(ROOT, file), "utf8").replaceAll(/\\\n\s*/g, "")] as const);

/** What `find` finds in the pages, each with its page. */
function findIn(find: RegExp, isWrong: (found: RegExpMatchArray) => boolean): string[] {
  const all = PAGES.flatMap(([file, text]) => [...text.matchAll(find)].map((found) => [file, found] as const));
  expect(all.length).toBeGreaterThan(10);
  return all.filter(([, found]) => isWrong(found)).map(([file, [text]]) => `${file}: ${text}`);
}

const CLIENT = buildProgram({ settings: { sessionFile: "" } } as World);
/** In an example or between backticks, up to a pipe, a comment or another command. */
const CALL = /(?:^|`|-- |\| )(?:[\w"=:$/.-]+ )*?atherops (?!https:)(?<words>[^`|;&#()\n]+)/gm;
const WORD = /'[^']*'?|"[^"]*"?|[^\s'"]+/g;

/** Whether a command or an option of this command line does not exist, or an argument or option that it needs is missing. */
function isWrongCall(line: string): boolean {
  const words = line.replace(/ <(?![a-z-]+>).*/, "").match(WORD) ?? [];
  const first = words.findIndex((word, index) => !word.startsWith("-") && !/^--(?:url|profile|output)$/.test(words[index - 1] ?? ""));
  const chain: Command[] = [CLIENT];
  for (const word of first < 0 ? [] : words.slice(first)) {
    const next = chain.at(-1)?.commands.find((command) => command.name() === word || command.aliases().includes(word));
    if (!next) break;
    chain.push(next);
  }
  const all = chain.flatMap((command) => command.options);
  const find = (word = "") => all.find(({ long, short }) => word.startsWith("-") && [long, short].includes(word));
  const last = chain.at(-1) ?? CLIENT;
  const given = first < 0 ? [] : words.slice(first + chain.length - 1);
  const isUnknown = /^[a-z][a-z-]*$/.test(given[0] ?? "") && last.commands.length > 0 && last.registeredArguments.length === 0;
  const named = words.filter((word) => /^--?[a-z]/.test(word)).map((word) => word.split("=")[0] ?? "");
  if (isUnknown || named.some((name) => find(name) === undefined && !/^(?:--help|-h|--version)$/.test(name))) return true;
  // A command without arguments, or with `…`, is only mentioned.
  if (given.length === 0 || given.includes("…")) return false;
  const values = given.filter((word, index) => !word.startsWith("-") && find(given[index - 1])?.required !== true);
  const isMissing = values.length < last.registeredArguments.filter(({ required }) => required).length;
  return isMissing || last.options.some((option) => option.mandatory && !named.some((name) => find(name) === option));
}

test("commands, options and arguments of the client exist and are complete", () => {
  expect(findIn(CALL, ({ groups }) => isWrongCall(groups?.["words"] ?? ""))).toEqual([]);
});

test("metrics of agent and backend exist", () => {
  const known = new Set(
    [...backendMetrics(), ...agentMetrics()].flatMap(({ name }) => [name, `${name}_count`, `${name}_sum`, `${name}_bucket`]),
  );
  // A database, two sinks and a label of examples.
  for (const name of ["atherops_distributed", "atherops_logs", "atherops_metrics", "atherops_reported_by"]) known.add(name);
  expect(findIn(/\batherops_[a-z_]*[a-z]\b/g, ([name]) => !known.has(name))).toEqual([]);
});

test("error codes have the status that is next to them", () => {
  const statuses: Readonly<Record<string, readonly [status: number, ...unknown[]]>> = ERROR_CODES;
  expect(
    findIn(
      /\b(?<status>[1-5]\d\d) `(?<code>[a-z_]+)`/g,
      ({ groups }) => String(statuses[groups?.["code"] ?? ""]?.[0]) !== groups?.["status"],
    ),
  ).toEqual([]);
});

test.each(["backend", "cluster-agent"])("defaults in the README of chart %s are those of values.yaml", (chart) => {
  const read = (file: string) => readFileSync(join(ROOT, "charts", chart, file), "utf8");
  const values: unknown = parse(read("values.yaml"));
  const rows = [...read("README.md").matchAll(/^\| (?<names>`[^|]+) \| (?<defaults>`[^|]+) \|/gm)].flatMap(({ groups }) => {
    const names = (groups?.["names"] ?? "").match(/(?<=`)[^`]+(?=`(?:,|$))/g) ?? [];
    const [, folder = ""] = /^(?<folder>.*\.)?/.exec(names[0] ?? "") ?? [];
    const defaults = (groups?.["defaults"] ?? "").split(/, (?![^`]*`(?:,|$))/);
    return names.map(
      (name, index) => [name.replace(/^\./, folder), /^`(?<text>[^`]*)`$/.exec(defaults[index] ?? "")?.groups?.["text"]] as const,
    );
  });
  const wrong = rows.filter(([name, text]) => {
    const value = name.split(".").reduce<unknown>((object, key) => (object as Record<string, unknown> | undefined)?.[key], values);
    return text !== undefined && value !== undefined && value !== "" && JSON.stringify(parse(text)) !== JSON.stringify(value);
  });
  expect(rows.length).toBeGreaterThan(30);
  expect(wrong).toEqual([]);
});

// Finds references in comments and pages of this repository: to files, sections of pages and links. Invariant: every detected reference without
// a target is an error; ordinary words are not mistaken for references.
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { basename, dirname, join, normalize } from "node:path";

const ROOT = join(import.meta.dirname, "..");

/** Returns all files of the repository that are or will be committed, relative to its root. */
export function filesOfRepository(): string[] {
  const list = execFileSync("git", ["ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate"], {
    cwd: ROOT,
    encoding: "utf8",
  });
  return list.split("\n").filter((file) => file !== "");
}

/** Returns the prose of a file by line (1-based line → text): the whole text of a page, the comments of a program. */
export function proseOf(file: string): Map<number, string> {
  const lines = readFileSync(join(ROOT, file), "utf8").split("\n");
  const prose = new Map<number, string>();
  const comment = /\.(?:ts|mjs|mts)$/.test(file) ? commentOfCode() : file.endsWith(".md") ? (line: string) => line : commentAfterHash;
  for (const [at, line] of lines.entries()) {
    const text = comment(line);
    if (text) prose.set(at + 1, text);
  }
  return prose;
}

function commentOfCode(): (line: string) => string | undefined {
  let inBlock = false;
  return (line) => {
    const start = /^\s*\/\*/.test(line);
    const text = inBlock || start ? line : /(?:^|\s)\/\/ (?<text>.*)$/.exec(line)?.groups?.["text"];
    if (start) inBlock = true;
    if (line.includes("*/")) inBlock = false;
    return text;
  };
}

function commentAfterHash(line: string): string | undefined {
  return /(?:^|\s)#(?<text>.*)$/.exec(line)?.groups?.["text"] ?? /^\s*-- (?<text>.*)$/.exec(line)?.groups?.["text"];
}

export interface Problem {
  readonly at: string;
  readonly what: string;
}

/**
 * Names of programs and pages; data files only if a folder of this repository is named, too, because programs create files with such names.
 */
const NAME =
  /(?<![\w./@{}<>*$-])(?:\.{0,2}\/)?(?:[\w.@-]+\/|\{[\w,.-]+\}\/)*(?:[\w.-]*\{[\w,.-]+\}[\w.-]*|[\w.-]+)\.(?:ts|mjs|md|sh|sql|service|tpl|json|yaml)\b(?![\w/*(]|\.\w)/g;
const DATA = /\.(?:json|yaml)$/;
const FOLDER = /^(?:agent|backend|bin|charts|docs|hack|test)\//;
/** A placeholder for any name: FILE.json, x.test.ts. */
const PLACEHOLDER = /(?:^|\/)(?:[A-Z]{4,}|[a-z])\.|^\.test\.ts$/;

/** Finds names of files that do not exist in this repository. */
export function findWrongNames(file: string, files: ReadonlySet<string>): Problem[] {
  const byBase = byBaseOf(files);
  const problems: Problem[] = [];
  for (const [line, text] of proseOf(file)) {
    for (const [name] of text.replaceAll(/https?:\/\/\S+/g, "").matchAll(NAME)) {
      if (name.startsWith("/") || PLACEHOLDER.test(name) || (DATA.test(name) && !FOLDER.test(name))) continue;
      const wrong = expand(name).filter((path) => !leadsToFile(path, file, files, byBase));
      if (wrong.length > 0) problems.push({ at: `${file}:${line}`, what: name });
    }
  }
  return problems;
}

const groupedByBase = new WeakMap<ReadonlySet<string>, ReadonlyMap<string, readonly string[]>>();

/** The files by their names without folders; grouped once, because every file of the repository is checked against all of them. */
function byBaseOf(files: ReadonlySet<string>): ReadonlyMap<string, readonly string[]> {
  const byBase = groupedByBase.get(files) ?? Map.groupBy(files, (each) => basename(each));
  groupedByBase.set(files, byBase);
  return byBase;
}

/** Expands braces: `x{a,b}y` becomes `xay` and `xby`. */
function expand(name: string): string[] {
  const braces = /^(?<before>[^{]*)\{(?<of>[^}]*)\}(?<after>.*)$/.exec(name)?.groups;
  if (!braces) return [name];
  return (braces["of"] ?? "").split(",").flatMap((one) => expand(`${braces["before"]}${one}${braces["after"]}`));
}

function leadsToFile(name: string, from: string, files: ReadonlySet<string>, byBase: ReadonlyMap<string, readonly string[]>): boolean {
  const relative = normalize(join(dirname(from), name));
  if (files.has(relative) || files.has(normalize(name))) return true;
  // A bare name, or the end of a path, may refer to a file in a folder above, to the only one in its program, or to the only one in the
  // repository.
  const end = name.replace(/^(?:\.\.?\/)+/, "");
  const named = (byBase.get(basename(name)) ?? []).filter((each) => `/${each}`.endsWith(`/${end}`));
  const [program] = from.split("/");
  const ofProgram = named.filter((each) => each.startsWith(`${program}/`));
  const isAbove = named.some((each) => from.startsWith(`${dirname(each)}/`));
  if (isAbove || ofProgram.length === 1 || (from.endsWith(".md") && named.length > 0)) return true;
  // Agent and backend know little of each other, so a bare name refers to a file of the same program.
  return named.length === 1 && (name.includes("/") || (program !== "agent" && program !== "backend"));
}

/** Finds links of a page to a missing file or heading. */
export function findWrongLinks(file: string, files: ReadonlySet<string>): Problem[] {
  const text = readFileSync(join(ROOT, file), "utf8");
  const folders = new Set([...files].flatMap((each) => foldersOf(each)));
  return [...text.matchAll(/\]\((?<to>[^)\s]+)\)/g)].flatMap(({ groups }): Problem[] => {
    const to = groups?.["to"] ?? "";
    if (/^\w+:/.test(to)) return [];
    const [path = "", anchor] = to.split("#");
    const target = path === "" ? file : normalize(join(dirname(file), path)).replace(/\/$/, "");
    if (!files.has(target) && !folders.has(target)) return [{ at: file, what: to }];
    const known = anchor === undefined || headingsOf(target).some((heading) => slug(heading) === anchor);
    return known ? [] : [{ at: file, what: to }];
  });
}

function foldersOf(file: string): string[] {
  const folder = dirname(file);
  return folder === "." ? [] : [folder, ...foldersOf(folder)];
}

/** Finds references such as `docs/decisions.md, "Enrolment"` whose section does not exist. */
export function findWrongSections(file: string, files: ReadonlySet<string>): Problem[] {
  const problems: Problem[] = [];
  const text = [...proseOf(file).values()].join(" ").replaceAll(/\s+\*?\s*/g, " ");
  for (const { groups } of text.matchAll(/(?<page>[\w./-]+\.md),? (?:\(|section )?"(?<section>[^"]+)"/g)) {
    const { page = "", section = "" } = groups ?? {};
    const target = [...foldersOf(file).map((folder) => `${folder}/${page}`), page]
      .map((each) => normalize(each))
      .find((each) => files.has(each));
    if (target && !headingsOf(target).some((heading) => heading.includes(section)))
      problems.push({ at: file, what: `${page}, "${section}"` });
  }
  return problems;
}

function headingsOf(file: string): string[] {
  return [...readFileSync(join(ROOT, file), "utf8").matchAll(/^#+ (?<heading>.*)$/gm)].map(({ groups }) => groups?.["heading"] ?? "");
}

/** The anchor that GitHub creates for a heading. */
function slug(heading: string): string {
  return heading
    .toLowerCase()
    .replaceAll(/[^\w\s-]/g, "")
    .trim()
    .replaceAll(" ", "-");
}

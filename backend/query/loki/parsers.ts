// Implements the stages that parse labels from a line: json, logfmt, regexp, pattern, unpack. Invariant: a line that cannot be parsed
// passes, with the labels that could be read and an error, as in Loki.
import { MAX_JSON_DEPTH } from "../query-limits.ts";
import { type Entry, labelName } from "./entry.ts";
import { wrongQuery } from "./grammar.ts";
import { eachMember, type JsonValue, MalformedJson, parsePath, unescaped, valueOf } from "./json.ts";
import { charge, compilePattern, findText, type Pattern } from "./regex.ts";
import type { Stage } from "./syntax.ts";

export type Step = (entry: Entry) => boolean;
type StageOf<K extends Stage["kind"]> = Extract<Stage, { kind: K }>;

const JSON_ERROR = "JSONParserErr";

/** Whether all required labels of the entry are read. */
type IsComplete = (entry: Entry) => boolean;

function readJson(isComplete: IsComplete): Step {
  return (entry) =>
    isComplete(entry) || orError(entry, () => void addMembers(entry, { text: entry.line, prefix: "", depth: 0 }, isComplete));
}

/** Runs `work`; malformed JSON becomes the error of the entry, which passes. */
function orError(entry: Entry, work: () => void): true {
  try {
    work();
  } catch (error) {
    if (!(error instanceof MalformedJson)) throw error;
    entry.fail(JSON_ERROR, error.message);
  }
  return true;
}

/** Returns true once all required labels are read. */
function addMembers(
  entry: Entry,
  { text, prefix, depth }: { text: string; prefix: string; depth: number },
  isComplete: IsComplete,
): boolean {
  if (depth > MAX_JSON_DEPTH) throw new MalformedJson("maximum depth of JSON reached");
  // Each level is read again to find its end.
  charge(text.length);
  let isDone = false;
  eachMember(text, (key, value) => {
    charge(prefix.length + key.length);
    const name = joinNames(prefix, key);
    if (value.type === "object") isDone = addMembers(entry, { text: value.raw, prefix: name, depth: depth + 1 }, isComplete);
    else if (value.type !== "null" && value.type !== "array" && name !== "") {
      entry.extract(name, textOf(value));
      isDone = isComplete(entry);
    }
    return isDone;
  });
  return isDone;
}

function joinNames(prefix: string, key: string): string {
  const trimmed = key.trim();
  if (trimmed === "") return prefix;
  return prefix === "" ? labelName(trimmed) : `${prefix}_${trimmed.replaceAll(/[^a-zA-Z0-9_]/gu, "_")}`;
}

function textOf({ type, raw }: JsonValue): string {
  return type === "string" ? unescaped(raw).replaceAll("\ufffd", " ") : raw;
}

function jsonPaths(paths: NonNullable<StageOf<"json">["paths"]>): Step {
  const read = paths.map(([name, path]) => [name, parsePath(path)] as const);
  return (entry) => {
    if (entry.line === "") return true;
    if (!/^["{[]/.test(entry.line)) {
      entry.fail(JSON_ERROR, "");
      return true;
    }
    for (const [name, path] of read) {
      const value = orNothing(() => valueOf(entry.line, path));
      if (value) entry.set(entry.nameFor(name), value.type === "null" ? "" : textOf(value));
    }
    for (const [name] of read) if (entry.get(name) === undefined) entry.set(name, "");
    return true;
  };
}

function orNothing(work: () => JsonValue | undefined): JsonValue | undefined {
  try {
    return work();
  } catch (error) {
    if (error instanceof MalformedJson) return undefined;
    throw error;
  }
}

function readLogfmt({ isStrict, keepsEmpty, keys }: StageOf<"logfmt">, isComplete: IsComplete): Step {
  return (entry) => {
    if (isComplete(entry)) return true;
    for (const [name] of keys ?? []) if (entry.nameFor(name) === name) entry.set(name, "");
    const problem = eachPair(entry.line, isStrict, (key, value) => {
      charge(key.length + value.length + (keys?.length ?? 0));
      const name = key.trim() === "" ? "" : labelName(key.trim());
      if (name === "") return undefined;
      const text = value.replaceAll("\ufffd", " ");
      if (!keys) {
        if (value !== "" || keepsEmpty) entry.extract(name, text);
        return isComplete(entry);
      }
      // As in Loki, a name that an earlier stage has read is not read again under another name.
      const isLabel = keys.some(([label]) => label === name);
      if (entry.isSettled(name) && !isLabel) return undefined;
      const target = keys.find(([, from]) => from === name)?.[0] ?? (isLabel ? name : undefined);
      if (target !== undefined) entry.set(entry.nameFor(target), text);
      return undefined;
    });
    if (isStrict && problem !== undefined) entry.fail("LogfmtParserErr", problem);
    return true;
  };
}

function readRegexp(text: string): Step {
  const pattern = compilePattern(text);
  const names = captureNames(pattern, text);
  return (entry) => {
    const matcher = pattern.find(entry.line);
    if (!matcher) return true;
    for (const [index, name] of names) entry.extract(labelName(name), matcher.group(index) ?? "");
    return true;
  };
}

function readPattern(text: string): Step {
  const parts = parsePattern(text);
  return (entry) => {
    for (const [name, value] of capturesOf(parts, entry.line)) entry.extract(name, value);
    return true;
  };
}

/** Texts become labels, and _entry becomes the line. */
function unpack(entry: Entry): boolean {
  if (entry.line === "") return true;
  if (!entry.line.startsWith("{")) {
    entry.fail(JSON_ERROR, "expecting json object(6), but it is not");
    return true;
  }
  return orError(entry, () => {
    const labels: [string, string][] = [];
    let line: string | undefined;
    eachMember(entry.line, (key, value) => {
      if (value.type !== "string") return undefined;
      if (key === "_entry") line = unescaped(value.raw);
      else labels.push([labelName(key.trim()), textOf(value)]);
      return undefined;
    });
    if (line === undefined) return;
    for (const [name, value] of labels) entry.extract(name, value);
    entry.line = line;
  });
}

/** Loki stops at the last required label, so malformed text after it is not an error. */
function hasAll(required: readonly string[]): IsComplete {
  return (entry) => {
    charge(required.length);
    return required.every((name) => entry.isSettled(name));
  };
}

/** Undefined if the stage reads no labels from the line. */
export function parserStep(stage: Stage, required: ReadonlySet<string> | undefined): Step | undefined {
  const isComplete = required?.size ? hasAll([...required]) : () => false;
  switch (stage.kind) {
    case "json":
      return stage.paths ? jsonPaths(stage.paths) : readJson(isComplete);
    case "logfmt":
      return readLogfmt(stage, isComplete);
    case "regexp":
      return readRegexp(stage.text);
    case "pattern":
      return readPattern(stage.text);
    case "unpack":
      return unpack;
    default:
      return undefined;
  }
}

const CONTROL_OR_BLANK = /[\u0000- ]/g;
const KEY_END = /[="\u0000- ]/g;

/** Calls `visit` for each pair until it returns true; if it `stops`, until text that is not a pair. Returns the last error, if any. */
export function eachPair(line: string, stops: boolean, visit: (key: string, value: string) => boolean | undefined): string | undefined {
  let problem: string | undefined;
  for (let at = skipBlanks(line, 0); at < line.length;) {
    const pair = readPair(line, at);
    if ("problem" in pair) {
      ({ problem } = pair);
      if (stops) break;
    } else if (visit(pair.key, pair.value)) break;
    at = skipBlanks(line, pair.end);
  }
  return problem;
}

type Pair = { readonly key: string; readonly value: string; readonly end: number };

/** Reads the pair at `at`. `end`: where to go on reading. */
function readPair(line: string, at: number): Pair | { readonly problem: string; readonly end: number } {
  const malformed = (position: number, reason = `unexpected '${line[position]}'`) => ({
    problem: `logfmt syntax error at pos ${position + 1} : ${reason}`,
    end: indexFrom(CONTROL_OR_BLANK, line, position),
  });
  const keyEnd = indexFrom(KEY_END, line, at);
  const key = line.slice(at, keyEnd);
  if (line[keyEnd] === '"' || (line[keyEnd] === "=" && key === "")) return malformed(keyEnd);
  if (line[keyEnd] !== "=") return { key, value: "", end: keyEnd };
  if (line[keyEnd + 1] === '"') {
    const close = quoteEnd(line, keyEnd + 1);
    if (close === undefined) return malformed(line.length, "unterminated quoted value");
    return { key, value: unescaped(line.slice(keyEnd + 2, close)), end: close + 1 };
  }
  const end = indexFrom(KEY_END, line, keyEnd + 1);
  return line[end] === "=" || line[end] === '"' ? malformed(end) : { key, value: line.slice(keyEnd + 1, end), end };
}

function skipBlanks(line: string, from: number): number {
  let at = from;
  while (at < line.length && (line[at] as string) <= " ") at += 1;
  return at;
}

function indexFrom(expression: RegExp, line: string, at: number): number {
  expression.lastIndex = at;
  return expression.exec(line)?.index ?? line.length;
}

function quoteEnd(line: string, open: number): number | undefined {
  for (let at = open + 1; at < line.length; at += 1) {
    if (line[at] === "\\") at += 1;
    else if (line[at] === '"') return at;
  }
  return undefined;
}

export type PatternPart = { readonly text: string } | { readonly capture: string };

const CAPTURE = /<([a-zA-Z_]\w*)>/g;

function partsOf(pattern: string): PatternPart[] {
  const parts: PatternPart[] = [];
  let at = 0;
  for (const match of pattern.matchAll(CAPTURE)) {
    if (match.index > at) parts.push({ text: pattern.slice(at, match.index) });
    parts.push({ capture: match[1] as string });
    at = match.index + match[0].length;
  }
  if (at < pattern.length) parts.push({ text: pattern.slice(at) });
  const adjacent = parts.some((part, index) => "capture" in part && "capture" in (parts[index + 1] ?? { text: "" }));
  if (adjacent)
    throw wrongQuery(`pattern ${JSON.stringify(pattern)}: invalid expression: found consecutive capture; write a text between them`);
  return parts;
}

/** Parses the pattern of the stage `pattern`. Throws ApiError invalid_parameter. */
export function parsePattern(pattern: string): PatternPart[] {
  const parts = partsOf(pattern);
  const names = parts.flatMap((part) => ("capture" in part && part.capture !== "_" ? [part.capture] : []));
  const twice = names.find((name, index) => names.indexOf(name) !== index);
  if (names.length === 0) throw wrongQuery(`pattern ${JSON.stringify(pattern)}: at least one capture is required`);
  if (twice !== undefined) throw wrongQuery(`pattern ${JSON.stringify(pattern)}: duplicate capture name ${twice}`);
  return parts;
}

/** Parses the pattern of a line filter. Throws ApiError invalid_parameter. */
export function linePattern(pattern: string): PatternPart[] {
  const parts = partsOf(pattern);
  if (parts.some((part) => "capture" in part && part.capture !== "_"))
    throw wrongQuery(`pattern ${JSON.stringify(pattern)}: named captures are not allowed in a line filter: write <_>`);
  return parts;
}

export function capturesOf(parts: readonly PatternPart[], line: string): [name: string, value: string][] {
  const found: [string, string][] = [];
  const [first] = parts;
  if (line === "" || !first) return found;
  const prefix = "text" in first ? first.text : "";
  if (!line.startsWith(prefix)) return found;
  let at = prefix.length;
  for (let index = prefix === "" ? 0 : 1; index < parts.length; index += 2) {
    const { capture } = parts[index] as { capture: string };
    const next = parts[index + 1] as { text: string } | undefined;
    const end = next ? findText(line, next.text, at) : -1;
    if (capture !== "_") found.push([capture, end === -1 ? line.slice(at) : line.slice(at, end)]);
    if (!next || end === -1) return found;
    at = end + next.text.length;
  }
  return found;
}

/** Whether a line matches the pattern of a line filter, in which no capture may be empty. */
export function isLike(parts: readonly PatternPart[], line: string): boolean {
  if (line === "" || parts.length === 0) return line === "" && parts.length === 0;
  let at = 0;
  for (const [index, part] of parts.entries()) {
    if (!("text" in part)) continue;
    const found = findText(line, part.text, at);
    if (found === -1 || (index !== 0 && found === at)) return false;
    at = found + part.text.length;
  }
  const endsOpen = "capture" in (parts.at(-1) as PatternPart);
  return endsOpen === (at !== line.length);
}

/** The capture group names of the regexp stage, by group number. Throws ApiError invalid_parameter. */
export function captureNames(pattern: Pattern, text: string): [index: number, name: string][] {
  const names = Object.entries(pattern.names).map(([name, index]): [number, string] => [index, name]);
  if (names.length === 0)
    throw wrongQuery(`regexp ${JSON.stringify(text)}: at least one named capture must be supplied, such as (?P<status>\\d+)`);
  return names.sort(([a], [b]) => a - b);
}

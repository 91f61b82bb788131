// Implements the stages that parse labels from a line: json, logfmt, regexp, pattern, unpack. Invariant: a line that cannot be parsed
// passes, with the labels that could be read and an error, as in Loki.
import { MAX_JSON_DEPTH } from "../limits.ts";
import { type Entry, labelName } from "./entry.ts";
import { wrongQuery } from "./grammar.ts";
import { eachMember, type JsonValue, MalformedJson, parsePath, unescaped, valueOf } from "./json.ts";
import { charge, compiled, findText, type Pattern } from "./regex.ts";
import type { Stage } from "./syntax.ts";

export type Step = (entry: Entry) => boolean;
type StageOf<K extends Stage["kind"]> = Extract<Stage, { kind: K }>;

const JSON_ERROR = "JSONParserErr";

type Settled = (entry: Entry) => boolean;

function readJson(isSettled: Settled): Step {
  return (entry) => isSettled(entry) || orError(entry, () => void addMembers(entry, { text: entry.line, prefix: "", depth: 0 }, isSettled));
}

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
function addMembers(entry: Entry, { text, prefix, depth }: { text: string; prefix: string; depth: number }, isSettled: Settled): boolean {
  if (depth > MAX_JSON_DEPTH) throw new MalformedJson("maximum depth of JSON reached");
  // Each level is read again to find its end.
  charge(text.length);
  let ends = false;
  eachMember(text, (key, value) => {
    charge(prefix.length + key.length);
    const name = joinedName(prefix, key);
    if (value.type === "object") ends = addMembers(entry, { text: value.raw, prefix: name, depth: depth + 1 }, isSettled);
    else if (value.type !== "null" && value.type !== "array" && name !== "") {
      entry.extract(name, textOf(value));
      ends = isSettled(entry);
    }
    return ends;
  });
  return ends;
}

function joinedName(prefix: string, key: string): string {
  const trimmed = key.trim();
  if (trimmed === "") return prefix;
  const name = prefix === "" ? labelName(trimmed) : trimmed.replaceAll(/[^a-zA-Z0-9_]/gu, "_");
  return prefix === "" ? name : `${prefix}_${name}`;
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

function readLogfmt({ isStrict, keepsEmpty, keys }: StageOf<"logfmt">, isSettled: Settled): Step {
  return (entry) => {
    if (isSettled(entry)) return true;
    for (const [name] of keys ?? []) if (entry.nameFor(name) === name) entry.set(name, "");
    const problem = eachPair(entry.line, isStrict, (key, value) => {
      charge(key.length + value.length + (keys?.length ?? 0));
      const name = key.trim() === "" ? "" : labelName(key.trim());
      if (name === "") return undefined;
      const text = value.replaceAll("\ufffd", " ");
      if (!keys) {
        if (value !== "" || keepsEmpty) entry.extract(name, text);
        return isSettled(entry);
      }
      // As in Loki, a name that an earlier stage has read is not read again under another name.
      if (entry.isSettled(name) && !keys.some(([own]) => own === name)) return undefined;
      const wanted = keys.find(([, from]) => from === name)?.[0] ?? (keys.some(([own]) => own === name) ? name : undefined);
      if (wanted !== undefined) entry.set(entry.nameFor(wanted), text);
      return undefined;
    });
    if (isStrict && problem !== undefined) entry.fail("LogfmtParserErr", problem);
    return true;
  };
}

function readRegexp(text: string): Step {
  const pattern = compiled(text);
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
function settledBy(required: readonly string[]): Settled {
  return (entry) => {
    charge(required.length);
    return required.every((name) => entry.isSettled(name));
  };
}

/** Undefined if the stage reads no labels from the line. */
export function parserStep(stage: Stage, required: ReadonlySet<string> | undefined): Step | undefined {
  const isSettled = required?.size ? settledBy([...required]) : () => false;
  switch (stage.kind) {
    case "json":
      return stage.paths ? jsonPaths(stage.paths) : readJson(isSettled);
    case "logfmt":
      return readLogfmt(stage, isSettled);
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

const BLANK_OR_MORE = /[\u0000- ]/g;
const KEY_END = /[="\u0000- ]/g;

/**
 * Calls `visit` for each pair in order; `visit` returns true to stop. `stops`: stop at the first text that is not a pair. Returns the last
 * error; undefined if there was none.
 */
export function eachPair(line: string, stops: boolean, visit: (key: string, value: string) => boolean | undefined): string | undefined {
  let [at, problem]: [number, string | undefined] = [0, undefined];
  const wrong = (where: number, what: string): void => {
    problem = `logfmt syntax error at pos ${where + 1} : ${what}`;
    at = next(BLANK_OR_MORE, line, where);
  };
  while (at < line.length) {
    while (at < line.length && (line[at] as string) <= " ") at += 1;
    if (at >= line.length) break;
    const end = next(KEY_END, line, at);
    const key = line.slice(at, end);
    let value = "";
    if (line[end] === '"' || (line[end] === "=" && key === "")) wrong(end, `unexpected '${line[end]}'`);
    else if (line[end] === "=" && line[end + 1] === '"') {
      const close = quoteEnd(line, end + 1);
      if (close === undefined) {
        problem = `logfmt syntax error at pos ${line.length + 1} : unterminated quoted value`;
        at = line.length;
        if (stops) break;
        continue;
      }
      value = unescaped(line.slice(end + 2, close));
      at = close + 1;
      if (visit(key, value)) return problem;
      continue;
    } else if (line[end] === "=") {
      const stop = next(KEY_END, line, end + 1);
      if (line[stop] === "=" || line[stop] === '"') wrong(stop, `unexpected '${line[stop]}'`);
      else {
        at = stop;
        if (visit(key, line.slice(end + 1, stop))) return problem;
        continue;
      }
    } else {
      at = end;
      if (visit(key, "")) return problem;
      continue;
    }
    if (stops) break;
  }
  return problem;
}

function next(expression: RegExp, line: string, at: number): number {
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

/** The captured values of a line by name. */
export function capturesOf(parts: readonly PatternPart[], line: string): [name: string, value: string][] {
  const found: [string, string][] = [];
  const [first] = parts;
  if (line === "" || !first) return found;
  const begins = "text" in first ? first.text : "";
  if (!line.startsWith(begins)) return found;
  let at = begins.length;
  for (let index = begins === "" ? 0 : 1; index < parts.length; index += 2) {
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
  return names.sort(([one], [other]) => one - other);
}

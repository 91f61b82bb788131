// The stages that read labels of a line: json, logfmt, regexp, pattern, unpack. Invariant: a line that cannot be read passes, with what
// could be read of it and an error.
import type { Entry } from "./entry.ts";
import { capturesOf, captureNames, parsePattern } from "./line-pattern.ts";
import { parsePath } from "./json-path.ts";
import { eachMember, type JsonValue, MalformedJson, unescaped, valueOf } from "./json-walk.ts";
import { labelName } from "./label-names.ts";
import { eachPair } from "./logfmt.ts";
import { charge } from "./record-work.ts";
import { compiled } from "./regex.ts";
import type { Stage } from "./syntax.ts";

export type Step = (entry: Entry) => boolean;
type StageOf<K extends Stage["kind"]> = Extract<Stage, { kind: K }>;

/** Of JSON within JSON. */
const MOST_DEPTH = 100;
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

/** Answers true once nothing more is asked for. */
function addMembers(entry: Entry, { text, prefix, depth }: { text: string; prefix: string; depth: number }, isSettled: Settled): boolean {
  if (depth > MOST_DEPTH) throw new MalformedJson("maximum depth of JSON reached");
  // Each level is walked again, to find its end.
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
      // As Loki has it: what an earlier stage has read under this name is not read again under another.
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

/** What was packed: texts become labels, _entry the line. */
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

/** Loki reads no further than to the last label that is asked for, so what is broken behind it is no error. */
function settledBy(required: readonly string[]): Settled {
  return (entry) => {
    charge(required.length);
    return required.every((name) => entry.isSettled(name));
  };
}

/** Undefined: the stage reads no labels of the line. */
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

// Translates labels that the json and logfmt stages read from a line to SQL. Invariant: for every line, either the expressions return what
// parsers.ts returns, or `ambiguous` is true and JavaScript evaluates the query.
import { commaList, type Sql, sql } from "../../engines/clickhouse/sql.ts";
import { MAX_JSON_DEPTH, MAX_SQL_LINE_BYTES } from "../query-limits.ts";
import { withoutExtracted } from "./entry.ts";
import { parsePath } from "./json.ts";
import type { Stage } from "./syntax.ts";

export interface LineLabel {
  /** The line has the label, possibly with an empty value. */
  readonly has: Sql;
  /** Empty if there is none. */
  readonly value: Sql;
  readonly ambiguous: Sql;
  /** True if the value is a number that may be written differently from the line, such as 1.5 for 1.50. */
  readonly isRewritten: Sql | undefined;
}

export interface LineParser {
  /** True for lines for which the stage sets the label `__error__`. */
  readonly error: Sql | undefined;
  /** True for lines that JavaScript has to read, whichever label is needed. */
  readonly ambiguous: Sql | undefined;
  /** Undefined if a label with this name cannot be translated to SQL. */
  readonly label: (name: string) => LineLabel | undefined;
}

/**
 * SQL treats a longer line as empty, and JavaScript evaluates the query: an expression that is costly per byte must not process a whole
 * granule of such lines. Because an empty line is not valid JSON, "NOT isValidJSON" below makes longer lines ambiguous.
 */
const LINE = sql`if(length(message) <= ${MAX_SQL_LINE_BYTES}, message, '')`;
const IS_LONG = sql`length(message) > ${MAX_SQL_LINE_BYTES}`;
const MAX_UNDERSCORES = 8;

/** Undefined if the stage cannot be translated to SQL. */
export function lineParser(stage: Stage): LineParser | undefined {
  if (stage.kind === "json") return stage.paths ? pathsParser(stage.paths) : jsonParser();
  const isPlain = stage.kind === "logfmt" && !stage.isStrict && !stage.keepsEmpty && stage.keys === undefined;
  return isPlain ? { error: undefined, ambiguous: undefined, label: logfmtLabel } : undefined;
}

/** Excludes names that could be renamed to x_extracted, and names such as _1, which come from keys that begin with a digit. */
function isPlainName(name: string): boolean {
  return withoutExtracted(name) === undefined && !/^_\d/.test(name) && name.split("_").length <= MAX_UNDERSCORES + 1;
}

/** Characters that String.trim removes and that keys in JSON or logfmt may contain. */
const SPACE = String.raw`[\s\p{Z}\x{FEFF}]`;

const IS_OBJECT = sql`match(message, ${String.raw`^[ \n\r\t]*[{]`})`;
/** A key with an escape, or an empty key: JSONExtract and Loki's parser may find different members. */
const AMBIGUOUS_KEY = String.raw`"[^"\\]*\\.(?:[^"\\]|\\.)*"\s*:|"${SPACE}*"\s*:`;

function jsonParser(): LineParser {
  const isDeep = sql`countSubstrings(${LINE}, '{') > ${MAX_JSON_DEPTH}`;
  return {
    error: sql`NOT ${IS_OBJECT}`,
    ambiguous: sql`(${IS_OBJECT} AND (NOT isValidJSON(${LINE}) OR ${isDeep} OR match(${LINE}, ${AMBIGUOUS_KEY})))`,
    label: jsonLabel,
  };
}

function jsonLabel(name: string): LineLabel | undefined {
  if (!isPlainName(name)) return undefined;
  const raw = sql`JSONExtractRaw(${LINE}, ${name})`;
  // If two members have the same name, the first text, number or boolean is used.
  const mayRepeat = sql`(${raw} != '' AND NOT ${isScalar(raw)} AND countSubstrings(${LINE}, ${`"${name}"`}) > 1)`;
  return { ...scalarOf(raw), has: isScalar(raw), ambiguous: sql`(match(${LINE}, ${otherKeys(name)}) OR ${mayRepeat})` };
}

/** Matches other keys that become this label: keys with other characters in place of underscores, keys with spaces, and keys of objects. */
function otherKeys(name: string): string {
  const replaced = String.raw`[^a-zA-Z0-9"\\]`;
  const keyOf = (text: string): string => text.replaceAll("_", replaced);
  const parts = name.split("_");
  const spaced = String.raw`"(?:${SPACE}+${keyOf(name)}${SPACE}*|${keyOf(name)}${SPACE}+)"\s*:`;
  const cuts = parts.slice(1).map((_, index) => [parts.slice(0, index + 1).join("_"), parts.slice(index + 1).join("_")] as const);
  const separated = cuts.map(([before, after]) => String.raw`"${SPACE}*${keyOf(before)}[^a-zA-Z0-9_"\\]${keyOf(after)}${SPACE}*"\s*:`);
  const nested = cuts.flatMap(([before]) => (before === "" ? [] : [String.raw`"${SPACE}*${keyOf(before)}${SPACE}*"\s*:\s*\{`]));
  return [spaced, ...separated, ...nested].join("|");
}

function pathsParser(paths: NonNullable<Extract<Stage, { kind: "json" }>["paths"]>): LineParser | undefined {
  const pathsByName = new Map(paths.map(([name, path]) => [name, parsePath(path)]));
  const isPlain = [...pathsByName].every(
    ([name, path]) => name !== "level" && isPlainName(name) && path.every((step) => typeof step === "string"),
  );
  if (!isPlain || pathsByName.size < paths.length) return undefined;
  const isJson = sql`match(message, '^["{[]')`;
  return {
    error: sql`(message != '' AND NOT ${isJson})`,
    ambiguous: sql`(${isJson} AND NOT isValidJSON(${LINE}))`,
    label: (name) => {
      const path = pathsByName.get(name);
      if (!path) return isPlainName(name) ? NO_LABEL : undefined;
      const raw = sql`JSONExtractRaw(${LINE}, ${commaList(path)})`;
      // parsers.ts copies an object or an array as it is written in the line; JSONExtractRaw may format it differently.
      return { ...scalarOf(raw), has: isJson, ambiguous: sql`match(${raw}, '^[[{]')` };
    },
  };
}

const NO_LABEL: LineLabel = { has: sql`0`, value: sql`''`, ambiguous: sql`0`, isRewritten: undefined };

function isScalar(raw: Sql): Sql {
  return sql`match(${raw}, '^["0-9tf-]')`;
}

/** `raw`: the result of JSONExtractRaw. */
function scalarOf(raw: Sql): Pick<LineLabel, "value" | "isRewritten"> {
  const text = sql`replaceAll(JSONExtractString(${raw}), ${"\ufffd"}, ' ')`;
  return {
    value: sql`multiIf(startsWith(${raw}, '"'), ${text}, ${isScalar(raw)}, ${raw}, '')`,
    isRewritten: sql`(match(${raw}, '^-?[0-9]') AND (NOT match(${raw}, '^-?[0-9]+$') OR (${raw} IN ['0', '-0'] AND position(${LINE}, '-0') > 0)))`,
  };
}

// The tokens of logfmt, as `eachPair` (parsers.ts) splits a line. Each character belongs to exactly one token.
const BLANK = String.raw`[\x00-\x20]`;
const BARE = String.raw`[^="\x00-\x20]`;
const END = String.raw`(?:[\x00-\x20]|\z)`;
const TO_BLANK = String.raw`[^\x00-\x20]*${END}`;
const QUOTED = String.raw`"(?:[^"\\]|\\.)*"`;
const TOKENS = [
  BLANK,
  `${BARE}+${END}`,
  `${BARE}+=${QUOTED}`,
  `${BARE}+=${BARE}*${END}`,
  // Text that is not a pair, up to the next blank.
  `${BARE}*"${TO_BLANK}`,
  `=${TO_BLANK}`,
  `${BARE}+=(?:${BARE}+["=]|=)${TO_BLANK}`,
];

/** The first pair of this name with a value. */
function logfmtLabel(name: string): LineLabel | undefined {
  if (!isPlainName(name)) return undefined;
  const key = `${SPACE}*${name.replaceAll("_", String.raw`[^a-zA-Z0-9="\x00-\x20]`)}${SPACE}*`;
  const pattern = String.raw`(?s)\A(?:${TOKENS.join("|")})*?${key}=(?:"((?:[^"\\]|\\.)+)"|(${BARE}+)${END})`;
  const groups = sql`extractGroups(${LINE}, ${pattern})`;
  const value = sql`replaceAll(concat(${groups}[1], ${groups}[2]), ${"\ufffd"}, ' ')`;
  return { has: sql`${value} != ''`, value, ambiguous: sql`(${IS_LONG} OR position(${groups}[1], '\\\\') > 0)`, isRewritten: undefined };
}

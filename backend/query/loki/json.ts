// Reads a line of JSON as far as possible, because logs contain truncated objects, and parses the paths of the json stage. Invariant: numbers
// keep their text, a key that occurs twice is visited twice, and whatever follows the object is ignored, as in Loki's parser.
import { wrongQuery } from "./grammar.ts";
import { charge } from "./regex.ts";

export type JsonPath = readonly (string | number)[];

const STEP = /^(?:\.?([a-zA-Z_]\w*)|\[\s*(?:(\d{1,9})|"((?:[^"\\]|\\.)*)")\s*\])/;

/** Throws ApiError invalid_parameter. */
export function parsePath(path: string): JsonPath {
  const steps: (string | number)[] = [];
  let rest = path;
  while (rest !== "") {
    const [step, name, index, key] = STEP.exec(rest) ?? [];
    // The first name has no dot in front of it, and every later one has.
    const isMisplacedName = name !== undefined && (steps.length === 0) === step?.startsWith(".");
    if (step === undefined || isMisplacedName) break;
    steps.push(name ?? (index === undefined ? (key as string).replaceAll(/\\(.)/g, "$1") : Number(index)));
    rest = rest.slice(step.length);
  }
  if (rest !== "" || steps.length === 0) throw wrongQuery(`json: cannot parse expression [${path.slice(0, 200)}]`);
  return steps;
}

export type JsonType = "string" | "number" | "boolean" | "null" | "object" | "array";

export interface JsonValue {
  readonly type: JsonType;
  /** The content of a string between its quotes, with escapes. */
  readonly raw: string;
}

export class MalformedJson extends Error {}

/** Calls `visit` for each member in order; `visit` returns true to stop. Throws MalformedJson after the members that could be read. */
export function eachMember(text: string, visit: (key: string, value: JsonValue) => boolean | undefined): void {
  let at = skipBlank(text, 0);
  if (text[at] !== "{") throw new MalformedJson("Value looks like object, but can't find closing '}' symbol");
  at = skipBlank(text, at + 1);
  while (text[at] !== "}") {
    if (text[at] !== '"') throw new MalformedJson("Value looks like object, but can't find closing '}' symbol");
    const keyEnd = stringEnd(text, at);
    const key = unescaped(text.slice(at + 1, keyEnd));
    at = skipBlank(text, keyEnd + 1);
    if (text[at] !== ":") throw new MalformedJson("Malformed JSON error");
    at = skipBlank(text, at + 1);
    const { value, end } = valueAt(text, at);
    if (visit(key, value)) return;
    at = skipBlank(text, end);
    if (text[at] === ",") at = skipBlank(text, at + 1);
    else if (text[at] !== "}") throw new MalformedJson("Value looks like object, but can't find closing '}' symbol");
  }
}

/** The value at a path; undefined if there is none. Throws ApiError query_too_expensive, see `charge`. */
export function valueOf(text: string, path: readonly (string | number)[]): JsonValue | undefined {
  charge(text.length);
  let value: JsonValue | undefined = valueAt(text, skipBlank(text, 0)).value;
  for (const step of path) {
    charge(value.raw.length);
    value = typeof step === "number" ? (value.type === "array" ? elementOf(value.raw, step) : undefined) : memberOf(value, step);
    if (!value) return undefined;
  }
  return value;
}

function memberOf({ type, raw }: JsonValue, name: string): JsonValue | undefined {
  let found: JsonValue | undefined;
  if (type === "object")
    eachMember(raw, (key, value) => {
      if (key === name) found = value;
      return found !== undefined;
    });
  return found;
}

function elementOf(text: string, index: number): JsonValue | undefined {
  let at = skipBlank(text, 1);
  for (let n = 0; text[at] !== "]"; n += 1) {
    const { value, end } = valueAt(text, at);
    if (n === index) return value;
    at = skipBlank(text, end);
    if (text[at] === ",") at = skipBlank(text, at + 1);
    else if (text[at] !== "]") throw new MalformedJson("Value is array, but can't find closing ']' symbol");
  }
  return undefined;
}

/** The text of a string; empty if it has an invalid escape. */
export function unescaped(raw: string): string {
  if (!raw.includes("\\")) return raw;
  try {
    // JSON does not allow line breaks in strings, but Loki accepts them.
    return JSON.parse(`"${raw.replaceAll(/[\u0000-\u001f]/g, (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`)}"`) as string;
  } catch {
    return "";
  }
}

function valueAt(text: string, at: number): { value: JsonValue; end: number } {
  const first = text[at];
  if (first === '"') {
    const end = stringEnd(text, at);
    return { value: { type: "string", raw: text.slice(at + 1, end) }, end: end + 1 };
  }
  if (first === "{" || first === "[") {
    const end = blockEnd(text, at, first, first === "{" ? "}" : "]");
    return { value: { type: first === "{" ? "object" : "array", raw: text.slice(at, end) }, end };
  }
  TOKEN_END.lastIndex = at;
  const end = TOKEN_END.exec(text)?.index ?? text.length;
  const raw = text.slice(at, end);
  const type = raw === "true" || raw === "false" ? "boolean" : raw === "null" ? "null" : /^[-\d]/.test(raw) ? "number" : undefined;
  if (!type) throw new MalformedJson("Unknown value type");
  return { value: { type, raw }, end };
}

const TOKEN_END = /[ \n\r\t,}\]]/g;
const BLANK = /[ \n\r\t]*/y;
const QUOTE_OR_ESCAPE = /["\\]/g;

function skipBlank(text: string, at: number): number {
  BLANK.lastIndex = at;
  BLANK.exec(text);
  return BLANK.lastIndex;
}

/** The position of the closing quote. */
function stringEnd(text: string, open: number): number {
  QUOTE_OR_ESCAPE.lastIndex = open + 1;
  for (let found = QUOTE_OR_ESCAPE.exec(text); found; found = QUOTE_OR_ESCAPE.exec(text)) {
    if (found[0] === '"') return found.index;
    QUOTE_OR_ESCAPE.lastIndex = found.index + 2;
  }
  throw new MalformedJson("Value is string, but can't find closing '\"' symbol");
}

/** The position after the closing bracket. */
function blockEnd(text: string, at: number, open: string, close: string): number {
  let depth = 0;
  for (let index = at; index < text.length; index += 1) {
    const character = text[index];
    if (character === '"') index = stringEnd(text, index);
    else if (character === open) depth += 1;
    else if (character === close && --depth === 0) return index + 1;
  }
  throw new MalformedJson(`Value looks like ${open === "{" ? "object" : "array"}, but can't find closing '${close}' symbol`);
}

// Implements the functions of templates. Invariant: a listed function returns what Go's does, or the line gets an error; characters are
// charged before they are created (regex.ts).
import { Buffer } from "node:buffer";
import { MAX_TEMPLATE_CHARACTERS } from "../limits.ts";
import { convert } from "./grammar.ts";
import { charge, compiled, countText, findText } from "./regex.ts";
import {
  formatted,
  GoTime,
  integerOf,
  isTrue,
  printed,
  printedTime,
  TemplateError,
  textOf,
  toFloat,
  toInteger,
  type Value,
  wrapped,
} from "./template-values.ts";

type Call = (...values: Value[]) => Value;

const ofTexts =
  (name: string, work: (...texts: string[]) => Value): Call =>
  (...values) => {
    if (values.length !== work.length)
      throw new TemplateError(`wrong number of args for ${name}: want ${work.length} got ${values.length}`);
    return work(...values.map((value) => textOf(value, name)));
  };

/** Call before creating a text of this many characters. */
function checkMade(characters: number): void {
  if (characters > MAX_TEMPLATE_CHARACTERS) throw new TemplateError(`more than ${MAX_TEMPLATE_CHARACTERS} characters`);
  charge(characters);
}

const runes = (text: string): string[] => Array.from(text);

/** Removes leading characters that belong to the set. */
function trimLeft(text: string, characters: string): string {
  const set = new Set(characters);
  let start = 0;
  for (const rune of text) {
    if (!set.has(rune)) break;
    start += rune.length;
  }
  return text.slice(start);
}

/** Removes trailing characters that belong to the set. */
function trimRight(text: string, characters: string): string {
  const set = new Set(characters);
  const all = runes(text);
  let [end, kept] = [text.length, all.length];
  while (kept > 0 && set.has(all[kept - 1] as string)) end -= (all[--kept] as string).length;
  return text.slice(0, end);
}

const trimmed = (text: string, set: string): string => trimRight(trimLeft(text, set), set);
const withoutPrefix = (text: string, prefix: string): string => (text.startsWith(prefix) ? text.slice(prefix.length) : text);
const withoutSuffix = (text: string, suffix: string): string =>
  suffix !== "" && text.endsWith(suffix) ? text.slice(0, -suffix.length) : text;
const title = (text: string): string =>
  text.replaceAll(/(^|[^\p{L}\p{N}_])(\p{L})/gu, (_, before: string, letter: string) => before + letter.toUpperCase());
const spaces = (count: number): string => {
  if (!(count >= 0)) throw new TemplateError("strings: negative Repeat count");
  checkMade(count);
  return " ".repeat(count);
};

/** Counts bytes, as sprig does. */
function truncateText(count: number, text: string): string {
  const bytes = Buffer.from(text);
  if (count < 0 && bytes.length + count > 0) return bytes.subarray(bytes.length + count).toString();
  return count >= 0 && bytes.length > count ? bytes.subarray(0, count).toString() : text;
}

function substring(start: number, end: number, text: string): string {
  const bytes = Buffer.from(text);
  if (start > bytes.length || (end > bytes.length && start >= 0 && start > bytes.length))
    throw new TemplateError("slice bounds out of range");
  if (start < 0) return bytes.subarray(0, Math.max(0, Math.min(end, bytes.length))).toString();
  return bytes.subarray(start, end < 0 || end > bytes.length ? bytes.length : end).toString();
}

function alignText(count: number, text: string, isRight: boolean): string {
  const all = runes(text);
  if (count < 0 || count === all.length) return text;
  if (count > all.length) return isRight ? spaces(count - all.length) + text : text + spaces(count - all.length);
  return isRight ? all.slice(all.length - count).join("") : all.slice(0, count).join("");
}

/** Throws TemplateError if there are none. */
function someOf(values: readonly Value[]): readonly Value[] {
  if (values.length === 0) throw new TemplateError("wrong number of args: want at least 1 got 0");
  return values;
}
const whole =
  (work: (one: bigint, other: bigint) => bigint): Call =>
  (...values) =>
    someOf(values)
      .map(toInteger)
      .reduce((a, b) => wrapped(work(a, b)));
const float =
  (work: (one: number, other: number) => number): Call =>
  (...values) =>
    someOf(values).map(toFloat).reduce(work);
const divided = (one: bigint, other: bigint): bigint => {
  if (other === 0n) throw new TemplateError("runtime error: integer divide by zero");
  return one / other;
};

function roundValue(value: Value, digits: Value, over: Value = 0.5): number {
  const [pow, limit] = [10 ** Number(toInteger(digits)), toFloat(over)];
  const digit = pow * toFloat(value);
  const rest = digit - Math.trunc(digit);
  return (rest >= limit ? Math.ceil(digit) : Math.floor(digit)) / pow;
}

/** Expands a replacement in Go's syntax: $1, ${name}. */
function expandMatches(regex: string, text: string, replacement: string): string {
  const pattern = compiled(regex);
  const parts: string[] = [];
  let [at, characters] = [0, text.length];
  for (const matcher of pattern.all(text)) {
    const replaced = expandedGroups(replacement, (name) => groupOf(matcher, name));
    characters += replaced.length;
    if (characters > MAX_TEMPLATE_CHARACTERS) throw new TemplateError(`more than ${MAX_TEMPLATE_CHARACTERS} characters`);
    parts.push(text.slice(at, matcher.start()), replaced);
    at = matcher.end();
  }
  return parts.join("") + text.slice(at);
}

/** Throws ApiError query_too_expensive before the texts of the groups are concatenated. */
export function expandedGroups(replacement: string, group: (name: string) => string): string {
  charge(replacement.length);
  return replacement.replaceAll(/\$(?:(\$)|\{(\w+)\}|(\w+))/g, (_, dollar?: string, braced?: string, bare?: string) => {
    if (dollar) return "$";
    const text = group((braced ?? bare) as string);
    charge(text.length);
    return text;
  });
}

export function groupOf(matcher: { group(name: string | number): string | null; groupCount(): number }, name: string): string {
  try {
    if (/^\d+$/.test(name)) return Number(name) <= matcher.groupCount() ? (matcher.group(Number(name)) ?? "") : "";
    return matcher.group(name) ?? "";
  } catch {
    // There is no group with this name.
    return "";
  }
}

function countMatches(regex: string, text: string): bigint {
  let count = 0n;
  for (const _ of compiled(regex).all(text)) count += 1n;
  return count;
}

function convertText(text: string, conversion: "bytes" | "duration"): number {
  const value = convert(text, conversion);
  if (value === undefined) throw new TemplateError(`${conversion}: cannot read "${text}"`);
  return value;
}

function decodedUrl(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch (cause) {
    throw new TemplateError("invalid URL escape", { cause });
  }
}

const encodedUrl = (text: string): string =>
  encodeURIComponent(text.toWellFormed())
    .replaceAll("%20", "+")
    .replaceAll(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);

function timeOf(value: Value | undefined, name: string): GoTime {
  if (value instanceof GoTime) return value;
  throw new TemplateError(`wrong type for value of ${name}; expected time.Time`);
}

/** The number of digits of a Unix time implies its unit, as in Loki. */
function unixToTime(text: string): GoTime {
  const unit = ({ 5: 86_400_000_000_000n, 10: 1_000_000_000n, 13: 1_000_000n, 16: 1000n, 19: 1n } as Record<number, bigint>)[text.length];
  if (unit === undefined || !/^-?\d+$/.test(text)) throw new TemplateError(`unable to parse time '${text}'`);
  return new GoTime(BigInt(text) * unit);
}

function compareValues(one: Value, other: Value): number {
  const isSame = typeof one === typeof other && !(one instanceof GoTime);
  if (!isSame) throw new TemplateError("incompatible types for comparison");
  return one < other ? -1 : one > other ? 1 : 0;
}

const equals = (one: Value, ...others: Value[]): boolean => someOf(others).some((other) => compareValues(one, other) === 0);

/** Replaces the first `most` occurrences; a negative number: all of them. */
function replacedText(text: string, old: string, replacement: string, most = -1): string {
  const found = countText(text, old);
  const count = most < 0 ? found : Math.min(most, found);
  checkMade(text.length + count * (replacement.length - old.length));
  if (count === found) return text.replaceAll(old, () => replacement);
  const parts = text.split(old, count + 1);
  const rest = text.slice(parts.slice(0, count).reduce((sum, part) => sum + part.length + old.length, 0));
  return [...parts.slice(0, count), rest].join(replacement);
}

export const FUNCTIONS: Readonly<Record<string, Call>> = {
  ToLower: ofTexts("ToLower", (text) => text.toLowerCase()),
  ToUpper: ofTexts("ToUpper", (text) => text.toUpperCase()),
  lower: ofTexts("lower", (text) => text.toLowerCase()),
  upper: ofTexts("upper", (text) => text.toUpperCase()),
  title: ofTexts("title", title),
  Trim: ofTexts("Trim", trimmed),
  TrimLeft: ofTexts("TrimLeft", trimLeft),
  TrimRight: ofTexts("TrimRight", trimRight),
  TrimPrefix: ofTexts("TrimPrefix", withoutPrefix),
  TrimSuffix: ofTexts("TrimSuffix", withoutSuffix),
  TrimSpace: ofTexts("TrimSpace", (text) => text.trim()),
  trim: ofTexts("trim", (text) => text.trim()),
  trimAll: ofTexts("trimAll", (set, text) => trimmed(text, set)),
  trimPrefix: ofTexts("trimPrefix", (prefix, text) => withoutPrefix(text, prefix)),
  trimSuffix: ofTexts("trimSuffix", (suffix, text) => withoutSuffix(text, suffix)),
  Replace: (text = "", old = "", replacement = "", count = -1n) =>
    replacedText(textOf(text, "Replace"), textOf(old, "Replace"), textOf(replacement, "Replace"), integerOf(count, "Replace")),
  replace: ofTexts("replace", (old, replacement, text) => replacedText(text, old, replacement)),
  contains: ofTexts("contains", (part, text) => findText(text, part) !== -1),
  hasPrefix: ofTexts("hasPrefix", (part, text) => text.startsWith(part)),
  hasSuffix: ofTexts("hasSuffix", (part, text) => text.endsWith(part)),
  regexReplaceAll: ofTexts("regexReplaceAll", expandMatches),
  regexReplaceAllLiteral: ofTexts("regexReplaceAllLiteral", (regex, text, replacement) =>
    expandMatches(regex, text, replacement.replaceAll("$", "$$$$")),
  ),
  count: ofTexts("count", countMatches),
  urlencode: ofTexts("urlencode", encodedUrl),
  urldecode: ofTexts("urldecode", decodedUrl),
  b64enc: ofTexts("b64enc", (text) => Buffer.from(text).toString("base64")),
  b64dec: ofTexts("b64dec", (text) => Buffer.from(text, "base64").toString()),
  bytes: ofTexts("bytes", (text) => convertText(text, "bytes")),
  duration: ofTexts("duration", (text) => convertText(text, "duration")),
  duration_seconds: ofTexts("duration_seconds", (text) => convertText(text, "duration")),
  trunc: (count = 0n, text = "") => truncateText(integerOf(count, "trunc"), textOf(text, "trunc")),
  substr: (start = 0n, end = 0n, text = "") => substring(integerOf(start, "substr"), integerOf(end, "substr"), textOf(text, "substr")),
  alignLeft: (count = 0n, text = "") => alignText(integerOf(count, "alignLeft"), textOf(text, "alignLeft"), false),
  alignRight: (count = 0n, text = "") => alignText(integerOf(count, "alignRight"), textOf(text, "alignRight"), true),
  indent: (count = 0n, text = "") => indentText(count, text, "indent"),
  nindent: (count = 0n, text = "") => `\n${indentText(count, text, "nindent")}`,
  repeat: (count = 0n, text = "") => {
    const [times, part] = [integerOf(count, "repeat"), textOf(text, "repeat")];
    if (times < 0) throw new TemplateError("strings: negative Repeat count");
    checkMade(times * part.length);
    return part.repeat(times);
  },
  int: (value = "") => toInteger(value),
  float64: (value = "") => toFloat(value),
  add: whole((a, b) => a + b),
  sub: whole((a, b) => a - b),
  mul: whole((a, b) => a * b),
  div: whole(divided),
  mod: whole((a, b) => a - divided(a, b) * b),
  max: whole((a, b) => (a > b ? a : b)),
  min: whole((a, b) => (a < b ? a : b)),
  addf: float((a, b) => a + b),
  subf: float((a, b) => a - b),
  mulf: float((a, b) => a * b),
  divf: float((a, b) => a / b),
  maxf: float((a, b) => Math.max(a, b)),
  minf: float((a, b) => Math.min(a, b)),
  ceil: (value = "") => Math.ceil(toFloat(value)),
  floor: (value = "") => Math.floor(toFloat(value)),
  round: (value = "", digits = 0n, over?: Value) => roundValue(value, digits, over),
  default: (other = "", value = "") => (isTrue(value) ? value : other),
  unixToTime: ofTexts("unixToTime", unixToTime),
  unixEpoch: (time) => String(timeOf(time, "unixEpoch").ns / 1_000_000_000n),
  unixEpochMillis: (time) => String(timeOf(time, "unixEpochMillis").ns / 1_000_000n),
  unixEpochNanos: (time) => String(timeOf(time, "unixEpochNanos").ns),
  date: (layout = "", time) => printedTime(textOf(layout, "date"), timeOf(time, "date").ns),
  eq: equals,
  ne: (one = "", other = "") => compareValues(one, other) !== 0,
  lt: (one = "", other = "") => compareValues(one, other) < 0,
  le: (one = "", other = "") => compareValues(one, other) <= 0,
  gt: (one = "", other = "") => compareValues(one, other) > 0,
  ge: (one = "", other = "") => compareValues(one, other) >= 0,
  not: (value = "") => !isTrue(value),
  len: (value = "") => BigInt(Buffer.byteLength(textOf(value, "len"))),
  print: (...values) =>
    values
      .map((value, index) =>
        index > 0 && typeof value !== "string" && typeof values[index - 1] !== "string" ? ` ${printed(value)}` : printed(value),
      )
      .join(""),
  println: (...values) => `${values.map(printed).join(" ")}\n`,
  printf: (format = "", ...values) => formatted(textOf(format, "printf"), values),
};

function indentText(count: Value, text: Value, name: string): string {
  const pad = spaces(integerOf(count, name));
  const source = textOf(text, name);
  checkMade(source.length + pad.length * (countText(source, "\n") + 1));
  return pad + source.replaceAll("\n", `\n${pad}`);
}

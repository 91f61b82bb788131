// Implements the functions of templates. Invariant: a listed function returns what Go's does, or the line gets an error; characters are
// charged before they are created (regex.ts).
import { Buffer } from "node:buffer";
import { MAX_TEMPLATE_CHARACTERS } from "../query-limits.ts";
import { convert } from "./grammar.ts";
import { charge, compilePattern, countText, findText } from "./regex.ts";
import {
  GoTime,
  integerOf,
  isTrue,
  sprintf,
  formatTime,
  formatValue,
  TemplateError,
  textOf,
  toFloat,
  toInteger,
  type Value,
  wrapInt64,
} from "./template-values.ts";

type Call = (...values: Value[]) => Value;

/** A function that accepts only texts. */
const ofTexts =
  (name: string, work: (...texts: string[]) => Value): Call =>
  (...values) => {
    if (values.length !== work.length)
      throw new TemplateError(`wrong number of args for ${name}: want ${work.length} got ${values.length}`);
    return work(...values.map((value) => textOf(value, name)));
  };

/** Call before creating a text of this many characters. */
function chargeResult(characters: number): void {
  if (characters > MAX_TEMPLATE_CHARACTERS) throw new TemplateError(`more than ${MAX_TEMPLATE_CHARACTERS} characters`);
  charge(characters);
}

const runes = (text: string): string[] => Array.from(text);

function trimLeft(text: string, characters: string): string {
  const set = new Set(characters);
  let start = 0;
  for (const rune of text) {
    if (!set.has(rune)) break;
    start += rune.length;
  }
  return text.slice(start);
}

function trimRight(text: string, characters: string): string {
  const set = new Set(characters);
  const all = runes(text);
  let [end, count] = [text.length, all.length];
  while (count > 0 && set.has(all[count - 1] as string)) end -= (all[--count] as string).length;
  return text.slice(0, end);
}

const trimBoth = (text: string, set: string): string => trimRight(trimLeft(text, set), set);
const withoutPrefix = (text: string, prefix: string): string => (text.startsWith(prefix) ? text.slice(prefix.length) : text);
const withoutSuffix = (text: string, suffix: string): string =>
  suffix !== "" && text.endsWith(suffix) ? text.slice(0, -suffix.length) : text;
const title = (text: string): string =>
  text.replaceAll(/(^|[^\p{L}\p{N}_])(\p{L})/gu, (_, before: string, letter: string) => before + letter.toUpperCase());
const spaces = (count: number): string => {
  if (!(count >= 0)) throw new TemplateError("strings: negative Repeat count");
  chargeResult(count);
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
function requireSome(values: readonly Value[]): readonly Value[] {
  if (values.length === 0) throw new TemplateError("wrong number of args: want at least 1 got 0");
  return values;
}

/** A function over the values as 64-bit integers. */
const integers =
  (work: (a: bigint, b: bigint) => bigint): Call =>
  (...values) =>
    requireSome(values)
      .map(toInteger)
      .reduce((a, b) => wrapInt64(work(a, b)));

const floats =
  (work: (a: number, b: number) => number): Call =>
  (...values) =>
    requireSome(values).map(toFloat).reduce(work);

const divide = (a: bigint, b: bigint): bigint => {
  if (b === 0n) throw new TemplateError("runtime error: integer divide by zero");
  return a / b;
};

function roundValue(value: Value, digits: Value, over: Value = 0.5): number {
  const [pow, limit] = [10 ** Number(toInteger(digits)), toFloat(over)];
  const digit = pow * toFloat(value);
  const rest = digit - Math.trunc(digit);
  return (rest >= limit ? Math.ceil(digit) : Math.floor(digit)) / pow;
}

/** Expands a replacement in Go's syntax: $1, ${name}. */
function expandMatches(regex: string, text: string, replacement: string): string {
  const pattern = compilePattern(regex);
  const parts: string[] = [];
  let [at, characters] = [0, text.length];
  for (const matcher of pattern.all(text)) {
    const replaced = expandGroups(replacement, (name) => groupOf(matcher, name));
    characters += replaced.length;
    if (characters > MAX_TEMPLATE_CHARACTERS) throw new TemplateError(`more than ${MAX_TEMPLATE_CHARACTERS} characters`);
    parts.push(text.slice(at, matcher.start()), replaced);
    at = matcher.end();
  }
  return parts.join("") + text.slice(at);
}

/** Throws ApiError query_too_expensive before the texts of the groups are concatenated. */
export function expandGroups(replacement: string, group: (name: string) => string): string {
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
  for (const _ of compilePattern(regex).all(text)) count += 1n;
  return count;
}

function convertText(text: string, conversion: "bytes" | "duration"): number {
  const value = convert(text, conversion);
  if (value === undefined) throw new TemplateError(`${conversion}: cannot read "${text}"`);
  return value;
}

function decodeUrl(text: string): string {
  try {
    return decodeURIComponent(text.replaceAll("+", " "));
  } catch (cause) {
    throw new TemplateError("invalid URL escape", { cause });
  }
}

const encodeUrl = (text: string): string =>
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

function compareValues(a: Value, b: Value): number {
  const isSameType = typeof a === typeof b && !(a instanceof GoTime);
  if (!isSameType) throw new TemplateError("incompatible types for comparison");
  return a < b ? -1 : a > b ? 1 : 0;
}

const equals = (value: Value, ...others: Value[]): boolean => requireSome(others).some((other) => compareValues(value, other) === 0);

/** Replaces the first `limit` occurrences; a negative number: all of them. */
function replaceText(text: string, old: string, replacement: string, limit = -1): string {
  const found = countText(text, old);
  const count = limit < 0 ? found : Math.min(limit, found);
  chargeResult(text.length + count * (replacement.length - old.length));
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
  Trim: ofTexts("Trim", trimBoth),
  TrimLeft: ofTexts("TrimLeft", trimLeft),
  TrimRight: ofTexts("TrimRight", trimRight),
  TrimPrefix: ofTexts("TrimPrefix", withoutPrefix),
  TrimSuffix: ofTexts("TrimSuffix", withoutSuffix),
  TrimSpace: ofTexts("TrimSpace", (text) => text.trim()),
  trim: ofTexts("trim", (text) => text.trim()),
  trimAll: ofTexts("trimAll", (set, text) => trimBoth(text, set)),
  trimPrefix: ofTexts("trimPrefix", (prefix, text) => withoutPrefix(text, prefix)),
  trimSuffix: ofTexts("trimSuffix", (suffix, text) => withoutSuffix(text, suffix)),
  Replace: (text = "", old = "", replacement = "", count = -1n) =>
    replaceText(textOf(text, "Replace"), textOf(old, "Replace"), textOf(replacement, "Replace"), integerOf(count, "Replace")),
  replace: ofTexts("replace", (old, replacement, text) => replaceText(text, old, replacement)),
  contains: ofTexts("contains", (part, text) => findText(text, part) !== -1),
  hasPrefix: ofTexts("hasPrefix", (part, text) => text.startsWith(part)),
  hasSuffix: ofTexts("hasSuffix", (part, text) => text.endsWith(part)),
  regexReplaceAll: ofTexts("regexReplaceAll", expandMatches),
  regexReplaceAllLiteral: ofTexts("regexReplaceAllLiteral", (regex, text, replacement) =>
    expandMatches(regex, text, replacement.replaceAll("$", "$$$$")),
  ),
  count: ofTexts("count", countMatches),
  urlencode: ofTexts("urlencode", encodeUrl),
  urldecode: ofTexts("urldecode", decodeUrl),
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
    chargeResult(times * part.length);
    return part.repeat(times);
  },
  int: (value = "") => toInteger(value),
  float64: (value = "") => toFloat(value),
  add: integers((a, b) => a + b),
  sub: integers((a, b) => a - b),
  mul: integers((a, b) => a * b),
  div: integers(divide),
  mod: integers((a, b) => a - divide(a, b) * b),
  max: integers((a, b) => (a > b ? a : b)),
  min: integers((a, b) => (a < b ? a : b)),
  addf: floats((a, b) => a + b),
  subf: floats((a, b) => a - b),
  mulf: floats((a, b) => a * b),
  divf: floats((a, b) => a / b),
  maxf: floats((a, b) => Math.max(a, b)),
  minf: floats((a, b) => Math.min(a, b)),
  ceil: (value = "") => Math.ceil(toFloat(value)),
  floor: (value = "") => Math.floor(toFloat(value)),
  round: (value = "", digits = 0n, over?: Value) => roundValue(value, digits, over),
  default: (other = "", value = "") => (isTrue(value) ? value : other),
  unixToTime: ofTexts("unixToTime", unixToTime),
  unixEpoch: (time) => String(timeOf(time, "unixEpoch").ns / 1_000_000_000n),
  unixEpochMillis: (time) => String(timeOf(time, "unixEpochMillis").ns / 1_000_000n),
  unixEpochNanos: (time) => String(timeOf(time, "unixEpochNanos").ns),
  date: (layout = "", time) => formatTime(textOf(layout, "date"), timeOf(time, "date").ns),
  eq: equals,
  ne: (a = "", b = "") => compareValues(a, b) !== 0,
  lt: (a = "", b = "") => compareValues(a, b) < 0,
  le: (a = "", b = "") => compareValues(a, b) <= 0,
  gt: (a = "", b = "") => compareValues(a, b) > 0,
  ge: (a = "", b = "") => compareValues(a, b) >= 0,
  not: (value = "") => !isTrue(value),
  len: (value = "") => BigInt(Buffer.byteLength(textOf(value, "len"))),
  print: (...values) =>
    values
      .map((value, index) =>
        index > 0 && typeof value !== "string" && typeof values[index - 1] !== "string" ? ` ${formatValue(value)}` : formatValue(value),
      )
      .join(""),
  println: (...values) => `${values.map(formatValue).join(" ")}\n`,
  printf: (format = "", ...values) => sprintf(textOf(format, "printf"), values),
};

function indentText(count: Value, text: Value, name: string): string {
  const pad = spaces(integerOf(count, name));
  const source = textOf(text, name);
  chargeResult(source.length + pad.length * (countText(source, "\n") + 1));
  return pad + source.replaceAll("\n", `\n${pad}`);
}

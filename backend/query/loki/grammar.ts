// Parses a query into a syntax tree with Grafana's grammar, and its literals as Go does. Invariant: a query that the grammar does not
// accept completely is rejected with the position of the error; length and depth are limited.
import { parser } from "@grafana/lezer-logql";
import type { SyntaxNode } from "@lezer/common";
import { ApiError } from "../../errors.ts";
import { MAX_NUMBER_DIGITS, MAX_QUERY_CHARACTERS, MAX_QUERY_DEPTH } from "../query-limits.ts";
import type { Conversion } from "./syntax.ts";

export function wrongQuery(problem: string, cause?: unknown): ApiError {
  return new ApiError("invalid_parameter", `query: ${problem}`, { cause });
}

const ESCAPES: Readonly<Record<string, string>> = { a: "\x07", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t", v: "\v", "\\": "\\", '"': '"' };
const ESCAPE = /\\(?:([abfnrtv\\"])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|(.?))/gsu;

export function unquote(literal: string): string {
  if (literal.startsWith("`")) return literal.slice(1, -1).replaceAll("\r", "");
  return literal.slice(1, -1).replaceAll(ESCAPE, (whole, plain?: string, hex?: string, u4?: string, u8?: string, octal?: string) => {
    if (plain !== undefined) return ESCAPES[plain] as string;
    const code = Number.parseInt(hex ?? u4 ?? u8 ?? octal ?? "x", octal === undefined ? 16 : 8);
    const isByte = hex !== undefined || octal !== undefined;
    const isCharacter = code <= 0x10ffff && !(code >= 0xd800 && code <= 0xdfff) && !(isByte && code > 0x7f);
    if (!isCharacter) throw wrongQuery(`invalid escape ${whole} in a text: write a backslash as \\\\, or the text in backticks`);
    return String.fromCodePoint(code);
  });
}

// No two adjacent repetitions match the same characters: otherwise the time would grow with the square of the text.
const NUMBER = /^[+-]?(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:e[+-]?\d+)?$/i;
const HEX = /^([+-]?)0x([\da-f]*)(?:\.([\da-f]*))?(?:p([+-]?\d+))?$/i;
const INFINITY = /^([+-]?)inf(?:inity)?$/i;

/** Parses numbers like Go's ParseFloat; returns undefined if the text is not a number. */
export function parseNumber(text: string): number | undefined {
  if (NUMBER.test(text)) return text.includes("_") ? undefined : Number(text);
  const infinite = INFINITY.exec(text);
  if (infinite) return infinite[1] === "-" ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
  if (/^nan$/i.test(text)) return Number.NaN;
  const [, sign, whole = "", fraction = "", power] = HEX.exec(text) ?? [];
  if (sign === undefined || power === undefined || whole + fraction === "") return undefined;
  const value = Number.parseInt(whole + fraction, 16) * 2 ** (Number(power) - 4 * fraction.length);
  return sign === "-" ? -value : value;
}

export function readNumber(text: string): number {
  const value = parseNumber(text);
  if (value === undefined) throw wrongQuery(`${text}: not a number`);
  return value;
}

const UNITS_NS: Readonly<Record<string, number>> = { ns: 1, us: 1e3, µs: 1e3, μs: 1e3, ms: 1e6, s: 1e9, m: 60e9, h: 3600e9 };
const LONG_UNITS_NS: Readonly<Record<string, number>> = { ...UNITS_NS, d: 86_400e9, w: 604_800e9, y: 31_536_000e9 };
// Escaped, because a single character outside of Latin-1 makes the bundle take two bytes per character
// (hack/bundle-backend.engine.test.ts).
const DURATION_PART = /(\d+(?:\.\d*)?|\.\d+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h|d|w|y)/gy;
const MAX_NS = 9_223_372_036_854_775_807n;

/** Nanoseconds; undefined if it is not a duration. `long`: also accepts days, weeks and years, as in ranges. */
export function parseDuration(text: string, long: boolean): bigint | undefined {
  const [, sign = "", rest = ""] = /^([+-]?)(.+)$/s.exec(text) ?? [];
  if (rest === "0") return 0n;
  let [sum, at] = [0n, 0];
  DURATION_PART.lastIndex = 0;
  for (let part = DURATION_PART.exec(rest); part; part = DURATION_PART.exec(rest)) {
    const [, digits = "", unit = ""] = part;
    const ns = (long ? LONG_UNITS_NS : UNITS_NS)[unit];
    if (ns === undefined) return undefined;
    const [whole = "0", fraction = ""] = digits.split(".");
    if (whole.length > MAX_NUMBER_DIGITS) return undefined;
    sum += BigInt(whole || 0) * BigInt(ns) + BigInt(Math.trunc(Number(`0.${fraction || 0}`) * ns));
    at = DURATION_PART.lastIndex;
    if (sum > MAX_NS) return undefined;
  }
  if (at === 0 || at !== rest.length) return undefined;
  return sign === "-" ? -sum : sum;
}

/** Parses a duration literal such as 1h30m; nanoseconds. */
export function readDuration(text: string): bigint {
  const ns = parseDuration(text, true);
  if (ns === undefined) throw wrongQuery(`${text}: not a duration such as 5m`);
  return ns;
}

const POWERS = ["k", "m", "g", "t", "p", "e"];

/** A size such as 1.5KB or 2 MiB; undefined if it is not a size. */
export function parseBytes(text: string): number | undefined {
  const [, digits, unit = ""] = /^([\d.,]+)\s*([a-z]*)$/i.exec(text.trim()) ?? [];
  if (digits === undefined) return undefined;
  const value = parseNumber(digits.replaceAll(",", ""));
  const [, power = "", binary] = /^([kmgtpe]?)(i?)b?$/.exec(unit.toLowerCase()) ?? [undefined, undefined];
  if (value === undefined || binary === undefined || (binary && !power)) return undefined;
  return Math.trunc(value * (binary ? 1024 : 1000) ** (POWERS.indexOf(power) + 1));
}

/** The number in the text of a label, durations in seconds; undefined if there is none. */
export function convert(text: string, conversion: Conversion): number | undefined {
  if (conversion === "number") return parseNumber(text);
  if (conversion === "bytes") return parseBytes(text);
  const ns = parseDuration(text, false);
  return ns === undefined ? undefined : Number(ns) / 1e9;
}

export class Tree {
  readonly text: string;
  readonly top: SyntaxNode;

  /** Throws ApiError invalid_parameter. */
  constructor(text: string) {
    if (text.length > MAX_QUERY_CHARACTERS) throw wrongQuery(`has at most ${MAX_QUERY_CHARACTERS} characters`);
    this.text = withoutComments(text);
    const tree = parser.parse(this.text);
    let depth = 0;
    const cursor = tree.cursor();
    cursor.iterate(
      (node) => {
        if (node.type.isError) throw this.misread(node.from);
        depth += 1;
        if (depth > MAX_QUERY_DEPTH) throw wrongQuery(`is nested or chained more than ${MAX_QUERY_DEPTH} deep`);
      },
      () => void (depth -= 1),
    );
    const top = tree.topNode.firstChild;
    if (!top) throw this.misread(0);
    this.top = top;
  }

  of(node: SyntaxNode): string {
    return this.text.slice(node.from, node.to);
  }

  misread(at: number): Error {
    const before = this.text.slice(0, at).split("\n");
    const [found = ""] = /^\s*(?:\w+|\S{1,10})?/.exec(this.text.slice(at)) ?? [];
    const place = `line ${before.length}, column ${(before.at(-1) ?? "").length + 1}`;
    return wrongQuery(
      `parse error at ${place}: unexpected ${found.trim() === "" ? "end" : JSON.stringify(found.trim())}${hintFor(this.text, at)}`,
    );
  }
}

/** An alternative whose end is missing matches to the end of the text, so that one pass is enough. */
const TEXT_OR_COMMENT = /"(?:[^"\\]|\\[^])*(?:"|\\?$)|`[^`]*(?:`|$)|(#.*|\/\/.*|\/\*[^]*?(?:\*\/|$))/g;

/** Removes comments as in Go, and those after #. They become spaces, so that the positions of other tokens do not change. */
function withoutComments(text: string): string {
  return text.replaceAll(TEXT_OR_COMMENT, (whole, comment?: string) => {
    const isWhole = comment !== undefined && (!comment.startsWith("/*") || (comment.endsWith("*/") && comment.length > 3));
    return isWhole ? comment.replaceAll(/[^\n]/g, " ") : whole;
  });
}

/** Suggests a replacement for syntax that Loki has but this grammar does not, and for common mistakes. */
function hintFor(text: string, at: number): string {
  return hintForLoki(text, at) || hintForMistake(text.slice(0, at).trimEnd(), text.slice(at).trimStart());
}

function hintForMistake(before: string, after: string): string {
  const isInSelector = before.lastIndexOf("{") > before.lastIndexOf("}");
  if (before.endsWith("{")) return '; a selector needs a matcher, such as {service_name="shop"}';
  if (isInSelector && /[=~]$/.test(before)) return '; a value is in quotes, such as {service_name="shop"}';
  if (isInSelector && after === "") return "; a } is missing";
  if (/(?:\|[=~>]|![=~>])$/.test(before)) return '; a line filter needs a text in quotes, such as |= "timeout"';
  if (before.endsWith("|")) return "; a stage is missing after |, such as | json";
  if (before.endsWith("[")) return "; a duration has a unit, such as [5m]";
  if (after.startsWith(")") && before.endsWith("}")) return "; a range is missing, such as {…}[5m]";
  if (before === "" && /^\w+\s*\(/.test(after)) return "; LogQL has no function of this name";
  return after === "" && before.split("(").length > before.split(")").length ? "; a ) is missing" : "";
}

function hintForLoki(text: string, at: number): string {
  if (/\bunwrap\b[^[]*\[[^\]]*\]\s*offset\b/.test(text)) return "; write an offset before the stages: {…} [5m] offset 1h | … | unwrap …";
  if (/^\s*[A-Za-z_]\w*\s*[=!<>]/.test(text.slice(at)) && /\|\s*[\w(][^|]*["`\w)]\s+$/.test(text.slice(0, at)))
    return "; write and between two label filters";
  if (/\bunwrap\b[^()|[]*\)\s*\[/.test(text)) return "; write unwrap without parentheses around it: {…} | unwrap … [5m]";
  return "";
}

export function children(node: SyntaxNode): SyntaxNode[] {
  const found: SyntaxNode[] = [];
  for (let child = node.firstChild; child; child = child.nextSibling) found.push(child);
  return found;
}

/** The items of a left-recursive list, in their order. */
export function itemsOf(node: SyntaxNode | null, list: string, item: string): SyntaxNode[] {
  if (!node) return [];
  const found: SyntaxNode[] = [];
  const open = [node];
  for (let next = open.pop(); next; next = open.pop()) {
    if (next.name === item) found.push(next);
    else if (next.name === list) open.push(...children(next).toReversed());
  }
  return found;
}

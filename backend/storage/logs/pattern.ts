// Limits what a regular expression of a query may cost. RE2 takes 1 to 8 ns per byte of text while its automaton fits into its memory.
// Otherwise the time grows with the expression: 0.6 µs per byte with 50 parts that match several characters, 2.5 µs with another thousand
// characters of alternatives, 30 µs with three thousand repeated parts. Invariant: an accepted expression takes at most 2.5 µs per byte and
// sees at most MATCHED_BYTES of a message, which may have 32 MiB. matching.ts keeps the engine from matching for long without a check.
import { ApiError } from "../../errors.ts";
import { MAX_PATTERN_CHARACTERS, MAX_PATTERN_PARTS, MAX_PATTERN_REPEATS, MAX_PATTERN_STEPS } from "../storage-limits.ts";

/** Bytes of a message that regular expressions read. */
export const MATCHED_BYTES = 64 * 1024;
/** Total steps of all expressions, including alternatives, up to which the automaton is always small. */
const CHEAP_STEPS = 8;
/** Steps of a Unicode class, because it is compiled to about as many ranges of bytes. */
const UNICODE_CLASS = 50;
/** Characters of ranges that count as one step if case is ignored: RE2JS then visits each character of a range, about 45 ns each. */
const FOLDED_CHARACTERS = 4096;

/** `patterns` by their parameter. Throws ApiError invalid_parameter that names the first parameter that exceeds the limit. */
export function checkPatterns(patterns: Readonly<Record<string, readonly string[]>>): void {
  let [characters, steps] = [0, 0];
  for (const [name, texts] of Object.entries(patterns)) {
    for (const text of texts) {
      characters += text.length;
      if (characters > MAX_PATTERN_CHARACTERS) throw aboveLimit(name, `${MAX_PATTERN_CHARACTERS} characters in all`);
      steps += stepsOf(text);
      const countedParts = `parts that stand for several characters or are repeated, as often as they are repeated (.{20} is 20, a*\\d is 2)`;
      if (steps > MAX_PATTERN_STEPS) throw aboveLimit(name, `${MAX_PATTERN_STEPS} ${countedParts}`);
    }
  }
}

/** Whether the expressions together may take more than about 8 ns per byte. */
export function isCostly(patterns: readonly string[]): boolean {
  return patterns.reduce((steps, text) => steps + stepsOf(text) + alternativesOf(text), 0) > CHEAP_STEPS;
}

/** The number of "|" in the expression; (a|b) matches several characters as [ab] does. */
export function alternativesOf(text: string): number {
  return [...text.matchAll(TOKEN)].filter(([token]) => token === "|").length;
}

/**
 * Steps that alternatives add for an automaton that matches a whole value: (a|b) doubles its states as [ab] does, so a group of n
 * alternatives counts as log2(n) steps, rounded up. Repeated groups are counted in `stepsOf`.
 */
export function branchesOf(pattern: string): number {
  const open: number[] = [];
  let [sum, alternatives] = [0, 1];
  for (const [token] of pattern.matchAll(TOKEN)) {
    if (token === "|") alternatives += 1;
    else if (token === "(") {
      open.push(alternatives);
      alternatives = 1;
    } else if (token === ")") {
      sum += doublings(alternatives);
      alternatives = open.pop() ?? 1;
    }
  }
  return [...open, alternatives].reduce((total, count) => total + doublings(count), sum);
}

function doublings(alternatives: number): number {
  return Math.ceil(Math.log2(alternatives));
}

function aboveLimit(name: string, limit: string): ApiError {
  return new ApiError("invalid_parameter", `${name}: the regular expressions of a query have at most ${limit}`);
}

// In order: a quotation, a character by number, a Unicode class, an escape, a class, a repetition, any other character (including
// parentheses). A class without an end extends to the end of the text: if each "[" searched for its end, the time would grow with the
// square of the length.
const TOKEN =
  /\\Q.*?(?:\\E|$)|\\x\{\w*\}|\\[pP](?:\{\^?\w*\}|.)|\\.|\[\^?\]?(?:\[:\^?\w*:\]|\\.|[^\]\\])*(?:\]|\\?$)|\{\d+(?:,\d*)?\}|./gsu;
const SEVERAL = /^(?:\.$|\[|\\[dDsSwWpPCX])/;

const IGNORES_CASE = /\(\?[a-zA-Z-]*i/;
/** The last character of each range of a class. What precedes the dash is ignored, so that no notation can hide a range. */
const RANGE_END = /-(?=(\\x\{\w+\}|\\x..|\\.|.))/gsu;

interface Part {
  /** The minimum number of characters that it matches; one for a class. */
  readonly length: number;
  readonly steps: number;
  /** Characters, classes and groups, each as often as it is repeated. */
  readonly parts: number;
}

const NOTHING: Part = { length: 0, steps: 0, parts: 0 };
const GROUP: Part = { length: 0, steps: 0, parts: 1 };

/**
 * An upper estimate of the steps of an expression. Invalid expressions are left to the engine. Each part above MAX_PATTERN_PARTS adds a
 * step, because empty groups such as (){1000} take as long to compile as if they matched characters.
 */
export function stepsOf(pattern: string): number {
  const { steps, parts } = measure(pattern);
  return steps + Math.max(0, parts - MAX_PATTERN_PARTS);
}

/** The cost of compiling the expression: its characters, classes and groups, each as often as it is repeated. */
export function partsOf(pattern: string): number {
  return measure(pattern).parts;
}

function measure(pattern: string): Part {
  const open: Part[] = [];
  const ignoresCase = IGNORES_CASE.test(pattern);
  let [sum, last]: [Part, Part | undefined] = [NOTHING, undefined];
  for (const [token] of pattern.matchAll(TOKEN)) {
    const times = repeats(token);
    if (times !== undefined) {
      if (!last) continue;
      const steps = Math.max(last.length, last.steps, 1) * times;
      const repeated: Part = { length: last.length * times, steps, parts: last.parts * times };
      sum = plus(minus(sum, last), repeated);
      last = repeated;
    } else if (token === "(") {
      open.push(sum);
      last = undefined;
    } else if (token === ")") {
      const opened = open.pop();
      sum = opened ? plus(sum, GROUP) : sum;
      last = opened && minus(sum, opened);
    } else {
      last = plainPart(token, ignoresCase);
      sum = plus(sum, last);
    }
  }
  return sum;
}

/** The part for a token that is neither a repetition nor a parenthesis. */
function plainPart(token: string, ignoresCase: boolean): Part {
  if (!SEVERAL.test(token)) return { length: token.length, steps: 0, parts: token.length };
  const unicode = UNICODE_CLASS * (token.match(/\\[pP]/g)?.length ?? 0);
  const folded = ignoresCase && token.startsWith("[") ? Math.floor(charactersInRanges(token) / FOLDED_CHARACTERS) : 0;
  return { length: 1, steps: Math.max(1, unicode + folded), parts: 1 };
}

/** An upper bound: the first character of each range is assumed to be 0. */
function charactersInRanges(token: string): number {
  return [...token.matchAll(RANGE_END)].reduce((sum, [, end = ""]) => sum + codeOf(end), 0);
}

function codeOf(character: string): number {
  const [, digits] = /^\\x\{?([0-9a-fA-F]+)/.exec(character) ?? [];
  return digits === undefined ? (character.replace(/^\\/, "").codePointAt(0) ?? 0) : Math.min(0x10ffff, Number.parseInt(digits, 16));
}

function repeats(token: string): number | undefined {
  if (token === "*" || token === "+" || token === "?") return 1;
  const [whole, min = "", max = ""] = /^\{(\d+)(?:,(\d*))?\}$/.exec(token) ?? [];
  return whole === undefined ? undefined : Math.min(MAX_PATTERN_REPEATS, Math.max(1, Number(min), Number(max)));
}

function plus(a: Part, b: Part): Part {
  return { length: a.length + b.length, steps: a.steps + b.steps, parts: a.parts + b.parts };
}

function minus(a: Part, b: Part): Part {
  return { length: a.length - b.length, steps: a.steps - b.steps, parts: a.parts - b.parts };
}

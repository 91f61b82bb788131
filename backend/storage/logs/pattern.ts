// What a regular expression of a query may cost. RE2 takes 1 to 8 ns for each byte of a text, or, where its automaton does not fit into its
// memory, time that grows with the expression: 0.6 µs for each byte with 50 parts that stand for several characters, 2.5 µs with a thousand
// characters of alternatives in addition, 30 µs with three thousand repeated parts. Invariant: what is let through takes at most 2.5 µs, and
// sees no more than MATCHED_BYTES of a message, of which one may have 32 MiB; matching.ts keeps the engine from matching for long at once.
import { ApiError } from "../../errors.ts";
import { MAX_PATTERN_CHARACTERS, MAX_PATTERN_PARTS, MAX_PATTERN_REPEATS, MAX_PATTERN_STEPS } from "../limits.ts";

/** Bytes of a message that regular expressions read. */
export const MATCHED_BYTES = 64 * 1024;
/** Total steps of all expressions, alternatives included, at which the automaton is small in any case. */
const CHEAP_STEPS = 8;
/** A class of Unicode is as many ranges of bytes. */
const UNICODE_CLASS = 50;
/** Characters of ranges that count as one step if case is ignored: RE2JS then visits each character of a range, for some 45 ns. */
const FOLDED_CHARACTERS = 4096;

/** `patterns` by the parameter they came in. Throws ApiError invalid_parameter naming the first that makes it too much. */
export function checkPatterns(patterns: Readonly<Record<string, readonly string[]>>): void {
  let [characters, steps] = [0, 0];
  for (const [name, texts] of Object.entries(patterns)) {
    for (const text of texts) {
      characters += text.length;
      if (characters > MAX_PATTERN_CHARACTERS) throw tooMuch(name, `${MAX_PATTERN_CHARACTERS} characters in all`);
      steps += stepsOf(text);
      const such = `parts that stand for several characters or are repeated, as often as they are repeated (.{20} is 20, a*\\d is 2)`;
      if (steps > MAX_PATTERN_STEPS) throw tooMuch(name, `${MAX_PATTERN_STEPS} ${such}`);
    }
  }
}

/** Whether expressions may take more than some 8 ns for each byte. */
export function isCostly(patterns: readonly string[]): boolean {
  return patterns.reduce((steps, text) => steps + stepsOf(text) + alternativesOf(text), 0) > CHEAP_STEPS;
}

/** How many "|" there are; (a|b) matches several characters as [ab] does. */
export function alternativesOf(text: string): number {
  return [...text.matchAll(TOKEN)].filter(([token]) => token === "|").length;
}

/**
 * Steps that alternatives add for an automaton of the whole value: (a|b) doubles its states as [ab] does, so a group of so many counts as
 * often as their number is doubled from one. Those of a repeated group are among its steps.
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
  return [...open, alternatives].reduce((all, one) => all + doublings(one), sum);
}

function doublings(alternatives: number): number {
  return Math.ceil(Math.log2(alternatives));
}

function tooMuch(name: string, most: string): ApiError {
  return new ApiError("invalid_parameter", `${name}: the regular expressions of a query have at most ${most}`);
}

// A quotation, a character by number, a class of Unicode, an escape, a class, how often, the ends of a group, any other character. A class
// without an end is read to the end of the text: if each "[" searched for it, the time would grow with the square of the length.
const TOKEN =
  /\\Q.*?(?:\\E|$)|\\x\{\w*\}|\\[pP](?:\{\^?\w*\}|.)|\\.|\[\^?\]?(?:\[:\^?\w*:\]|\\.|[^\]\\])*(?:\]|\\?$)|\{\d+(?:,\d*)?\}|./gsu;
const SEVERAL = /^(?:\.$|\[|\\[dDsSwWpPCX])/;

const IGNORES_CASE = /\(\?[a-zA-Z-]*i/;
/** The last character of each range of a class. What precedes the dash is not read, so that no spelling hides a range. */
const RANGE_END = /-(?=(\\x\{\w+\}|\\x..|\\.|.))/gsu;

interface Part {
  /** Characters that it matches at least, one for a class. */
  readonly length: number;
  readonly steps: number;
  /** Characters, classes and groups, each as often as it is repeated. */
  readonly parts: number;
}

const NOTHING: Part = { length: 0, steps: 0, parts: 0 };
const GROUP: Part = { length: 0, steps: 0, parts: 1 };

/**
 * At least as many as it has. What is no regular expression is left to the engine. An expression of more than MAX_PATTERN_PARTS has a step more for
 * each, because groups without content, such as (){1000}, take as long to compile as if they stood for characters.
 */
export function stepsOf(pattern: string): number {
  const { steps, parts } = measure(pattern);
  return steps + Math.max(0, parts - MAX_PATTERN_PARTS);
}

/** What it takes to compile it: at least its characters, classes and groups, each as often as it is repeated. */
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

/** The part for a token that neither repeats nor begins or ends a group. */
function plainPart(token: string, ignoresCase: boolean): Part {
  if (!SEVERAL.test(token)) return { length: token.length, steps: 0, parts: token.length };
  const unicode = UNICODE_CLASS * (token.match(/\\[pP]/g)?.length ?? 0);
  const folded = ignoresCase && token.startsWith("[") ? Math.floor(charactersInRanges(token) / FOLDED_CHARACTERS) : 0;
  return { length: 1, steps: Math.max(1, unicode + folded), parts: 1 };
}

/** At most so many: the first character of a range is taken for 0. */
function charactersInRanges(token: string): number {
  return [...token.matchAll(RANGE_END)].reduce((sum, [, end = ""]) => sum + codeOf(end), 0);
}

function codeOf(character: string): number {
  const [, digits] = /^\\x\{?([0-9a-fA-F]+)/.exec(character) ?? [];
  return digits === undefined ? (character.replace(/^\\/, "").codePointAt(0) ?? 0) : Math.min(0x10ffff, Number.parseInt(digits, 16));
}

function repeats(token: string): number | undefined {
  if (token === "*" || token === "+" || token === "?") return 1;
  const [counted, least = "", most = ""] = /^\{(\d+)(?:,(\d*))?\}$/.exec(token) ?? [];
  return counted === undefined ? undefined : Math.min(MAX_PATTERN_REPEATS, Math.max(1, Number(least), Number(most)));
}

function plus(one: Part, other: Part): Part {
  return { length: one.length + other.length, steps: one.steps + other.steps, parts: one.parts + other.parts };
}

function minus(one: Part, other: Part): Part {
  return { length: one.length - other.length, steps: one.steps - other.steps, parts: one.parts - other.parts };
}

// Matchers of labels as Alertmanager has them: which alerts a route takes and a silence hides. Invariant: a label that is not there is an
// empty one; an expression holds for the whole value and runs in RE2, never in JavaScript's own engine; what passed `checkMatchers` costs
// at most some 40 µs an expression and alert, whatever its author wrote.
import { RE2JS } from "re2js";
import { ApiError } from "../../errors.ts";
import { branchesOf, partsOf, stepsOf } from "../../storage/logs/pattern.ts";
import { plainValues } from "../../query/loki/regex.ts";
import { MAX_EXPRESSION_PARTS, MAX_EXPRESSION_STEPS, MAX_MATCHERS, MAX_MATCHER_LENGTH } from "../limits.ts";

/** As silences and routes are stored, and as Alertmanager's API has it. */
export interface Matcher {
  readonly name: string;
  readonly value: string;
  readonly isRegex: boolean;
  readonly isEqual: boolean;
}

export type Labels = Readonly<Record<string, string>>;
export type MatchOperator = (typeof OPERATORS)[number];

/** A matcher as the routes' API has it. */
export interface RouteMatcher {
  readonly label: string;
  readonly op: MatchOperator;
  readonly value: string;
}

export const OPERATORS = ["=", "!=", "=~", "!~"] as const;
const NAME = /^[a-zA-Z_][a-zA-Z0-9_]{0,127}$/;
const UNFIT = /[\u0000\ud800-\udfff]/u;

/** All of them hold for an alert's labels; no matchers hold for every alert. If one cannot be compiled, they hold for none; checked matchers always compile. */
export function compileMatchers(matchers: readonly Matcher[]): (labels: Labels) => boolean {
  // What is cheap decides first.
  const tests = matchers.map((matcher) => ({ matcher, test: testOf(matcher) })).toSorted((a, b) => cost(a.matcher) - cost(b.matcher));
  if (tests.some(({ test }) => test === undefined)) return () => false;
  return (labels) => tests.every(({ matcher, test }) => test?.(valueOf(labels, matcher.name)) === matcher.isEqual);
}

/**
 * Throws ApiError `invalid_field` that names the matcher, such as `matchers[0].value`. `anyAlert`: they may hold for every alert, as those
 * of a route; else one of them has to ask for something, as Alertmanager wants it of a silence.
 */
export function checkMatchers(matchers: readonly Matcher[], { anyAlert }: { readonly anyAlert: boolean }): void {
  if (matchers.length > MAX_MATCHERS) throw invalid("matchers", `there are at most ${MAX_MATCHERS}`);
  for (const [index, matcher] of matchers.entries()) checkCharacters(`matchers[${index}]`, matcher);
  const parts = matchers.reduce((sum, matcher) => sum + (cost(matcher) > 1 ? partsOf(matcher.value) : 0), 0);
  if (parts > MAX_EXPRESSION_PARTS)
    throw invalid(
      "matchers",
      `all expressions together have at most ${MAX_EXPRESSION_PARTS} characters, counted as often as they are repeated`,
    );
  for (const [index, matcher] of matchers.entries()) checkExpression(`matchers[${index}]`, matcher);
  if (anyAlert || matchers.some(({ value, ...rest }) => testOf({ value, ...rest })?.("") !== rest.isEqual)) return;
  throw invalid("matchers", "one of them at least must not hold for a label that is missing, or every alert would be silenced");
}

/** Expressions among them that are more than a list of values: what an organisation may have few of. */
export function expressionsIn(matchers: readonly Matcher[]): number {
  return matchers.filter((matcher) => cost(matcher) > 1).length;
}

export function matcherOf({ label, op, value }: RouteMatcher): Matcher {
  return { name: label, value, isRegex: op.endsWith("~"), isEqual: op.startsWith("=") };
}

const BEGIN = /^(?:"([a-zA-Z_]\w*)"|([a-zA-Z_]\w*))\s*(=~|!=|!~|=)/;
/** Text whose quotes are all escaped. Each character can be read in one way only, so that no text takes long. */
const WITHOUT_QUOTES = /^(?:[^"\\]|\\[^])*\\?$/;

/** One matcher as people and `amtool` write it, `name="value"` or `name=~value`; undefined: it is none. */
export function readMatcher(text: string): Matcher | undefined {
  if (text.length > 4 * MAX_MATCHER_LENGTH) return undefined;
  const trimmed = text.trim();
  const [begin, quoted, name = quoted, op] = BEGIN.exec(trimmed) ?? [];
  if (begin === undefined || name === undefined) return undefined;
  const given = trimmed.slice(begin.length).trim();
  const isQuoted = given.length > 1 && given.startsWith('"') && given.endsWith('"');
  const value = isQuoted ? given.slice(1, -1) : given;
  if (!WITHOUT_QUOTES.test(value) || (isQuoted && /(?<!\\)(?:\\\\)*\\$/.test(value))) return undefined;
  return matcherOf({ label: name, op: op as MatchOperator, value: value.replaceAll(/\\([n"\\])/g, unescaped) });
}

function unescaped(_: string, escape: string): string {
  return escape === "n" ? "\n" : escape;
}

function checkCharacters(field: string, { name, value }: Matcher): void {
  if (!NAME.test(name)) throw invalid(`${field}.name`, "a label's name has letters, digits and underscores, at most 128, no digit first");
  if (value.length > MAX_MATCHER_LENGTH) throw invalid(`${field}.value`, `has at most ${MAX_MATCHER_LENGTH} characters`);
  if (UNFIT.test(value)) throw invalid(`${field}.value`, "must be well-formed text without a NUL");
}

function checkExpression(field: string, { value, isRegex }: Matcher): void {
  if (!isRegex || plainValues(value)) return;
  if (stepsOf(value) + branchesOf(value) > MAX_EXPRESSION_STEPS) {
    const such = "parts that stand for several characters, are alternatives or are repeated, as often as they are repeated (.{20} is 20)";
    throw invalid(`${field}.value`, `an expression has at most ${MAX_EXPRESSION_STEPS} ${such}: list the values, or make two matchers`);
  }
  try {
    expressionOf(value);
  } catch (cause) {
    throw invalid(`${field}.value`, `is no regular expression of RE2: ${(cause as Error).message.slice(0, 200)}`, cause);
  }
}

/** What the value of a label must be, before `isEqual` turns it round. */
function testOf({ value, isRegex }: Matcher): ((text: string) => boolean) | undefined {
  if (!isRegex) return (text) => text === value;
  const listed = plainValues(value);
  if (listed) {
    const values = new Set(listed);
    return (text) => values.has(text);
  }
  // Alternatives count only when a matcher is written: one that is stored already keeps working.
  if (stepsOf(value) > MAX_EXPRESSION_STEPS || value.length > MAX_MATCHER_LENGTH) return undefined;
  try {
    const expression = expressionOf(value);
    return (text) => text.length <= MAX_MATCHER_LENGTH && expression.test(text);
  } catch {
    return undefined;
  }
}

/** Throws RE2's error. Compiled alone first: `a)(b` is invalid, but would be valid inside `(?:…)`. */
function expressionOf(value: string): RE2JS {
  RE2JS.compile(value);
  return RE2JS.compile(`^(?:${value})$`);
}

/** 0: compared, 1: looked up, 2: an expression. */
function cost({ value, isRegex }: Matcher): number {
  if (!isRegex) return 0;
  return plainValues(value) ? 1 : 2;
}

function valueOf(labels: Labels, name: string): string {
  return Object.hasOwn(labels, name) ? (labels[name] as string) : "";
}

function invalid(field: string, reason: string, cause?: unknown): ApiError {
  return new ApiError("invalid_field", `${field}: ${reason}`, { cause });
}

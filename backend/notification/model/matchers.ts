// Label matchers as in Alertmanager (`severity=~"warning|critical"`): they select the alerts of a route or of a silence. `checkMatchers`
// validates them when they are saved, `compileMatchers` makes the function that runs for each alert. A missing label counts as empty. A
// regular expression matches the whole value and runs in RE2; one that was validated takes at most about 40 µs per alert.
import { RE2JS } from "re2js";
import { closedSchema, invalidField } from "../../http/schemas.ts";
import { branchesOf, partsOf, stepsOf } from "../../storage/logs/pattern.ts";
import { plainValues } from "../../query/loki/regex.ts";
import { MAX_EXPRESSION_PARTS, MAX_EXPRESSION_STEPS, MAX_MATCHERS, MAX_MATCHER_LENGTH } from "../notification-limits.ts";

/** The form that is stored, and the form of Alertmanager's API. */
export interface Matcher {
  readonly name: string;
  readonly value: string;
  readonly isRegex: boolean;
  readonly isEqual: boolean;
}

export type Labels = Readonly<Record<string, string>>;
export type MatchOperator = (typeof OPERATORS)[number];

/** The form of the API of notification routes. */
export interface RouteMatcher {
  readonly label: string;
  readonly op: MatchOperator;
  readonly value: string;
}

export const OPERATORS = ["=", "!=", "=~", "!~"] as const;
export const MATCHER_SCHEMA = closedSchema({
  label: { type: "string" },
  op: { type: "string", enum: OPERATORS },
  value: { type: "string" },
});
const NAME = /^[a-zA-Z_][a-zA-Z0-9_]{0,127}$/;
const INVALID_CHARACTERS = /[\u0000\ud800-\udfff]/u;

/**
 * A function that returns whether every matcher matches an alert's labels. Without matchers it returns true. If an expression cannot be
 * compiled, it returns false for every alert; validated expressions can always be compiled.
 */
export function compileMatchers(matchers: readonly Matcher[]): (labels: Labels) => boolean {
  // Cheap matchers run first, so that most alerts never reach an expression.
  const tests = matchers
    .map((matcher) => ({ matcher, matchesValue: compileValue(matcher) }))
    .toSorted((a, b) => rankCost(a.matcher) - rankCost(b.matcher));
  if (tests.some(({ matchesValue }) => matchesValue === undefined)) return () => false;
  return (labels) => tests.every(({ matcher, matchesValue }) => matchesValue?.(readLabel(labels, matcher.name)) === matcher.isEqual);
}

/**
 * Throws ApiError `invalid_field`, which names the matcher, such as `matchers[0].value`. With `anyAlert`, they may match every alert, as a
 * route's may. Without it, at least one must not match an alert that has no labels: a silence must not hide everything.
 */
export function checkMatchers(matchers: readonly Matcher[], { anyAlert }: { readonly anyAlert: boolean }): void {
  if (matchers.length > MAX_MATCHERS) throw invalidField("matchers", `must have at most ${MAX_MATCHERS} items`);
  for (const [index, matcher] of matchers.entries()) checkCharacters(`matchers[${index}]`, matcher);
  const parts = matchers.reduce((sum, matcher) => sum + (rankCost(matcher) > 1 ? partsOf(matcher.value) : 0), 0);
  if (parts > MAX_EXPRESSION_PARTS)
    throw invalidField(
      "matchers",
      `all expressions together must have at most ${MAX_EXPRESSION_PARTS} characters, each counted as often as it is repeated`,
    );
  for (const [index, matcher] of matchers.entries()) checkExpression(`matchers[${index}]`, matcher);
  if (anyAlert || matchers.some((matcher) => compileValue(matcher)?.("") !== matcher.isEqual)) return;
  throw invalidField("matchers", "at least one must not match alerts without its label, otherwise every alert would be silenced");
}

/** The number of expressions that are more than a list of values such as `a|b`. An organisation may have only a few. */
export function countExpressions(matchers: readonly Matcher[]): number {
  return matchers.filter((matcher) => rankCost(matcher) > 1).length;
}

export function toMatcher({ label, op, value }: RouteMatcher): Matcher {
  return { name: label, value, isRegex: op.endsWith("~"), isEqual: op.startsWith("=") };
}

const BEGIN = /^(?:"([a-zA-Z_]\w*)"|([a-zA-Z_]\w*))\s*(=~|!=|!~|=)/;
/** Text in which every quote is escaped. Each character matches in one way only, so no input makes the expression backtrack. */
const WITHOUT_QUOTES = /^(?:[^"\\]|\\[^])*\\?$/;

/** Parses a matcher as people and `amtool` write it: `name="value"` or `name=~value`. Returns undefined if the text is not a matcher. */
export function readMatcher(text: string): Matcher | undefined {
  if (text.length > 4 * MAX_MATCHER_LENGTH) return undefined;
  const trimmed = text.trim();
  const [begin, quoted, name = quoted, op] = BEGIN.exec(trimmed) ?? [];
  if (begin === undefined || name === undefined) return undefined;
  const operand = trimmed.slice(begin.length).trim();
  const isQuoted = operand.length > 1 && operand.startsWith('"') && operand.endsWith('"');
  const value = isQuoted ? operand.slice(1, -1) : operand;
  if (!WITHOUT_QUOTES.test(value) || (isQuoted && /(?<!\\)(?:\\\\)*\\$/.test(value))) return undefined;
  return toMatcher({ label: name, op: op as MatchOperator, value: value.replaceAll(/\\([n"\\])/g, unescapeSequence) });
}

function unescapeSequence(_: string, escape: string): string {
  return escape === "n" ? "\n" : escape;
}

function checkCharacters(field: string, { name, value }: Matcher): void {
  if (!NAME.test(name))
    throw invalidField(`${field}.name`, "must have at most 128 letters, digits and underscores, and not begin with a digit");
  if (value.length > MAX_MATCHER_LENGTH) throw invalidField(`${field}.value`, `must have at most ${MAX_MATCHER_LENGTH} characters`);
  if (INVALID_CHARACTERS.test(value)) throw invalidField(`${field}.value`, "must be well-formed text without a NUL");
}

function checkExpression(field: string, { value, isRegex }: Matcher): void {
  if (!isRegex || plainValues(value)) return;
  if (stepsOf(value) + branchesOf(value) > MAX_EXPRESSION_STEPS) {
    const parts = "character classes, alternatives and repetitions, each counted as often as it is repeated (.{20} counts 20)";
    throw invalidField(`${field}.value`, `must have at most ${MAX_EXPRESSION_STEPS} ${parts}: list the values, or use two matchers`);
  }
  try {
    compileExpression(value);
  } catch (cause) {
    throw invalidField(`${field}.value`, `is not a regular expression of RE2: ${(cause as Error).message.slice(0, 200)}`, cause);
  }
}

/** A function that returns whether a label's value equals or matches the matcher's value; the caller negates it for `!=` and `!~`. */
function compileValue({ value, isRegex }: Matcher): ((text: string) => boolean) | undefined {
  if (!isRegex) return (text) => text === value;
  const listed = plainValues(value);
  if (listed) {
    const values = new Set(listed);
    return (text) => values.has(text);
  }
  // A matcher that was stored under a higher limit keeps working, so alternatives do not count here, only in `checkExpression`.
  if (stepsOf(value) > MAX_EXPRESSION_STEPS || value.length > MAX_MATCHER_LENGTH) return undefined;
  try {
    const expression = compileExpression(value);
    return (text) => text.length <= MAX_MATCHER_LENGTH && expression.test(text);
  } catch {
    return undefined;
  }
}

/** Throws RE2's error. The value is compiled on its own first, because an invalid `a)(b` would be valid inside `(?:…)`. */
function compileExpression(value: string): RE2JS {
  RE2JS.compile(value);
  return RE2JS.compile(`^(?:${value})$`);
}

/** 0: one comparison; 1: a list of values, looked up in a set; 2: a regular expression. */
function rankCost({ value, isRegex }: Matcher): number {
  if (!isRegex) return 0;
  return plainValues(value) ? 1 : 2;
}

function readLabel(labels: Labels, name: string): string {
  return Object.hasOwn(labels, name) ? (labels[name] as string) : "";
}

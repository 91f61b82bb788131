// Parses and validates the values of log policies. Limits ensure that a policy costs the collector no more than the pod's lines themselves do.
// Expressions are RE2, which runs in linear time.
import { MAX_POLICY_EXPANDED_CHARACTERS, MAX_POLICY_REGEX_CHARACTERS } from "../agent-limits.ts";
import { expandedCharacters, isAccepted } from "../monitors/relabeling.ts";

/** The value of a policy is invalid; the message says why it is ignored. */
export class PolicyError extends Error {
  override readonly name = "PolicyError";
}

/** Reads annotations of one object, and collects the problems of the invalid ones. */
export class AnnotationReader {
  readonly problems: [string, string][] = [];
  readonly #name: string;
  readonly #annotations: Readonly<Record<string, string>>;

  constructor(name: string, annotations: Readonly<Record<string, string>>) {
    this.#name = name;
    this.#annotations = annotations;
  }

  read<T>(annotation: string, parse: (text: string) => T): T | undefined {
    const text = this.#annotations[annotation];
    if (text === undefined) return undefined;
    try {
      return parse(text);
    } catch (error) {
      if (!(error instanceof PolicyError)) throw error;
      this.problems.push([`${this.#name} ${annotation}`, error.message]);
      return undefined;
    }
  }
}

export function readFlag(text: string): boolean {
  if (text !== "true" && text !== "false") throw new PolicyError('must be "true" or "false"');
  return text === "true";
}

export function readPercent(text: string): number {
  if (!/^\d{1,3}$/.test(text) || Number(text) > 100) throw new PolicyError("must be a whole number from 0 to 100");
  return Number(text);
}

export function readRate(text: string): number {
  if (!/^\d{4,12}$/.test(text)) throw new PolicyError("must be a whole number of bytes per second, at least 1000");
  return Number(text);
}

/** Records are kept if the first four digits of their hash are below the returned value. */
export function sampleThreshold(share: number): string {
  // Sorts after every four-digit hexadecimal hash.
  return share >= 1
    ? "g"
    : Math.floor(share * 65_536)
        .toString(16)
        .padStart(4, "0");
}

export function multilinePattern(text: string): string {
  if (text === "") throw new PolicyError("must not be empty");
  return checkedExpression(text);
}

/** An expression that matches the empty text is refused, because replacing it would turn each character of a line into five. */
export function redactPattern(text: string): string {
  const pattern = checkedExpression(text);
  if (canMatchEmptyText(pattern)) throw new PolicyError("matches empty text");
  return pattern;
}

function checkedExpression(text: string): string {
  if (text.length > MAX_POLICY_REGEX_CHARACTERS || expandedCharacters(text) > MAX_POLICY_EXPANDED_CHARACTERS)
    throw new PolicyError(`is longer than ${MAX_POLICY_REGEX_CHARACTERS} characters, or has too many repetitions`);
  if (/\p{Cc}/u.test(text) || !isAccepted(text)) throw new PolicyError("is not a supported RE2 regular expression");
  return text;
}

// Detects from its syntax whether an expression can match the empty text. Invariant: an expression from an annotation is never executed
// here, because V8 needs exponential time for some; RE2, which the collector uses, does not.

/** An escaped character, a repetition, the start of a group, or one character. */
const TOKEN = /\\.|[*+?]\??|\{\d+(?:,\d*)?\}\??|\(\?:|./gsu;
const ASSERTIONS = new Set(["^", "$", String.raw`\b`, String.raw`\B`]);
/** Quantifiers that allow zero repetitions. */
const OPTIONAL = /^(?:[*?]|\{0+[,}])/;
const REPEATED = /^[+{]/;

/** A group that has been read up to some point: whether each of its parts can match the empty text. */
interface Group {
  earlierAlternative: boolean;
  beforeLastAtom: boolean;
  lastAtom: boolean;
}

/** `pattern`: in the syntax that monitors/relabeling.ts accepts. */
function canMatchEmptyText(pattern: string): boolean {
  const groups = [newGroup()];
  let isInClass = false;
  for (const [token] of pattern.replace(/^\(\?i\)/, "").matchAll(TOKEN)) {
    const wasInClass = isInClass;
    isInClass = isInClass ? token !== "]" : token === "[";
    // A class counts as one atom, which was added at its first character.
    if (!wasInClass) applyToken(token, groups);
  }
  return groups.every(isNullable);
}

function applyToken(token: string, groups: Group[]): void {
  const group = groups.at(-1) ?? newGroup();
  if (token.startsWith("(")) groups.push(newGroup());
  else if (token === ")") {
    groups.pop();
    addAtom(groups.at(-1), isNullable(group));
  } else if (token === "|") Object.assign(group, newGroup(), { earlierAlternative: isNullable(group) });
  else if (OPTIONAL.test(token)) group.lastAtom = true;
  else if (!REPEATED.test(token)) addAtom(group, ASSERTIONS.has(token));
}

function addAtom(group: Group | undefined, isNullableAtom: boolean): void {
  if (!group) return;
  group.beforeLastAtom &&= group.lastAtom;
  group.lastAtom = isNullableAtom;
}

function isNullable({ earlierAlternative, beforeLastAtom, lastAtom }: Group): boolean {
  return earlierAlternative || (beforeLastAtom && lastAtom);
}

function newGroup(): Group {
  return { earlierAlternative: false, beforeLastAtom: true, lastAtom: true };
}

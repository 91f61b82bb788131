// Reads and validates the values of log policies in annotations, bounded so that an author of a pod takes no more of the collector than its
// own lines cost. Expressions are RE2, which takes linear time.
import { MAX_POLICY_EXPANDED_CHARACTERS, MAX_POLICY_REGEX_CHARACTERS } from "../limits.ts";
import { expandedCharacters, isAccepted } from "../monitors/relabeling.ts";
import { canMatchEmptyText } from "./empty-match.ts";

/** An annotation is ignored; the message says why. */
class PolicyError extends Error {
  override readonly name = "PolicyError";
}

/** Reads annotations of one object, and collects the problems of those that are invalid. */
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

/** Records of which the first four digits of the hash are below it are kept. */
export function sampleBelow(percent: number): string {
  // Behind every hash of four hexadecimal digits.
  return percent === 100
    ? "g"
    : Math.floor((percent * 65_536) / 100)
        .toString(16)
        .padStart(4, "0");
}

export function multilinePattern(text: string): string {
  if (text === "") throw new PolicyError("must not be empty");
  return bounded(text);
}

/** An expression that is replaced must match something, or each character of a line would become five. */
export function redactPattern(text: string): string {
  const pattern = bounded(text);
  if (canMatchEmptyText(pattern)) throw new PolicyError("matches empty text");
  return pattern;
}

function bounded(text: string): string {
  if (text.length > MAX_POLICY_REGEX_CHARACTERS || expandedCharacters(text) > MAX_POLICY_EXPANDED_CHARACTERS)
    throw new PolicyError(`is longer than ${MAX_POLICY_REGEX_CHARACTERS} characters, or repeats too much`);
  if (/\p{Cc}/u.test(text) || !isAccepted(text)) throw new PolicyError("is not a regular expression of RE2 that is supported here");
  return text;
}

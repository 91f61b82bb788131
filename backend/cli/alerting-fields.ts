// Reads the fields of one resource in an alerting file, and label matchers as users write them, such as severity="critical". Invariants: a
// missing or unknown field, or one of a wrong type, is a Problem that names the file, the position and the field; a matcher is printed in
// one form, so that two spellings of the same matcher are the same text.
import { durationMs } from "../../common/duration.ts";
import { Problem, WrongUsage } from "./cli-error.ts";
import { formatMatcher, type Matcher, parseMatcher } from "../client/matcher.ts";

export type Texts = Readonly<Record<string, string>>;

export class Fields {
  /** Such as `alerts.yaml: rules[2]`. */
  readonly where: string;
  readonly #unread: Map<string, unknown>;

  constructor(where: string, value: unknown) {
    this.where = where;
    if (!isObject(value)) throw new Problem(`${where}: must be a mapping of fields, such as \`name: …\``);
    this.#unread = new Map(Object.entries(value));
  }

  has(name: string): boolean {
    return this.#unread.has(name);
  }

  /** An empty text is only accepted if `otherwise` is empty too. */
  text(name: string, otherwise?: string): string {
    const value = this.#take(name) ?? otherwise;
    if (value === undefined) throw this.problem(name, "is missing");
    if (typeof value !== "string") throw this.problem(name, "must be text; put it in quotes");
    return value;
  }

  oneOf(name: string, choices: readonly string[], otherwise?: string): string {
    const value = this.text(name, otherwise);
    if (!choices.includes(value)) throw this.problem(name, `must be one of ${choices.join(", ")}`);
    return value;
  }

  flag(name: string, otherwise: boolean): boolean {
    const value = this.#take(name) ?? otherwise;
    if (typeof value !== "boolean") throw this.problem(name, "must be true or false");
    return value;
  }

  texts(name: string): Texts {
    const value = this.#take(name) ?? {};
    if (!isObject(value) || !Object.values(value).every((text) => typeof text === "string"))
      throw this.problem(name, "must be a mapping of names to text; put values in quotes");
    return value as Texts;
  }

  list(name: string): string[] {
    const value = this.#take(name) ?? [];
    if (!Array.isArray(value) || !value.every((text) => typeof text === "string")) throw this.problem(name, "must be a list of texts");
    return value;
  }

  /** Any value; the backend validates it. Undefined if the field is missing. */
  any(name: string): unknown {
    return this.#take(name);
  }

  /** Call after all known fields were read. Throws Problem if there are others. */
  end(): void {
    const [unknown] = this.#unread.keys();
    if (unknown !== undefined) throw this.problem(unknown, "unknown field");
  }

  problem(name: string, reason: string): Problem {
    return new Problem(`${this.where}.${name}: ${reason}`);
  }

  #take(name: string): unknown {
    const value = this.#unread.get(name);
    this.#unread.delete(name);
    return value ?? undefined;
  }
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** `5m` and `300s` are the same duration. */
export function isSameDuration(a: unknown, b: unknown): boolean {
  const ms = durationMs(String(a));
  return ms !== undefined && ms === durationMs(String(b));
}

/** Throws Problem, or the given kind of it; its message begins with `where`. */
export function readMatcher(text: string, where: string, Kind = Problem): Matcher {
  try {
    return parseMatcher(text);
  } catch (error) {
    throw new Kind(`${where}: ${(error as Error).message}`);
  }
}

/** A matcher in an argument or option, in the one printed form. Throws WrongUsage. */
export function typedMatcher(text: string, where: string): string {
  return formatMatcher(readMatcher(text, where, WrongUsage));
}

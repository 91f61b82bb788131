// The fields of one thing in a file of alerting, read one by one. Invariant: what is missing, of another type or not known is a Problem that
// names the file, the place and the field; nothing is guessed.
import { Problem } from "./cli-error.ts";

export type Texts = Readonly<Record<string, string>>;

export class Fields {
  /** Such as `alerts.yaml: rules[2]`. */
  readonly where: string;
  readonly #left: Map<string, unknown>;

  constructor(where: string, value: unknown) {
    this.where = where;
    if (!isObject(value)) throw new Problem(`${where}: must be a mapping of fields, such as \`name: …\``);
    this.#left = new Map(Object.entries(value));
  }

  has(name: string): boolean {
    return this.#left.has(name);
  }

  /** Empty only where that is said. */
  text(name: string, otherwise?: string): string {
    const value = this.#take(name) ?? otherwise;
    if (value === undefined) throw this.problem(name, "is missing");
    if (typeof value !== "string") throw this.problem(name, "must be text: put it in quotes");
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
      throw this.problem(name, "must be a mapping of names to text: put values in quotes");
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

  /** After all that may be there was read. */
  end(): void {
    const [unknown] = this.#left.keys();
    if (unknown !== undefined) throw this.problem(unknown, "there is no such field");
  }

  problem(name: string, what: string): Problem {
    return new Problem(`${this.where}.${name}: ${what}`);
  }

  #take(name: string): unknown {
    const value = this.#left.get(name);
    this.#left.delete(name);
    return value ?? undefined;
  }
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

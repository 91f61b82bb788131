// A record of logs on its way through the stages of a query: its line, and its labels by where they come from. Invariant: labels of the
// stream, structured metadata and what a stage made of the line are told apart; of one name what was made counts most.
import { asideName, SOFT_LABEL } from "./label-names.ts";
import { checkLength } from "./record-work.ts";

export type Category = "stream" | "metadata" | "parsed";

export class Entry {
  readonly timeNs: bigint;
  line: string;
  /** What a stage could not do; empty: nothing. */
  error = "";
  errorDetails = "";
  readonly #stream: ReadonlyMap<string, string>;
  readonly #metadata = new Map<string, string>();
  readonly #parsed = new Map<string, string>();
  readonly #deleted = new Set<string>();
  /** Names that a stage has set once; what is read of a line later does not change them. */
  readonly #settled = new Set<string>();

  constructor(timeNs: bigint, line: string, stream: ReadonlyMap<string, string>, metadata: Iterable<readonly [string, string]>) {
    this.timeNs = timeNs;
    this.line = line;
    this.#stream = stream;
    for (const [name, value] of metadata) {
      const own = stream.has(name) && name !== SOFT_LABEL ? asideName(name) : name;
      if (!this.#metadata.has(own)) this.#metadata.set(own, value);
    }
  }

  /** Undefined: there is none. Throws ApiError query_too_expensive where it is longer than stages read. */
  get(name: string): string | undefined {
    const made = this.#metadata.get(name) ?? this.#parsed.get(name);
    if (made !== undefined) {
      checkLength(made, "an attribute");
      return made;
    }
    return this.#deleted.has(name) ? undefined : this.#stream.get(name);
  }

  /** What tells groups apart: an attribute without a value is none, as the engine counts it. */
  groupValueOf(name: string): string | undefined {
    const value = this.get(name);
    return value === "" && !this.#parsed.has(name) ? undefined : value;
  }

  /** What a filter compares: no label is an empty one. */
  valueOf(name: string): string {
    return name === "__error__" ? this.error : (this.get(name) ?? "");
  }

  set(name: string, value: string): void {
    this.#metadata.delete(name);
    this.#parsed.set(name, value);
    this.#settled.add(name);
  }

  /** What was read of the line: beside labels that were there before. Answers false where the name is settled. */
  extract(name: string, value: string): boolean {
    const own = this.nameFor(name);
    if (this.#settled.has(own)) return false;
    this.set(own, value);
    return true;
  }

  /** The name that something read of the line gets. */
  nameFor(name: string): string {
    return (this.#stream.has(name) && name !== SOFT_LABEL) || this.#metadata.has(name) ? asideName(name) : name;
  }

  isSettled(name: string): boolean {
    return this.#settled.has(name);
  }

  delete(name: string): void {
    this.#metadata.delete(name);
    this.#parsed.delete(name);
    this.#deleted.add(name);
  }

  fail(error: string, details: string): void {
    this.error = error;
    this.errorDetails = details;
  }

  /** Without errors. */
  *labels(): Generator<readonly [name: string, value: string, category: Category]> {
    for (const [name, value] of this.#stream) {
      if (!this.#deleted.has(name) && !this.#metadata.has(name) && !this.#parsed.has(name)) yield [name, value, "stream"];
    }
    for (const [name, value] of this.#metadata) if (!this.#parsed.has(name)) yield [name, value, "metadata"];
    for (const [name, value] of this.#parsed) yield [name, value, "parsed"];
    if (this.error) yield ["__error__", this.error, "parsed"];
    if (this.errorDetails) yield ["__error_details__", this.errorDetails, "parsed"];
  }
}

// Generates random LogQL queries, and hostile records for them: half from the grammar, half by mutating texts of those. The same seed
// generates the same queries.
import { RANGE_OPERATIONS, STAGES, TEMPLATE_FUNCTIONS, UNWRAPPING } from "./logql.ts";

/** Numbers from 0 to 1 (mulberry32). */
export function randomNumbers(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296;
  };
}

export interface HostileRecord {
  readonly message: string;
  readonly attributes: Readonly<Record<string, string>>;
}

const LABELS = ["a", "b", "digits", "wide", "id", "detected_level", "__error__", "service_name"];
const COMPARED = ["> 5", "<= 1.5", "== 10ms", "!= 5MB", '= "a"', '=~ "a*b"', '!~ "(a|b)*c"', '!= ""'];
export const PATTERNS = ["a*", "(a?){20}a{20}", "(?i)error|warn", "(a*)*b", "^(a|b)+$", ".*.*.*x", "\\\\d+\\\\.", "[^ ]+$", "(", "\\\\"];
export const TEXTS = ["a", "", "aaaa", "{{", '\\"', "é", "\\u0000", "\u{1F600}", "$1", "${0}", " ", "<_>", "%s%d", "1h", "2006-01-02"];
const GROUPED = ["by (a)", "by (id, wide)", "without (id)", "by ()", ""];
const AGGREGATIONS = ["sum", "avg", "min", "max", "count", "stddev", "topk(3, ", "bottomk(2, ", "sort", "stdvar"];
const JUNK = ['"', "`", "{{", "}}", "(", ")", "|", "\\", "{", "}", "[", "]", "$x", "\u0000", "é", "1e999", "''", "/*", "//", "#", "\n"];

/** Random choices, and damaged texts. */
export class Choices {
  readonly next: () => number;

  constructor(seed: number) {
    this.next = randomNumbers(seed);
  }

  chance(share: number): boolean {
    return this.next() < share;
  }

  one<T>(choices: readonly T[]): T {
    return choices[Math.floor(this.next() * choices.length)] as T;
  }

  mutated(text: string): string {
    const count = 1 + Math.floor(this.next() * 4);
    let mutated = text;
    for (let index = 0; index < count; index += 1) {
      const at = Math.floor(this.next() * mutated.length);
      const length = Math.floor(this.next() * 10);
      const part = mutated.slice(at, at + length);
      mutated = this.one([
        mutated.slice(0, at) + mutated.slice(at + length),
        mutated.slice(0, at) + this.one(JUNK) + mutated.slice(at),
        mutated.slice(0, at) + part.repeat(1 + Math.floor(this.next() * 100)) + mutated.slice(at),
        mutated.slice(0, at) + this.one(JUNK).repeat(200) + mutated.slice(at),
      ]);
    }
    return mutated.slice(0, 16_000);
  }
}

export class Programs extends Choices {
  /** A query of logs or of metrics; every second one is damaged. */
  query(): string {
    return this.chance(0.5) ? this.logQuery() : this.metricQuery();
  }

  logQuery(): string {
    return this.#damaged(this.#logs());
  }

  metricQuery(): string {
    return this.#damaged(this.#metrics(3));
  }

  #damaged(query: string): string {
    return this.chance(0.5) ? query : this.mutated(query);
  }

  record(): HostileRecord {
    const size = 1 + Math.floor(this.next() ** 4 * 100_000);
    const units = ["a", "1", ";", '"', "\\", " ", "é", "a=b ", '{"a":', "[1,", "\u001b[31m", "\u{1F600}", "<a>", "=", "ab", "\n"];
    const fill = (): string => this.one(units).repeat(size).slice(0, size);
    const message = this.chance(0.2) ? this.#json(3) : `${fill()}${this.one(["x", "", '"', "]", "}"])}`;
    return { message, attributes: { digits: `${"1".repeat(size)}x`, wide: fill(), a: this.one(TEXTS), id: String(this.next()) } };
  }

  #json(depth: number): string {
    if (depth === 0 || this.chance(0.2)) return this.one(["1", '"a"', "null", "1e400", '"\\ud800"', "[]", "{}"]);
    const parts = Array.from({ length: Math.floor(this.next() * 5) }, () => this.#json(depth - 1));
    return this.chance(0.5) ? `[${parts.join(",")}]` : `{${parts.map((part, index) => `"k${index}":${part}`).join(",")}}`;
  }

  #logs(): string {
    const stages = Array.from({ length: Math.floor(this.next() * 5) }, () => this.#stage());
    return `{service_name="hostile"}${stages.map((stage) => ` ${stage}`).join("")}`;
  }

  #stage(): string {
    const pattern = (): string => this.one(PATTERNS);
    return this.one([
      () => `${this.one(["|=", "!=", "|>", "!>"])} "${this.one(TEXTS)}"`,
      () => `${this.one(["|~", "!~"])} "${pattern()}"`,
      () => `| ${this.one(LABELS)} ${this.one(COMPARED)}`,
      () => `| ${this.one(LABELS)} ${this.one(COMPARED)} ${this.one(["and", "or", ","])} ${this.one(LABELS)} ${this.one(COMPARED)}`,
      () => `| json ${this.chance(0.5) ? "" : `x="${this.one(["a", "a.b[0]", "[999999]", 'a[\\"b\\"]', "a..b"])}"`}`,
      () => `| logfmt${this.one(["", " --strict", " --keep-empty", ' x="a"'])}`,
      () => `| regexp "(?P<x>${pattern()})"`,
      () => `| pattern "${this.one(["<x> <y>", "<_>a<x>a<_>", "<x>", "a<x>b<x>"])}"`,
      () => `| line_format \`${this.#template()}\``,
      () => `| label_format ${this.one(LABELS)}=${this.chance(0.5) ? this.one(LABELS) : `\`${this.#template()}\``}`,
      () => `| ${this.one(["drop", "keep"])} ${this.one(LABELS)}${this.chance(0.5) ? "" : `=~"${pattern()}"`}`,
      () => this.one(["| decolorize", "| unpack", this.one(Object.values(STAGES))]),
    ])();
  }

  #template(): string {
    const action = (): string => {
      const value = this.one([".a", ".digits", ".wide", "$x", "__line__", "__timestamp__", '"a"', "5", '(repeat 1000 "a")']);
      const use = this.one(Object.values(TEMPLATE_FUNCTIONS)).replaceAll("$t", value).replaceAll("$n", value);
      if (this.chance(0.7)) return this.chance(0.2) ? `{{ ${value} }}` : `{{ ${use} }}`;
      return this.one([
        `{{ ${use} | ${this.one(Object.keys(TEMPLATE_FUNCTIONS))} }}`,
        `{{ $x := ${use} }}`,
        `{{ if ${value} }}${this.one(TEXTS)}{{ else }}{{ ${use} }}{{ end }}`,
        `{{ range $i, $e := ${value} }}{{ $e }}{{ end }}`,
        `{{- /* ${this.one(TEXTS)} */ -}}`,
      ]);
    };
    return Array.from({ length: 1 + Math.floor(this.next() * 6) }, () => action() + this.one(TEXTS).replaceAll("`", "")).join("");
  }

  #metrics(depth: number): string {
    if (depth === 0 || this.chance(0.4)) return this.#range();
    const inner = this.#metrics(depth - 1);
    const aggregation = this.one(AGGREGATIONS);
    return this.one([
      `${aggregation}${aggregation.endsWith(" ") ? "" : "("}${inner})${aggregation === "sort" ? "" : ` ${this.one(GROUPED)}`}`,
      `${inner} ${this.one(["+", "/", "%", "^", "> bool", "and", "unless on(a)", "* on(id) group_left"])} ${this.#metrics(depth - 1)}`,
      `label_replace(${inner}, "x", "${this.one(["$1", "$1$1$1$1", "${0}", "a"])}", "${this.one(LABELS)}", "${this.one(PATTERNS)}")`,
    ]);
  }

  #range(): string {
    const operation = this.one(RANGE_OPERATIONS);
    const head = operation === "quantile_over_time" ? "0.9, " : "";
    const unwraps = this.chance(0.9) ? UNWRAPPING.test(operation) : this.chance(0.5);
    const unwrap = !unwraps ? "" : ` | unwrap ${this.one(["digits", "duration(a)", "bytes(wide)", "id"])}`;
    const offset = this.chance(0.8) ? "" : " offset 1m";
    return `${operation}(${head}${this.#logs()}${unwrap} [${this.one(["1m", "1h", "5s", "1d"])}]${unwraps ? "" : offset})`;
  }
}

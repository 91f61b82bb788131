// Generates random LogQL queries, and hostile records for them: half from the grammar, half by mutating texts of those. The same seed
// generates the same queries.
import { Random } from "../../common/random.fixture.ts";
import { RANGE_OPERATIONS, STAGES, TEMPLATE_FUNCTIONS, UNWRAPPING } from "./logql.ts";

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
export class Choices extends Random {
  mutated(text: string): string {
    const count = 1 + Math.floor(this.next() * 4);
    let mutated = text;
    for (let index = 0; index < count; index += 1) {
      const at = Math.floor(this.next() * mutated.length);
      const length = Math.floor(this.next() * 10);
      const part = mutated.slice(at, at + length);
      mutated = this.pick([
        mutated.slice(0, at) + mutated.slice(at + length),
        mutated.slice(0, at) + this.pick(JUNK) + mutated.slice(at),
        mutated.slice(0, at) + part.repeat(1 + Math.floor(this.next() * 100)) + mutated.slice(at),
        mutated.slice(0, at) + this.pick(JUNK).repeat(200) + mutated.slice(at),
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
    const fill = (): string => this.pick(units).repeat(size).slice(0, size);
    const message = this.chance(0.2) ? this.#json(3) : `${fill()}${this.pick(["x", "", '"', "]", "}"])}`;
    return { message, attributes: { digits: `${"1".repeat(size)}x`, wide: fill(), a: this.pick(TEXTS), id: String(this.next()) } };
  }

  #json(depth: number): string {
    if (depth === 0 || this.chance(0.2)) return this.pick(["1", '"a"', "null", "1e400", '"\\ud800"', "[]", "{}"]);
    const parts = Array.from({ length: Math.floor(this.next() * 5) }, () => this.#json(depth - 1));
    return this.chance(0.5) ? `[${parts.join(",")}]` : `{${parts.map((part, index) => `"k${index}":${part}`).join(",")}}`;
  }

  #logs(): string {
    const stages = Array.from({ length: Math.floor(this.next() * 5) }, () => this.#stage());
    return `{service_name="hostile"}${stages.map((stage) => ` ${stage}`).join("")}`;
  }

  #stage(): string {
    const pattern = (): string => this.pick(PATTERNS);
    return this.pick([
      () => `${this.pick(["|=", "!=", "|>", "!>"])} "${this.pick(TEXTS)}"`,
      () => `${this.pick(["|~", "!~"])} "${pattern()}"`,
      () => `| ${this.pick(LABELS)} ${this.pick(COMPARED)}`,
      () => `| ${this.pick(LABELS)} ${this.pick(COMPARED)} ${this.pick(["and", "or", ","])} ${this.pick(LABELS)} ${this.pick(COMPARED)}`,
      () => `| json ${this.chance(0.5) ? "" : `x="${this.pick(["a", "a.b[0]", "[999999]", 'a[\\"b\\"]', "a..b"])}"`}`,
      () => `| logfmt${this.pick(["", " --strict", " --keep-empty", ' x="a"'])}`,
      () => `| regexp "(?P<x>${pattern()})"`,
      () => `| pattern "${this.pick(["<x> <y>", "<_>a<x>a<_>", "<x>", "a<x>b<x>"])}"`,
      () => `| line_format \`${this.#template()}\``,
      () => `| label_format ${this.pick(LABELS)}=${this.chance(0.5) ? this.pick(LABELS) : `\`${this.#template()}\``}`,
      () => `| ${this.pick(["drop", "keep"])} ${this.pick(LABELS)}${this.chance(0.5) ? "" : `=~"${pattern()}"`}`,
      () => this.pick(["| decolorize", "| unpack", this.pick(Object.values(STAGES))]),
    ])();
  }

  #template(): string {
    const action = (): string => {
      const value = this.pick([".a", ".digits", ".wide", "$x", "__line__", "__timestamp__", '"a"', "5", '(repeat 1000 "a")']);
      const use = this.pick(Object.values(TEMPLATE_FUNCTIONS)).replaceAll("$t", value).replaceAll("$n", value);
      if (this.chance(0.7)) return this.chance(0.2) ? `{{ ${value} }}` : `{{ ${use} }}`;
      return this.pick([
        `{{ ${use} | ${this.pick(Object.keys(TEMPLATE_FUNCTIONS))} }}`,
        `{{ $x := ${use} }}`,
        `{{ if ${value} }}${this.pick(TEXTS)}{{ else }}{{ ${use} }}{{ end }}`,
        `{{ range $i, $e := ${value} }}{{ $e }}{{ end }}`,
        `{{- /* ${this.pick(TEXTS)} */ -}}`,
      ]);
    };
    return Array.from({ length: 1 + Math.floor(this.next() * 6) }, () => action() + this.pick(TEXTS).replaceAll("`", "")).join("");
  }

  #metrics(depth: number): string {
    if (depth === 0 || this.chance(0.4)) return this.#range();
    const inner = this.#metrics(depth - 1);
    const aggregation = this.pick(AGGREGATIONS);
    return this.pick([
      `${aggregation}${aggregation.endsWith(" ") ? "" : "("}${inner})${aggregation === "sort" ? "" : ` ${this.pick(GROUPED)}`}`,
      `${inner} ${this.pick(["+", "/", "%", "^", "> bool", "and", "unless on(a)", "* on(id) group_left"])} ${this.#metrics(depth - 1)}`,
      `label_replace(${inner}, "x", "${this.pick(["$1", "$1$1$1$1", "${0}", "a"])}", "${this.pick(LABELS)}", "${this.pick(PATTERNS)}")`,
    ]);
  }

  #range(): string {
    const operation = this.pick(RANGE_OPERATIONS);
    const head = operation === "quantile_over_time" ? "0.9, " : "";
    const unwraps = this.chance(0.9) ? UNWRAPPING.test(operation) : this.chance(0.5);
    const unwrap = !unwraps ? "" : ` | unwrap ${this.pick(["digits", "duration(a)", "bytes(wide)", "id"])}`;
    const offset = this.chance(0.8) ? "" : " offset 1m";
    return `${operation}(${head}${this.#logs()}${unwrap} [${this.pick(["1m", "1h", "5s", "1d"])}]${unwraps ? "" : offset})`;
  }
}

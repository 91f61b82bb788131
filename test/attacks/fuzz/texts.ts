// Generates random inputs that the backend reads in its main process: matchers, message templates, log filters and PromQL.
import { Choices, PATTERNS, TEXTS } from "../programs.ts";

const ATOMS = ["a", ".", "[a-z]", String.raw`\d`, String.raw`\pL`, "é", "[^ ]", "\u{1F600}", "(?i)k", "^", "$"];
const BROKEN = ["(", ")", "[", "\\", "{2}{3}", ...PATTERNS];
const REPEATS = ["*", "+", "?", "{2}", "{0,12}", "{1000}", "{1,1001}", "*?"];
const NAMES = ["alertname", "instance", "a", "_", "constructor", "__proto__", "my-label", "x".repeat(129)];
const FUNCTIONS = [
  "rate",
  "sum",
  "abs",
  "increase",
  "label_replace",
  "max_over_time",
  "count_values_over_time",
  "label_set",
  "ru",
  "quantile_over_time",
  "aggr_over_time",
  "WITH",
];
const DURATIONS = ["5m", "10m", "30s", "1h", "1h", "1d", "100y", "1i", "0", "1ms", "-1s", "1h30m", "1e9", "9".repeat(400), ""];
const PLACES = [
  "labels.a",
  "labels.b",
  "url",
  "organisation",
  "annotations.summary",
  "#alerts",
  "/alerts",
  "title",
  "status",
  "labels.constructor",
  "x",
  " count ",
];

export class Texts extends Choices {
  expression(depth = 3): string {
    const parts = Array.from({ length: 1 + Math.floor(this.next() * 5) }, () => {
      if (depth > 0 && this.chance(0.3)) return `(${this.chance(0.3) ? "?:" : ""}${this.expression(depth - 1)})${this.#repeat()}`;
      if (depth > 0 && this.chance(0.1)) return `${this.expression(depth - 1)}|${this.expression(depth - 1)}`;
      return this.chance(0.05) ? this.pick(BROKEN) : this.pick(ATOMS) + this.#repeat();
    });
    return depth === 3 ? this.#damaged(parts.join("")) : parts.join("");
  }

  /** A few matchers with the operators of Alertmanager. */
  matchers(): string[] {
    return Array.from({ length: 1 + Math.floor(this.next() * (this.chance(0.1) ? 22 : 3)) }, () => {
      const value = this.chance(0.8) ? this.expression(2) : "abc|".repeat(Math.floor(this.next() * 250));
      return this.#damaged(
        `${this.chance(0.9) ? "instance" : this.pick(NAMES)}${this.pick(["=", "!=", "=~", "!~"])}${this.chance(0.5) ? `"${value}"` : value}`,
        0.2,
      );
    });
  }

  template(): string {
    const count = Math.floor(this.next() ** 4 * 150);
    const places = this.chance(0.7) ? PLACES.slice(0, 4) : PLACES;
    const parts = Array.from({ length: count }, () => `{{${this.pick(places)}}}${this.pick(TEXTS)}`);
    if (this.chance(0.3)) parts.push(`{{#alerts}}${"{{ labels.a }}{{annotations.summary}}".repeat(this.pick([1, 20, 45]))}{{/alerts}}`);
    return this.#damaged(parts.join(""));
  }

  promql(depth = 8): string {
    if (depth === 0 || this.chance(0.15)) return `${this.pick(["up", "{__name__=~'.*'}", "1", "time()", '"a"'])}${this.#window()}`;
    const inner = this.promql(depth - 1);
    const text = this.pick([
      () => `${this.pick(FUNCTIONS)}(${inner})${this.#window()}`,
      () =>
        `${this.pick(FUNCTIONS)}(${inner}) ${this.pick(["by (a)", "keep_metric_names", "limit 5", "offset 1h", "@ end()"])}${this.#window()}`,
      () => `(${inner} ${this.pick(["+", "or", "^", "> bool", "default"])} ${this.promql(Math.floor(depth / 2))})${this.#window()}`,
      () => `${inner}${this.#window()}`,
    ])();
    return depth === 8 ? this.#damaged(text) : text;
  }

  /** A query in the language of docs/log-query.md. */
  logQuery(depth = 4): string {
    const parts = Array.from({ length: 1 + Math.floor(this.next() ** 2 * 8) }, () => {
      if (depth > 0 && this.chance(0.2)) return `${this.pick(["", "NOT ", "-", "a:"])}(${this.logQuery(depth - 1)})`;
      if (this.chance(0.2)) return this.pick(["level>=warn", "a:<5", "d<=-1.5e3", "b>", "label.c>1"]);
      const value = (): string =>
        this.pick(["a", "2h", `"${this.pick(TEXTS)}"`, this.chance(0.2) ? `/${this.expression(1)}/` : "é", "*a*b*", "*"]);
      const values = Array.from({ length: 1 + Math.floor(this.next() ** 4 * 40) }, value).join(this.pick([",", ",", ", ", " OR "]));
      const name = this.pick(["level", "a", "label.a", "message", "trace_id", this.chance(0.1) ? "x".repeat(290) : "b"]);
      return `${this.pick(["", "", "NOT ", "-"])}${this.chance(0.3) ? "" : name + this.pick([":", ":", "!="])}${values}`;
    });
    const text = parts.join(this.pick([" ", " OR ", " AND "]));
    return depth === 4 ? this.#damaged(text) : text;
  }

  #window(): string {
    if (this.chance(0.4)) return "";
    return `[${this.pick(DURATIONS)}${this.chance(0.5) ? `:${this.pick(DURATIONS)}` : ""}]`;
  }

  #repeat(): string {
    return this.chance(0.75) ? "" : this.pick(REPEATS);
  }

  #damaged(text: string, share = 0.3): string {
    return this.chance(share) ? this.mutated(text) : text;
  }
}

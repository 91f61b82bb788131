// Rejects expressions that would crash VictoriaMetrics. Before it evaluates operators, the engine prints the parsed expression and parses
// it again; if its own output is invalid, it panics, and no tenant has metrics until it restarts (metricsql v0.87, optimizer.go, Clone).
// Causes are keywords used as names, strings next to operators, unusual names and braces; a time that overflows panics too, and a label of
// 64 KiB (label-growth.ts). Invariant: the printed form of an accepted expression is valid, and its times do not overflow. Every rejected
// expression can be written in another form.
import { expressionDurationMs } from "../../../common/duration.ts";
import { MAX_DURATION_MS, MAX_EXPRESSION_BYTES, MAX_SELECTORS } from "../engine-limits.ts";
import { ExpressionError, tokenize, type Token } from "./expression-tokens.ts";
import { LabelGrowth } from "./label-growth.ts";

/** Keywords of the language; each is allowed only in its own positions, and never as a name. */
const OPERATORS = new Set(["default", "if", "ifnot", "or", "and", "unless", "atan2"]);
const MATCHING = new Set(["on", "ignoring"]);
const JOINING = new Set(["group_left", "group_right"]);
const GROUPING = new Set(["by", "without"]);
const OTHER_WORDS = ["bool", "prefix", "fill", "fill_left", "fill_right", "offset", "keep_metric_names", "limit", "with"];
const WORDS = new Set([...OPERATORS, ...MATCHING, ...JOINING, ...GROUPING, ...OTHER_WORDS]);
/** The engine parses these names as numbers unless they are quoted, and its printed form has no quotes. */
const NUMBERS = new Set(["inf", "nan"]);
/** The engine parses such a name before a word as the aggregation (aggr.go). */
const AGGREGATIONS = new Set(
  [
    "any avg bottomk count count_values distinct geomean group histogram limitk mad max median min".split(" "),
    ["mode", "outliers_iqr", "outliers_mad", "outliersk", "quantile", "quantiles", "share", "stddev", "stdvar", "sum", "sum2", "topk"],
    ["topk", "bottomk"].flatMap((name) => ["avg", "max", "median", "last", "min"].map((of) => `${name}_${of}`)),
    ["zscore"],
  ].flat(),
);
const COMPARISONS = new Set(["==", "!=", "<", ">", "<=", ">="]);
const LABEL_OPERATORS = new Set(["=", "!=", "=~", "!~"]);
/** The assumed step. */
const STEP_MS = 300_000;
const COUNT = /^\d{1,9}$/;
/** The time after `@`. */
const SECONDS = /^\d{1,11}(?:\.\d*)?$/;
/** A name that needs no quotes in the engine's printed form, because its escapes represent it. */
const PLAIN_NAME = /^[\p{L}\p{N}_:.\-/ ]+$/u;

/** The kinds of content in parentheses: an expression, the arguments of a call, the labels of `on`, `group_left` and `by`. */
type Open = "expression" | "arguments" | "matching" | "labels" | "grouping" | "window";

/** The reason, for the user, why the engine must not get the expression; undefined if it may. Reads each token once. */
export function refusalOf(expression: string): string | undefined {
  if (Buffer.byteLength(expression) > MAX_EXPRESSION_BYTES) return `is longer than ${MAX_EXPRESSION_BYTES} bytes`;
  try {
    new Guard(tokenize(expression, () => {})).read();
    return undefined;
  } catch (error) {
    if (error instanceof ExpressionError) return error.message;
    throw error;
  }
}

class Guard {
  readonly #tokens: readonly Token[];
  /** The engine does not print a selector that is the whole expression, so its metric may have the name of a keyword. */
  readonly #isSelector: boolean;
  readonly #open: Open[] = [];
  readonly #labels = new LabelGrowth();
  #selectors = 0;
  #at = 0;
  /** A metric with the name of an aggregation, and a word that may follow it in the printed form. */
  #aggregation: string | undefined;
  #operator: string | undefined;
  /** The content of the parentheses that the previous token closed. */
  #closed: Open | undefined;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
    const opening = tokens.findIndex(({ text }) => text === "{");
    const closing = tokens.findIndex(({ text }) => text === "}");
    const isNamed = tokens[0]?.kind === "name";
    this.#isSelector = opening < 0 ? isNamed && tokens.length === 1 : opening === (isNamed ? 1 : 0) && closing === tokens.length - 1;
  }

  read(): void {
    while (this.#at < this.#tokens.length) {
      const token = this.#token(0);
      const closed = this.#step(token);
      this.#closed = closed;
      this.#at += 1;
    }
    if (this.#aggregation !== undefined && this.#operator !== undefined) throw onlyMatched(this.#aggregation, ` next to ${this.#operator}`);
    this.#labels.end();
  }

  /** Reads one token; returns what it closed. */
  #step(token: Token): Open | undefined {
    const inside = this.#open.at(-1);
    if (token.kind === "name") this.#name(token, inside);
    if (token.kind === "text") this.#string(inside);
    if (inside === "window") withinReach(token.text.replace(":", ""));
    else if (token.kind === "number" && this.#isOffset()) withinReach(token.text);
    if (token.kind !== "symbol") return undefined;
    if (token.text === "{") this.#braces();
    else if (token.text === "@") this.#moment();
    else if (token.text === ",") this.#labels.comma();
    else if (token.text === "[") this.#enter("window");
    else if (token.text === "(") this.#enter(this.#parentheses());
    else if (token.text === ")" || token.text === "]") {
      this.#labels.close();
      return this.#open.pop();
    }
    return undefined;
  }

  #enter(open: Open): void {
    this.#open.push(open);
    this.#labels.open(open === "arguments" ? (this.#word(-1)?.word ?? "") : "");
  }

  #isOffset(): boolean {
    const before = this.#word(-1);
    return before?.word === "offset" || (before?.text === "-" && this.#word(-2)?.word === "offset");
  }

  #parentheses(): Open {
    const before = this.#word(-1);
    // `sum by (a) (b)`
    if (this.#closed === "grouping") return "arguments";
    if (before === undefined || before.kind !== "name") return "expression";
    if (MATCHING.has(before.word)) return "matching";
    if (JOINING.has(before.word)) return "labels";
    if (GROUPING.has(before.word)) return "grouping";
    return WORDS.has(before.word) ? "expression" : "arguments";
  }

  #name({ text }: Token, inside: Open | undefined): void {
    if (text.includes("\\")) throw new ExpressionError(`takes names without escapes, not ${quoted(text)}`);
    const word = text.toLowerCase();
    if (isOfLabels(inside) || inside === "window") return;
    if (word === "limit_offset" && !this.#hasPlainLimits()) throw new ExpressionError("takes two numbers first in limit_offset(5, 10, q)");
    if (AGGREGATIONS.has(word) && this.#word(1)?.text !== "(" && !GROUPING.has(this.#word(1)?.word ?? "")) this.#aggregation ??= word;
    if (OPERATORS.has(word) || word === "keep_metric_names") this.#operator ??= word;
    if (word === "with" && this.#word(1)?.text === "(") throw new ExpressionError("does not take WITH templates: write the expression out");
    if (WORDS.has(word) && !this.#isSelector && !this.#isInPlace(word)) throw onlyMatched(text, " there");
    const after = this.#word(1);
    if (!WORDS.has(word) && after?.text !== "(" && !GROUPING.has(after?.word ?? "")) this.#countSelector();
  }

  #countSelector(): void {
    this.#selectors += 1;
    if (this.#selectors > MAX_SELECTORS) throw new ExpressionError(`takes at most ${MAX_SELECTORS} series selectors`);
  }

  /** The engine slices by these values without checking them (promql/transform.go). */
  #hasPlainLimits(): boolean {
    const [open, limit, comma, offset, end] = [1, 2, 3, 4, 5].map((at) => this.#word(at)?.text ?? "");
    return open === "(" && COUNT.test(limit ?? "") && comma === "," && COUNT.test(offset ?? "") && end === ",";
  }

  /** Whether a keyword is in a position where the engine never reads it as a name. */
  #isInPlace(word: string): boolean {
    const [before, after] = [this.#word(-1), this.#word(1)];
    if (OPERATORS.has(word)) return this.#endsOperand();
    if (word === "bool")
      return before !== undefined && COMPARISONS.has(before.text) && after !== undefined && !/^[)\],[]$/.test(after.text);
    if (MATCHING.has(word)) return after?.text === "(" && before !== undefined && (before.word === "bool" || isOperator(before));
    if (JOINING.has(word)) return this.#closed === "matching";
    if (GROUPING.has(word))
      return after?.text === "(" && (this.#closed === "arguments" || (before?.kind === "name" && !WORDS.has(before.word)));
    if (word === "offset") return this.#endsOperand() && (after?.kind === "number" || after?.text === "-");
    if (word === "keep_metric_names") return this.#closed === "arguments" || this.#closed === "expression";
    if (word === "limit") return (this.#closed === "arguments" || this.#closed === "grouping") && after?.kind === "number";
    return false;
  }

  /** Whether the previous token may end an operand. */
  #endsOperand(): boolean {
    const before = this.#word(-1);
    if (before === undefined) return false;
    if (before.text === ")") return this.#closed !== "matching";
    if (before.kind === "name") return !WORDS.has(before.word) || before.word === "keep_metric_names";
    return before.kind === "number" || before.text === "}" || before.text === "]";
  }

  /** A string must be a whole argument or a quoted label: next to an operator, the engine would read the following name as a template. */
  #string(inside: Open | undefined): void {
    const [before, after] = [this.#word(-1)?.text, this.#word(1)?.text];
    if (isOfLabels(inside)) plainName(this.#token(0));
    else if (inside !== "arguments" || (before !== "(" && before !== ",") || (after !== ")" && after !== ","))
      throw new ExpressionError("takes strings only as function arguments and as label values");
    else this.#labels.text(this.#token(0).text);
  }

  /**
   * `@` accepts a time in seconds, start() or end(): the printed form of other expressions may end elsewhere, and distant times overflow in
   * the engine.
   */
  #moment(): void {
    const after = this.#word(1);
    const isEdge = (after?.word === "start" || after?.word === "end") && this.#word(2)?.text === "(" && this.#word(3)?.text === ")";
    if (!isEdge && !(after?.kind === "number" && SECONDS.test(after.text)))
      throw new ExpressionError("takes a time in seconds, start() or end() after @");
  }

  /** `{name="value", … or …}`, up to the brace that closes it. */
  #braces(): void {
    const before = this.#word(-1);
    // Other words are operators and modifiers: `a and {"b"}`.
    let names = before?.kind === "name" && (this.#isSelector || !WORDS.has(before.word)) ? 1 : 0;
    if (names === 0) this.#countSelector();
    let [isOfNames, hasAlternatives] = [false, false];
    for (this.#at += 1; this.#word(0)?.text !== "}";) {
      const about = this.#filter();
      if (about !== "label") isOfNames = true;
      if (about === "name" && ++names > 1)
        throw new ExpressionError(
          AGGREGATIONS.has(before?.word ?? "") ? `takes parentheses after ${before?.word}` : "takes one metric name",
        );
      const after = this.#word(0);
      if (after?.word === "or") hasAlternatives = true;
      else if (after?.text !== ",") break;
      this.#at += 1;
      if (after.word === "or" && this.#word(0)?.text === "}") throw new ExpressionError('takes a filter after "or" in braces');
    }
    if (this.#word(0)?.text !== "}") throw new ExpressionError('takes filters such as name="value" between braces, with commas');
    if (hasAlternatives && isOfNames) throw new ExpressionError('takes the metric name before the braces if these contain "or"');
  }

  /** Reads `label="value"` or `"metric name"`; returns whether it names the metric, matches its name, or neither. */
  #filter(): "name" | "names" | "label" {
    const label = this.#word(0);
    const operator = this.#word(1)?.text ?? "";
    if (label === undefined || !/^(?:name|text)$/.test(label.kind) || (label.word === "or" && !LABEL_OPERATORS.has(operator)))
      throw new ExpressionError('takes filters such as name="value" between braces, with commas');
    const name = label.kind === "text" ? plainName(label) : label.text;
    if (!LABEL_OPERATORS.has(operator)) {
      if (label.kind === "name") throw new ExpressionError(`takes an operator after the label ${quoted(name)}`);
      this.#metric(name);
      this.#at += 1;
      return "name";
    }
    const value = this.#word(2);
    if (value?.kind !== "text") throw new ExpressionError(`takes one string as the value of the label ${quoted(name)}`);
    if (name === "__name__" && operator === "=" && value.text.length > 2) this.#metric(plainName(value));
    this.#at += 3;
    return name !== "__name__" ? "label" : operator === "=" ? "name" : "names";
  }

  /** A metric name that is quoted here but not in the engine's printed form. */
  #metric(name: string): void {
    const word = name.toLowerCase();
    if (NUMBERS.has(word) || (WORDS.has(word) && !this.#isSelector)) throw onlyMatched(name, "");
    if (AGGREGATIONS.has(word)) this.#aggregation ??= name;
  }

  #token(offset: number): Token {
    return this.#tokens[this.#at + offset] as Token;
  }

  #word(offset: number): (Token & { readonly word: string }) | undefined {
    const token = this.#tokens[this.#at + offset];
    return token && { ...token, word: token.kind === "name" ? token.text.toLowerCase() : "" };
  }
}

function isOfLabels(inside: Open | undefined): boolean {
  return inside === "labels" || inside === "matching" || inside === "grouping";
}

function isOperator({ kind, text }: Token): boolean {
  return kind === "name" ? OPERATORS.has(text.toLowerCase()) : /^(?:[-+*/%^<>]|[=!<>]=)$/.test(text);
}

function onlyMatched(name: string, where: string): ExpressionError {
  return new ExpressionError(`does not take ${quoted(name)}${where}; a metric of that name is {__name__=~${quoted(name)}}`);
}

/** Throws if a part of a window, or an offset, is too long. */
function withinReach(text: string): void {
  if (/^(?:[-\]]?|\$.*)$/.test(text)) return;
  const ms = expressionDurationMs(text, STEP_MS);
  if (ms === undefined || ms > MAX_DURATION_MS)
    throw new ExpressionError(`takes durations such as 5m or 1h30m up to 100y, not ${quoted(text)}`);
}

function plainName({ text }: Token): string {
  const name = text.slice(1, -1);
  if (!PLAIN_NAME.test(name)) throw new ExpressionError(`takes letters, digits and _ : . - / in a name, not ${quoted(text)}`);
  return name;
}

function quoted(text: string): string {
  return JSON.stringify(text.slice(0, 50));
}

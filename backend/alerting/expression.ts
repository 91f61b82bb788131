// Checks whether an expression can be the condition of an alert: a comparison without `bool`, `and` / `or` / `unless` of comparisons, an
// aggregation over one, or `absent…()`. Invariants: operators bind as in the engine (metricsql v0.87, binary_op.go); an expression that is
// not understood is refused; each token is read once and each operator placed once, because every user with read access can trigger this
// check, on the thread that serves all requests. Whether functions and arguments exist is checked by the engine.
import { ExpressionError, tokenize, type Token } from "../engines/victoria-metrics/expression-tokens.ts";
import { MAX_EXPRESSION_DEPTH, MAX_EXPRESSION_OPERATORS } from "./alerting-limits.ts";

/** From loosest to tightest, as in the engine (metricsql v0.87, binary_op.go); only `^` groups to the right. */
const PRIORITY: ReadonlyMap<string, number> = new Map(
  [
    ["default"],
    ["if", "ifnot"],
    ["or"],
    ["and", "unless"],
    ["==", "!=", "<", ">", "<=", ">="],
    ["+", "-"],
    ["*", "/", "%", "atan2"],
    ["^"],
  ].flatMap((ops, priority) => ops.map((op) => [op, priority] as const)),
);
const COMPARISONS = new Set(["==", "!=", "<", ">", "<=", ">="]);
const SET_OPERATORS = new Set(["and", "or", "unless"]);

function isOperator({ kind, text }: Token): boolean {
  return kind !== "text" && PRIORITY.has(text.toLowerCase());
}

function bindsTighter(op: string, than: string): boolean {
  const difference = (PRIORITY.get(op) ?? 0) - (PRIORITY.get(than) ?? 0);
  return difference > 0 || (difference === 0 && op === "^");
}

/** Why a part of an expression cannot be an alert, for the user; undefined if it can. */
type Objection = string | undefined;

interface PendingOperator {
  readonly op: string;
  readonly bool: boolean;
}

const ABSENT = new Set(["absent", "absent_over_time"]);
/** Aggregations that are empty if their operand is, with the number of arguments before the operand. */
const AGGREGATIONS: ReadonlyMap<string, number> = new Map([
  ...["any", "avg", "count", "distinct", "geomean", "group", "mad", "max", "median", "min", "mode"].map((name) => [name, 0] as const),
  ...["stddev", "stdvar", "sum", "sum2"].map((name) => [name, 0] as const),
  ...["bottomk", "count_values", "limitk", "quantile", "topk"].map((name) => [name, 1] as const),
]);
const CLOSING: Readonly<Record<string, string>> = { "(": ")", "{": "}", "[": "]" };
const CLOSES = new Set(Object.values(CLOSING));
const VALUE = notAnAlert("a value");

/** Why the expression cannot be the condition of an alert, for the user; undefined if it can. */
export function findExpressionProblem(expression: string): string | undefined {
  return analyseExpression(expression).problem;
}

/** Like `findExpressionProblem`, but also counts the parser's steps, for tests. */
export function analyseExpression(expression: string): { readonly problem: string | undefined; readonly steps: number } {
  let parser: Parser | undefined;
  try {
    const tokens = tokenize(expression, createBoundsCheck());
    parser = new Parser(tokens);
    const template = tokens.some(({ kind, text }, at) => kind === "name" && /^with$/i.test(text) && tokens[at + 1]?.text === "(");
    if (template) return { problem: "WITH templates are not supported in rules", steps: 0 };
    return { problem: parser.parse(), steps: parser.steps };
  } catch (error) {
    if (error instanceof ExpressionError) return { problem: error.message, steps: parser?.steps ?? 0 };
    throw error;
  }
}

/** Throws at the first token beyond the limit, so that the rest is not even read. */
function createBoundsCheck(): (token: Token) => void {
  let [operators, depth] = [0, 0];
  return (token) => {
    if (isOperator(token) && ++operators > MAX_EXPRESSION_OPERATORS)
      throw new ExpressionError(`has more than ${MAX_EXPRESSION_OPERATORS} operators: split the rule`);
    if (token.kind === "symbol" && token.text in CLOSING && ++depth > MAX_EXPRESSION_DEPTH) throw tooDeep();
    if (token.kind === "symbol" && CLOSES.has(token.text)) depth -= 1;
  };
}

/** The objection to an operator between two parts. */
function combineObjections({ op, bool }: PendingOperator, left: Objection, right: Objection): Objection {
  if (SET_OPERATORS.has(op)) return left ?? right;
  if (!COMPARISONS.has(op)) return notAnAlert(`\`${op}\``);
  return bool ? "a comparison with bool always has a result and would always alert: remove bool" : undefined;
}

function notAnAlert(description: string): string {
  return `must be a comparison such as \`rate(errors_total[5m]) > 1\`, comparisons combined by \`and\`, \`or\` or \`unless\`, an aggregation of a comparison, or absent(…), not ${description}`;
}

class Parser {
  readonly #tokens: readonly Token[];
  #at = 0;
  #depth = 0;
  /** Number of tokens read and operators placed. */
  steps = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  parse(): Objection {
    const objection = this.#expression();
    if (this.#peek() !== undefined) throw unexpected(this.#peek());
    return objection;
  }

  #expression(): Objection {
    this.#deeper();
    const operands = [this.#operand()];
    const pending: PendingOperator[] = [];
    for (let op = this.#operator(); op !== undefined; op = this.#operator()) {
      const bool = this.#modifiers();
      for (let last = pending.at(-1); last && !bindsTighter(op, last.op); last = pending.at(-1)) this.#place(operands, pending);
      operands.push(this.#operand());
      pending.push({ op, bool });
    }
    while (pending.length > 0) this.#place(operands, pending);
    this.#depth -= 1;
    return operands[0];
  }

  /** Applies the last operator to the last two operands. */
  #place(operands: Objection[], pending: PendingOperator[]): void {
    this.steps += 1;
    const [right, left, operator] = [operands.pop(), operands.pop(), pending.pop()];
    if (operator) operands.push(combineObjections(operator, left, right));
  }

  #deeper(): void {
    if (++this.#depth > MAX_EXPRESSION_DEPTH) throw tooDeep();
  }

  /** Reads the operator at this position, if there is one. */
  #operator(): string | undefined {
    const token = this.#peek();
    if (!token || !isOperator(token)) return undefined;
    this.#at += 1;
    return token.text.toLowerCase();
  }

  /** Reads modifiers between an operator and its right side. Returns whether `bool` was among them. */
  #modifiers(): boolean {
    const bool = this.#take("bool");
    if (this.#take("on") || this.#take("ignoring")) {
      this.#brackets("(");
      if (this.#take("group_left") || this.#take("group_right")) {
        if (this.#is("(")) this.#brackets("(");
        if (this.#take("prefix")) this.#next();
      }
    }
    while ((this.#is("fill") || this.#is("fill_left") || this.#is("fill_right")) && this.#tokens[this.#at + 1]?.text === "(") {
      this.#at += 1;
      this.#brackets("(");
    }
    return bool;
  }

  #operand(): Objection {
    this.#deeper();
    const objection = this.#signed() ?? this.#rollup(this.#primary());
    this.#depth -= 1;
    return objection;
  }

  #signed(): Objection {
    if (!this.#take("-") && !this.#take("+")) return undefined;
    this.#operand();
    return VALUE;
  }

  #primary(): Objection {
    if (this.#is("(")) return this.#parentheses();
    if (this.#is("{")) {
      this.#brackets("{");
      return VALUE;
    }
    const token = this.#next();
    if (token.kind === "symbol") throw unexpected(token);
    return token.kind === "name" ? this.#named(token.text.toLowerCase()) : VALUE;
  }

  /** `(expression)` is the same as the expression; a list in parentheses is a union. */
  #parentheses(): Objection {
    const parts = this.#list();
    this.#take("keep_metric_names");
    return parts.length === 1 ? parts[0] : VALUE;
  }

  /** The arguments between parentheses, separated by commas; the last one may be followed by a comma. */
  #list(): Objection[] {
    if (!this.#take("(")) throw unexpected(this.#peek());
    const parts: Objection[] = [];
    while (!this.#is(")")) {
      parts.push(this.#expression());
      if (!this.#take(",")) break;
    }
    if (!this.#take(")")) throw unexpected(this.#peek());
    return parts;
  }

  /** A metric, a function call or an aggregation, with its arguments and modifiers. */
  #named(name: string): Objection {
    if (this.#is("{")) {
      this.#brackets("{");
      return VALUE;
    }
    this.#grouping();
    if (!this.#is("(")) return VALUE;
    const objection = this.#call(name);
    this.#take("keep_metric_names");
    this.#grouping();
    if (this.#take("limit")) this.#next();
    return objection;
  }

  #call(name: string): Objection {
    const before = AGGREGATIONS.get(name);
    if (before !== undefined) {
      const parts = this.#list();
      return parts.length === before + 1 ? parts[before] : notAnAlert(`${name}()`);
    }
    this.#brackets("(");
    return ABSENT.has(name) ? undefined : notAnAlert(`${name}()`);
  }

  #grouping(): void {
    if (!this.#is("by") && !this.#is("without")) return;
    if (this.#tokens[this.#at + 1]?.text !== "(") return;
    this.#at += 1;
    this.#brackets("(");
  }

  /** `[window]`, `offset` and `@` turn any expression into a rollup, which is a value. */
  #rollup(objection: Objection): Objection {
    let result = objection;
    for (;;) {
      if (this.#is("[")) this.#brackets("[");
      else if (this.#take("offset")) this.#offset();
      else if (this.#take("@")) this.#primary();
      else break;
      result = VALUE;
    }
    this.#take("keep_metric_names");
    return result;
  }

  #offset(): void {
    this.#take("-");
    if (this.#is("(")) this.#brackets("(");
    else this.#next();
  }

  /** Skips everything up to the closing bracket. */
  #brackets(opening: string): void {
    if (!this.#is(opening)) throw unexpected(this.#peek());
    const expected: string[] = [];
    do {
      const token = this.#next();
      if (token.kind !== "symbol") continue;
      const closing = CLOSING[token.text];
      if (closing !== undefined && expected.push(closing) + this.#depth > MAX_EXPRESSION_DEPTH) throw tooDeep();
      if (/^[)}\]]$/.test(token.text) && expected.pop() !== token.text) throw unexpected(token);
    } while (expected.length > 0);
  }

  #peek(): Token | undefined {
    this.steps += 1;
    return this.#tokens[this.#at];
  }

  #is(text: string): boolean {
    const token = this.#peek();
    return token !== undefined && token.kind !== "text" && token.text.toLowerCase() === text;
  }

  #take(text: string): boolean {
    const found = this.#is(text);
    if (found) this.#at += 1;
    return found;
  }

  #next(): Token {
    const token = this.#peek();
    if (!token) throw unexpected(token);
    this.#at += 1;
    return token;
  }
}

function unexpected(token: Token | undefined): ExpressionError {
  return new ExpressionError(
    token ? `does not expect ${JSON.stringify(token.text.slice(0, 20))} there` : "ends too early: a bracket or an operand is missing",
  );
}

function tooDeep(): ExpressionError {
  return new ExpressionError(`is nested more than ${MAX_EXPRESSION_DEPTH} deep`);
}

// Decides whether an expression says when to alert: a comparison without `bool`, `and` / `or` / `unless` of such, or `absent…()`.
// Invariant: operators bind as in the engine (metricsql v0.87, binary_op.go), and what is not understood is refused, never let through;
// whether functions and arguments exist is for the engine to say. Used when a rule is validated.
import { ExpressionError, tokenize, type Token } from "./expression-tokens.ts";

type Node =
  | { readonly kind: "binary"; readonly op: string; readonly bool: boolean; readonly left: Node; readonly right: Node }
  | { readonly kind: "parentheses"; readonly inner: Node }
  | { readonly kind: "call"; readonly name: string }
  | { readonly kind: "value" };

/** From loosest to tightest; only `^` groups to the right. */
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
const ABSENT = new Set(["absent", "absent_over_time"]);
const CLOSING: Readonly<Record<string, string>> = { "(": ")", "{": "}", "[": "]" };
const MAX_DEPTH = 100;

/** Undefined when the expression can be an alert; else why not, for the user. */
export function whyNoAlert(expression: string): string | undefined {
  try {
    const tokens = tokenize(expression);
    const template = tokens.some(({ kind, text }, at) => kind === "name" && /^with$/i.test(text) && tokens[at + 1]?.text === "(");
    if (template) return "WITH templates are not supported in rules";
    return objection(new Parser(tokens).parse());
  } catch (error) {
    if (error instanceof ExpressionError) return error.message;
    throw error;
  }
}

function objection(node: Node): string | undefined {
  if (node.kind === "parentheses") return objection(node.inner);
  if (node.kind === "call" && ABSENT.has(node.name)) return undefined;
  if (node.kind === "binary" && SET_OPERATORS.has(node.op)) return objection(node.left) ?? objection(node.right);
  if (node.kind === "binary" && COMPARISONS.has(node.op)) {
    return node.bool ? "a comparison with bool is always true or false and would always alert: leave bool out" : undefined;
  }
  const found = node.kind === "binary" ? `\`${node.op}\`` : node.kind === "call" ? `${node.name}()` : "a value";
  return `must be a comparison such as \`rate(errors_total[5m]) > 1\`, \`and\`, \`or\`, \`unless\` of such, or absent(…), not ${found}`;
}

class Parser {
  readonly #tokens: readonly Token[];
  #at = 0;
  #depth = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  parse(): Node {
    const node = this.#expression();
    if (this.#peek() !== undefined) throw unexpected(this.#peek());
    return node;
  }

  #expression(): Node {
    if (++this.#depth > MAX_DEPTH) throw new ExpressionError(`is nested more than ${MAX_DEPTH} deep`);
    let node = this.#operand();
    for (let op = this.#operator(); op !== undefined; op = this.#operator()) {
      const bool = this.#modifiers();
      node = placed(node, op, bool, this.#operand());
    }
    this.#depth -= 1;
    return node;
  }

  /** Takes the operator that stands here, if one does. */
  #operator(): string | undefined {
    const op = this.#peek()?.text.toLowerCase();
    if (op === undefined || this.#peek()?.kind === "text" || !PRIORITY.has(op)) return undefined;
    this.#at += 1;
    return op;
  }

  /** What may stand between an operator and its right side. Answers whether `bool` did. */
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

  #operand(): Node {
    if (++this.#depth > MAX_DEPTH) throw new ExpressionError(`is nested more than ${MAX_DEPTH} deep`);
    const node = this.#signed() ?? this.#rolledUp(this.#primary());
    this.#depth -= 1;
    return node;
  }

  #signed(): Node | undefined {
    if (!this.#take("-") && !this.#take("+")) return undefined;
    this.#operand();
    return { kind: "value" };
  }

  #primary(): Node {
    if (this.#is("(")) return this.#parentheses();
    if (this.#is("{")) {
      this.#brackets("{");
      return { kind: "value" };
    }
    const token = this.#next();
    if (token.kind === "symbol") throw unexpected(token);
    if (token.kind === "name") return this.#named(token.text.toLowerCase());
    return { kind: "value" };
  }

  /** `(expression)` is that expression; a list in parentheses is a union. */
  #parentheses(): Node {
    this.#at += 1;
    if (this.#take(")")) return { kind: "value" };
    let node: Node = { kind: "parentheses", inner: this.#expression() };
    while (this.#take(",")) {
      node = { kind: "value" };
      if (this.#is(")")) break;
      this.#expression();
    }
    if (!this.#take(")")) throw unexpected(this.#peek());
    this.#take("keep_metric_names");
    return node;
  }

  /** A metric, a function call or an aggregation, with what belongs to it. */
  #named(name: string): Node {
    let node: Node = { kind: "value" };
    if (this.#is("{")) {
      this.#brackets("{");
      return node;
    }
    this.#grouping();
    if (!this.#is("(")) return node;
    this.#brackets("(");
    node = { kind: "call", name };
    this.#take("keep_metric_names");
    this.#grouping();
    if (this.#take("limit")) this.#next();
    return node;
  }

  #grouping(): void {
    if (!this.#is("by") && !this.#is("without")) return;
    if (this.#tokens[this.#at + 1]?.text !== "(") return;
    this.#at += 1;
    this.#brackets("(");
  }

  /** `[window]`, `offset`, `@` make any expression a rollup: a value. */
  #rolledUp(node: Node): Node {
    let rolled = node;
    for (;;) {
      if (this.#is("[")) this.#brackets("[");
      else if (this.#take("offset")) this.#offset();
      else if (this.#take("@")) this.#primary();
      else break;
      rolled = { kind: "value" };
    }
    this.#take("keep_metric_names");
    return rolled;
  }

  #offset(): void {
    this.#take("-");
    if (this.#is("(")) this.#brackets("(");
    else this.#next();
  }

  /** Passes over everything between an opening bracket and the one that closes it. */
  #brackets(opening: string): void {
    if (!this.#is(opening)) throw unexpected(this.#peek());
    const expected: string[] = [];
    do {
      const token = this.#next();
      if (token.kind !== "symbol") continue;
      const closing = CLOSING[token.text];
      if (closing !== undefined) expected.push(closing);
      else if (/^[)}\]]$/.test(token.text) && expected.pop() !== token.text) throw unexpected(token);
    } while (expected.length > 0);
  }

  #peek(): Token | undefined {
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

/** Puts one more operator and operand after a tree, where its priority says. */
function placed(left: Node, op: string, bool: boolean, right: Node): Node {
  if (left.kind === "binary" && bindsTighter(op, left.op)) {
    return { ...left, right: placed(left.right, op, bool, right) };
  }
  return { kind: "binary", op, bool, left, right };
}

function bindsTighter(op: string, than: string): boolean {
  const difference = (PRIORITY.get(op) ?? 0) - (PRIORITY.get(than) ?? 0);
  return difference > 0 || (difference === 0 && op === "^");
}

function unexpected(token: Token | undefined): ExpressionError {
  return new ExpressionError(token ? `does not expect ${JSON.stringify(token.text.slice(0, 20))} there` : "ends too early");
}

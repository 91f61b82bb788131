// Parses the templates of line_format and label_format, which use the syntax of Go's text/template, and runs them for a record. Invariant:
// when the query is parsed, an unsupported action or function is rejected with an error that names it; a template that fails on a record
// leaves its line unchanged and sets the label __error__.
import { MAX_TEMPLATE_CHARACTERS, MAX_TEMPLATE_DEPTH } from "../query-limits.ts";
import { unquote, wrongQuery } from "./grammar.ts";
import { charge, type Patterns } from "./regex.ts";
import { FUNCTIONS } from "./template-functions.ts";
import { formatValue, GoTime, isTrue, TemplateError, type Value } from "./template-values.ts";

// The reference page docs/reference/logql.md is generated from these tables, and read-query.test.ts compares them with Loki 3.7.
/** Unsupported function (reads the clock or time zones, creates structured values, or escapes for browsers) → its alternative. */
export const REFUSED_FUNCTIONS: Readonly<Record<string, string>> = {
  now: "use __timestamp__: the answer must not depend on when the query runs",
  toDate: "use __timestamp__ or unixToTime",
  toDateInZone: "use __timestamp__ or unixToTime; times are in UTC",
  fromJson: "use the stage json",
  call: "use the functions of this page",
  html: "line_format returns text; escape it where it is displayed",
  js: "line_format returns text; escape it where it is displayed",
  index: "name the label, such as {{.user}}",
  slice: "use substr or trunc",
  urlquery: "use urlencode",
};

/** Unsupported actions of Go's templates: with loops or recursive templates, a short query could run for any time. */
export const REFUSED_ACTIONS = ["range", "with", "define", "template", "block", "break", "continue"] as const;
export const INSTEAD_OF_ACTIONS = "write {{if}}, or one field after the other";

export type Operand =
  | { readonly kind: "text"; readonly value: string }
  | { readonly kind: "integer"; readonly value: bigint }
  | { readonly kind: "float"; readonly value: number }
  | { readonly kind: "bool"; readonly value: boolean }
  /** `name`: the name of a label. */
  | { readonly kind: "field"; readonly name: string }
  | { readonly kind: "variable"; readonly name: string }
  | { readonly kind: "pipeline"; readonly pipeline: Pipeline };

export interface Command {
  /** Undefined if the only operand is the value. */
  readonly call: string | undefined;
  readonly operands: readonly Operand[];
}

export interface Pipeline {
  readonly variable: string | undefined;
  readonly commands: readonly Command[];
}

export type TemplateNode =
  | { readonly kind: "text"; readonly text: string }
  | { readonly kind: "action"; readonly pipeline: Pipeline }
  | {
      readonly kind: "if";
      readonly condition: Pipeline;
      readonly nodes: readonly TemplateNode[];
      readonly otherwise: readonly TemplateNode[];
    };

/** Throws ApiError invalid_parameter. */
export function parseLineFormat(template: string, patterns?: Patterns): readonly TemplateNode[] {
  return new TemplateReader(template, patterns).readAll();
}

const TOKEN =
  /\s*(?:("(?:[^"\\\n]|\\.)*"|`[^`]*`)|([+-]?(?:0x[\da-f]+|\d+(?:\.\d*)?(?:e[+-]?\d+)?|\.\d+)(?![\w.]))|(\$\w*|\.[a-zA-Z_]\w*(?:\.\w+)*|\.|[a-zA-Z_]\w*)|(:=|=|\||\(|\)))/giy;

class TemplateReader {
  readonly #pieces: Piece[];
  readonly #patterns: Patterns | undefined;
  #at = 0;
  #depth = 0;

  constructor(template: string, patterns: Patterns | undefined) {
    this.#pieces = cutTemplate(template);
    this.#patterns = patterns;
  }

  readAll(): TemplateNode[] {
    const nodes = this.#readNodes();
    const unexpected = this.#pieces[this.#at];
    if (unexpected) throw createTemplateError(`unexpected {{${unexpected.text.slice(0, 50)}}}`);
    return nodes;
  }

  #readNodes(): TemplateNode[] {
    const nodes: TemplateNode[] = [];
    for (let piece = this.#pieces[this.#at]; piece; piece = this.#pieces[this.#at]) {
      const [word = ""] = /^\w+\b/.exec(piece.text) ?? [];
      if (piece.isAction && (word === "end" || word === "else")) break;
      this.#at += 1;
      if (!piece.isAction) nodes.push({ kind: "text", text: piece.text });
      else if (word === "if") nodes.push(this.#readIf(piece.text.slice(2)));
      else if ((REFUSED_ACTIONS as readonly string[]).includes(word))
        throw createTemplateError(`{{${word}}} is not supported: ${INSTEAD_OF_ACTIONS}`);
      else if (!piece.text.startsWith("/*")) nodes.push({ kind: "action", pipeline: this.#readPipeline(piece.text) });
    }
    return nodes;
  }

  #readIf(condition: string): TemplateNode {
    return this.#nested(() => this.#readBranches(condition));
  }

  /** Throws ApiError invalid_parameter. */
  #nested<T>(read: () => T): T {
    this.#depth += 1;
    if (this.#depth > MAX_TEMPLATE_DEPTH) throw createTemplateError(`is nested more than ${MAX_TEMPLATE_DEPTH} deep`);
    const value = read();
    this.#depth -= 1;
    return value;
  }

  #readBranches(condition: string): TemplateNode {
    const pipeline = this.#readPipeline(condition);
    const nodes = this.#readNodes();
    const next = this.#pieces[this.#at++];
    if (!next) throw createTemplateError("{{if}} without {{end}}");
    if (next.text === "end") return { kind: "if", condition: pipeline, nodes, otherwise: [] };
    const [, elseCondition = ""] = /^else\s+if\b(.*)$/s.exec(next.text) ?? [];
    // One `end` closes both the inner and the outer if.
    if (elseCondition) return { kind: "if", condition: pipeline, nodes, otherwise: [this.#readIf(elseCondition)] };
    const otherwise = this.#readNodes();
    if (this.#pieces[this.#at++]?.text !== "end") throw createTemplateError("{{else}} without {{end}}");
    return { kind: "if", condition: pipeline, nodes, otherwise };
  }

  #readPipeline(text: string): Pipeline {
    const tokens = tokensOf(text);
    const pipeline = this.#pipelineOf(tokens);
    if (tokens.length > 0) throw createTemplateError(`unexpected ${tokens[0]} in {{${text.slice(0, 100)}}}`);
    return pipeline;
  }

  #pipelineOf(tokens: string[]): Pipeline {
    const variable =
      tokens[0]?.startsWith("$") && (tokens[1] === ":=" || tokens[1] === "=") ? (tokens.splice(0, 2)[0] as string) : undefined;
    const commands: Command[] = [];
    do {
      commands.push(this.#commandOf(tokens, commands.length > 0));
    } while (tokens[0] === "|" && tokens.shift());
    return { variable, commands };
  }

  #commandOf(tokens: string[], isPiped: boolean): Command {
    const operands: Operand[] = [];
    const [first = ""] = tokens;
    const call = /^[a-zA-Z_]/.test(first) && first !== "true" && first !== "false" ? (tokens.shift() as string) : undefined;
    while (tokens.length > 0 && tokens[0] !== "|" && tokens[0] !== ")") operands.push(this.#operandOf(tokens));
    if (call !== undefined) {
      checkFunction(call);
      const [pattern] = operands;
      if (/^regexReplaceAll|^count$/.test(call) && pattern?.kind === "text") this.#patterns?.compile(pattern.value);
    } else if (operands.length !== 1 || isPiped) throw createTemplateError(`can't give argument to non-function ${first || "nothing"}`);
    return { call, operands };
  }

  #operandOf(tokens: string[]): Operand {
    const token = tokens.shift() as string;
    if (token === "(") {
      const pipeline = this.#nested(() => this.#pipelineOf(tokens));
      if (tokens.shift() !== ")") throw createTemplateError("unclosed left paren");
      return { kind: "pipeline", pipeline };
    }
    if (/^["`]/.test(token)) return { kind: "text", value: unquote(token) };
    if (/^[+-]?[\d.]*\d/.test(token)) return numberOf(token);
    if (token === "true" || token === "false") return { kind: "bool", value: token === "true" };
    if (token.startsWith("$") && token !== "$") return { kind: "variable", name: token };
    if (/^\.\w+$/.test(token)) return { kind: "field", name: token.slice(1) };
    if (/^[a-zA-Z_]\w*$/.test(token)) {
      checkFunction(token);
      return { kind: "pipeline", pipeline: { variable: undefined, commands: [{ call: token, operands: [] }] } };
    }
    throw createTemplateError(`${token} is not supported`);
  }
}

function numberOf(token: string): Operand {
  if (/^[+-]?(?:\d+|0x[\da-f]+)$/i.test(token)) {
    const isNegative = token.startsWith("-");
    const value = BigInt(token.replace(/^[+-]/, ""));
    return { kind: "integer", value: isNegative ? -value : value };
  }
  return { kind: "float", value: Number(token) };
}

/** Functions that a template may call in addition to FUNCTIONS. */
export const LANGUAGE_FUNCTIONS = ["__line__", "__timestamp__", "and", "or"] as const;

function checkFunction(name: string): void {
  if (Object.hasOwn(FUNCTIONS, name) || (LANGUAGE_FUNCTIONS as readonly string[]).includes(name)) return;
  const instead = Object.hasOwn(REFUSED_FUNCTIONS, name) ? `: ${REFUSED_FUNCTIONS[name]}` : "";
  throw createTemplateError(`function "${name}" is not supported${instead}`);
}

function tokensOf(text: string): string[] {
  const tokens: string[] = [];
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < text.trimEnd().length) {
    const from = TOKEN.lastIndex;
    const token = TOKEN.exec(text);
    if (!token)
      throw createTemplateError(`unexpected ${JSON.stringify(text.slice(from).trim().slice(0, 20))} in {{${text.slice(0, 100)}}}`);
    tokens.push(token[0].trim());
  }
  if (tokens.length === 0) throw createTemplateError("missing value for command");
  return tokens;
}

export interface Piece {
  readonly text: string;
  readonly isAction: boolean;
}

/** `{{- ` and ` -}}` remove the white space around an action. Throws ApiError invalid_parameter. */
export function cutTemplate(template: string): Piece[] {
  const pieces: Piece[] = [];
  let at = 0;
  let trimsNext = false;
  const addText = (end: number, trimsEnd: boolean): void => {
    const whole = template.slice(at, end);
    const trimmedStart = trimsNext ? whole.trimStart() : whole;
    const text = trimsEnd ? trimmedStart.trimEnd() : trimmedStart;
    if (text !== "") pieces.push({ text, isAction: false });
  };
  for (let open = template.indexOf("{{"); open !== -1; open = template.indexOf("{{", at)) {
    const trimsBefore = template[open + 2] === "-" && isSpace(template[open + 3]);
    addText(open, trimsBefore);
    const from = open + (trimsBefore ? 3 : 2);
    const close = actionEnd(template, from);
    trimsNext = template[close - 1] === "-" && close - 2 >= from && isSpace(template[close - 2]);
    pieces.push({ text: template.slice(from, trimsNext ? close - 1 : close).trim(), isAction: true });
    at = close + 2;
  }
  addText(template.length, false);
  return pieces;
}

/** The position of the `}}` that ends an action, ignoring any `}}` within a string literal or a comment. */
function actionEnd(template: string, from: number): number {
  let at = from;
  while (at < template.length) {
    const character = template[at];
    if (character === "}" && template[at + 1] === "}") return at;
    if (character === '"') at = quoteEnd(template, at);
    else if (character === "`") at = endOf(template, "`", at + 1, "unterminated raw quoted string");
    else if (character === "/" && template[at + 1] === "*") at = endOf(template, "*/", at + 2, "unclosed comment") + 1;
    at += 1;
  }
  throw createTemplateError("unclosed action");
}

function quoteEnd(template: string, open: number): number {
  for (let at = open + 1; at < template.length && template[at] !== "\n"; at += 1) {
    if (template[at] === "\\") at += 1;
    else if (template[at] === '"') return at;
  }
  throw createTemplateError("unterminated quoted string");
}

function endOf(template: string, end: string, from: number, problem: string): number {
  const at = template.indexOf(end, from);
  if (at === -1) throw createTemplateError(problem);
  return at;
}

function isSpace(character: string | undefined): boolean {
  return character !== undefined && /\s/.test(character);
}

function createTemplateError(problem: string): Error {
  return wrongQuery(`invalid line template: ${problem}`);
}

export interface Scope {
  readonly labels: ReadonlyMap<string, string>;
  readonly line: string;
  readonly timeNs: bigint;
}

/** Maximum number of characters that urlencode, b64enc and upper return per input character. */
const GROWTH = 4;

export class Template {
  readonly #nodes: readonly TemplateNode[];

  /** Throws ApiError invalid_parameter. */
  constructor(text: string) {
    this.#nodes = parseLineFormat(text);
  }

  /** Throws TemplateError. */
  run(scope: Scope): string {
    const run = new Run(scope);
    run.writeNodes(this.#nodes);
    return run.text;
  }
}

class Run {
  readonly #scope: Scope;
  readonly #variables = new Map<string, Value>();
  text = "";

  constructor(scope: Scope) {
    this.#scope = scope;
  }

  writeNodes(nodes: readonly TemplateNode[]): void {
    for (const node of nodes) {
      if (node.kind === "text") this.#add(node.text);
      else if (node.kind === "if") this.writeNodes(isTrue(this.#evaluate(node.condition)) ? node.nodes : node.otherwise);
      else {
        const value = this.#evaluate(node.pipeline);
        if (node.pipeline.variable === undefined) this.#add(formatValue(value));
      }
    }
  }

  #add(text: string): void {
    charge(text.length);
    this.text += text;
    if (this.text.length > MAX_TEMPLATE_CHARACTERS) throw new TemplateError(`more than ${MAX_TEMPLATE_CHARACTERS} characters`);
  }

  #evaluate({ variable, commands }: Pipeline): Value {
    let value: Value | undefined;
    for (const command of commands) value = this.#runCommand(command, value);
    if (variable !== undefined) this.#variables.set(variable, value as Value);
    return value as Value;
  }

  #runCommand({ call, operands }: Command, piped: Value | undefined): Value {
    if (call === undefined) return this.#operand(operands[0] as Operand);
    if (call === "__line__") return this.#scope.line;
    if (call === "__timestamp__") return new GoTime(this.#scope.timeNs);
    if (call === "and" || call === "or") return this.#firstOf(call === "or", operands, piped);
    const values = operands.map((operand) => this.#operand(operand));
    if (piped !== undefined) values.push(piped);
    // Charges the record's budget (regex.ts) for a result up to GROWTH times as long as the texts. A function whose result may be longer
    // also charges for it.
    for (const value of values) if (typeof value === "string") charge(GROWTH * value.length);
    return (FUNCTIONS[call] as (...values: Value[]) => Value)(...values);
  }

  /** The first operand whose truth value is `expected`, otherwise the last. */
  #firstOf(expected: boolean, operands: readonly Operand[], piped: Value | undefined): Value {
    let value: Value | undefined;
    for (const operand of operands) {
      value = this.#operand(operand);
      if (isTrue(value) === expected) return value;
    }
    const last = piped ?? value;
    if (last === undefined) throw new TemplateError("wrong number of args for and, or");
    return last;
  }

  #operand(operand: Operand): Value {
    if (operand.kind === "field") return this.#scope.labels.get(operand.name) ?? "";
    if (operand.kind === "pipeline") return this.#evaluate(operand.pipeline);
    if (operand.kind !== "variable") return operand.value;
    const value = this.#variables.get(operand.name);
    if (value === undefined) throw new TemplateError(`undefined variable "${operand.name}"`);
    return value;
  }
}

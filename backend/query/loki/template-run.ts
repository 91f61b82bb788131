// A template and a line. Invariant: what a template cannot do leaves the line, and is its error.
import { charge } from "./record-work.ts";
import { FUNCTIONS, MOST_TEXT_CHARACTERS } from "./template-functions.ts";
import { type Command, type Operand, parseLineFormat, type Pipeline, type TemplateNode } from "./template.ts";
import { GoTime, isTrue, printed, TemplateError, type Value } from "./template-values.ts";

/** What a template sees. */
export interface Scope {
  readonly labels: ReadonlyMap<string, string>;
  readonly line: string;
  readonly timeNs: bigint;
}

/** Of a text that urlencode, b64enc or upper makes: characters for one that they were given. */
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
    run.nodes(this.#nodes);
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

  nodes(nodes: readonly TemplateNode[]): void {
    for (const node of nodes) {
      if (node.kind === "text") this.#add(node.text);
      else if (node.kind === "if") this.nodes(isTrue(this.#pipeline(node.condition)) ? node.nodes : node.otherwise);
      else {
        const value = this.#pipeline(node.pipeline);
        if (node.pipeline.assigns === undefined) this.#add(printed(value));
      }
    }
  }

  #add(text: string): void {
    charge(text.length);
    this.text += text;
    if (this.text.length > MOST_TEXT_CHARACTERS) throw new TemplateError(`more than ${MOST_TEXT_CHARACTERS} characters`);
  }

  #pipeline({ assigns, commands }: Pipeline): Value {
    let value: Value | undefined;
    for (const command of commands) value = this.#command(command, value);
    if (assigns !== undefined) this.#variables.set(assigns, value as Value);
    return value as Value;
  }

  #command({ call, operands }: Command, piped: Value | undefined): Value {
    if (call === undefined) return this.#operand(operands[0] as Operand);
    if (call === "__line__") return this.#scope.line;
    if (call === "__timestamp__") return new GoTime(this.#scope.timeNs);
    if (call === "and" || call === "or") return this.#firstOf(call === "or", operands, piped);
    const values = operands.map((operand) => this.#operand(operand));
    if (piped !== undefined) values.push(piped);
    // Each function walks its texts, and makes one that is not much longer; those that can make a longer one count that themselves.
    for (const value of values) if (typeof value === "string") charge(GROWTH * value.length);
    return (FUNCTIONS[call] as (...values: Value[]) => Value)(...values);
  }

  /** The first that is as wanted, else the last. */
  #firstOf(wanted: boolean, operands: readonly Operand[], piped: Value | undefined): Value {
    let value: Value | undefined;
    for (const operand of operands) {
      value = this.#operand(operand);
      if (isTrue(value) === wanted) return value;
    }
    const last = piped ?? value;
    if (last === undefined) throw new TemplateError("wrong number of args for and, or");
    return last;
  }

  #operand(operand: Operand): Value {
    if (operand.kind === "field") return this.#scope.labels.get(operand.name) ?? "";
    if (operand.kind === "pipeline") return this.#pipeline(operand.of);
    if (operand.kind !== "variable") return operand.value;
    const value = this.#variables.get(operand.name);
    if (value === undefined) throw new TemplateError(`undefined variable "${operand.name}"`);
    return value;
  }
}

// Parses the query language of log records (docs/log-query.md): words, fields, AND, OR, NOT and groups. Invariants: parsing takes time
// proportional to the length of the query; length, terms and depth are limited; invalid syntax is rejected with its column and an example,
// because ignoring a condition would return everything.
import { isLogQl, isMetricOfLogQl } from "../../../client/query-syntax.ts";
import { ApiError } from "../../../errors.ts";
import { quotedAt, wordAt } from "./scan.ts";

export const MAX_QUERY_CHARACTERS = 4000;
const MAX_TERMS = 100;
const MAX_DEPTH = 20;
const MAX_VALUES = 100;
const MAX_NAME_CHARACTERS = 300;

export type Comparison = "=" | ">" | ">=" | "<" | "<=";

/** `glob`: with `*` for any characters; `any`: the field exists. */
export interface FieldValue {
  readonly kind: "text" | "glob" | "regex" | "any";
  readonly text: string;
}

export type LogQuery =
  | { readonly kind: "and" | "or"; readonly parts: readonly LogQuery[] }
  | { readonly kind: "not"; readonly part: LogQuery }
  | { readonly kind: "message"; readonly value: FieldValue }
  /** Matches if one of the values does; a comparison has exactly one value. */
  | { readonly kind: "field"; readonly name: string; readonly comparison: Comparison; readonly values: readonly FieldValue[] };

const NAME = /^[A-Za-z_@][\w.@/-]*/;
const SIGN = /^(?:!=|>=|<=|:>=|:<=|:>|:<|[:=<>])/;
const FIELDS_WITH_EXAMPLE: Readonly<Record<string, string>> = {
  level: "level:error",
  source: "source:checkout",
  service: "service:checkout",
  node: "node:worker-1",
  host_id: "host_id:<id>",
  trace_id: "trace_id:<32 hex digits>",
};

/** Undefined for an empty query. Throws ApiError invalid_parameter. */
export function parseLogQuery(text: string): LogQuery | undefined {
  if (text.length > MAX_QUERY_CHARACTERS) throw new ApiError("invalid_parameter", `query: at most ${MAX_QUERY_CHARACTERS} characters`);
  return new Parser(text).parse();
}

class Parser {
  readonly #text: string;
  #at = 0;
  #depth = 0;
  #terms = 0;

  constructor(text: string) {
    this.#text = text;
  }

  parse(): LogQuery | undefined {
    this.#space();
    if (this.#at === this.#text.length) return undefined;
    if (isLogQl(this.#text)) throw this.#refusal(this.#at, "LogQL is not accepted here", 'service:checkout "timeout"');
    if (isMetricOfLogQl(this.#text))
      throw this.#refusal(
        this.#at,
        "a metric query of LogQL is charted by the console and answered by Loki's API, not with records",
        '{service_name="checkout"}',
      );
    const query = this.#or();
    if (this.#at < this.#text.length) throw this.#refusal(this.#at, "this ) closes nothing", '(error OR warn) timeout, or ")" as text');
    return query;
  }

  #or(): LogQuery {
    const parts = [this.#and()];
    while (this.#takeWord("OR")) parts.push(this.#and());
    return joinQueries("or", parts);
  }

  #and(): LogQuery {
    const parts = [this.#not()];
    for (;;) {
      const hasAnd = this.#takeWord("AND");
      if (!hasAnd && (this.#at === this.#text.length || this.#isClosing() || this.#isWord("OR"))) return joinQueries("and", parts);
      parts.push(this.#not());
    }
  }

  #not(): LogQuery {
    // A loop, because `- - - …` would nest as deep as it is long.
    let isNegated = false;
    for (;;) {
      if (this.#takeWord("NOT")) isNegated = !isNegated;
      else if (this.#text[this.#at] === "-" && /[^\s)]/.test(this.#text[this.#at + 1] ?? " ")) {
        this.#at++;
        isNegated = !isNegated;
      } else break;
    }
    const part = this.#term();
    return isNegated ? { kind: "not", part } : part;
  }

  #term(): LogQuery {
    const start = this.#at;
    for (const word of ["AND", "OR"])
      if (this.#isWord(word))
        throw this.#refusal(start, `${word} belongs between two conditions`, `timeout ${word} level:error; as text: "${word}"`);
    if (start === this.#text.length) throw this.#refusal(start, "a condition is missing at the end", "level:error AND timeout");
    if (this.#isClosing()) throw this.#refusal(start, "this ) comes before a condition", "(error OR warn) timeout");
    if (++this.#terms > MAX_TERMS) throw this.#refusal(start, `at most ${MAX_TERMS} conditions`, "level:error,warn,fatal");
    return this.#text[start] === "(" ? this.#group(start) : (this.#field(start) ?? this.#message());
  }

  #group(start: number): LogQuery {
    if (++this.#depth > MAX_DEPTH) throw this.#refusal(start, `at most ${MAX_DEPTH} groups within each other`, "(error OR warn) timeout");
    this.#at++;
    this.#space();
    const query = this.#or();
    if (!this.#isClosing()) throw this.#refusal(start, "this ( is not closed", '(error OR warn) timeout, or "(" as text');
    this.#at++;
    this.#depth--;
    this.#space();
    return query;
  }

  #message(): LogQuery {
    const value = this.#value(false);
    this.#space();
    return { kind: "message", value: value.kind === "any" ? { kind: "glob", text: "*" } : value };
  }

  /** Undefined if this is not a field, for example `http://…` or `error:` before a space. */
  #field(start: number): LogQuery | undefined {
    const quotedName = this.#text[start] === '"' ? quotedAt(this.#text, start) : undefined;
    const name = quotedName ? quotedName.text : (NAME.exec(this.#text.slice(start, start + MAX_NAME_CHARACTERS))?.[0] ?? "");
    const signAt = quotedName?.end ?? start + name.length;
    const [sign = ""] = SIGN.exec(this.#text.slice(signAt, signAt + 3)) ?? [];
    if (name === "" || sign === "") return undefined;
    const valueAt = signAt + sign.length;
    const next = this.#text[valueAt] ?? "";
    const example = FIELDS_WITH_EXAMPLE[name];
    if (next === "" || /[\s)]/.test(next)) {
      if (example && sign === ":") throw this.#refusal(start, `${name}: needs a value`, example);
      if (/^:?[<>]/.test(sign))
        throw this.#refusal(start, `after ${sign} comes a number`, `duration_ms${sign}400; as text: "${name}${sign}"`);
      return undefined;
    }
    if (sign === ":" && this.#text.startsWith("//", valueAt)) return undefined;
    this.#at = valueAt;
    const comparison = sign.replace(/^:(?=.)/, "");
    if (/^[<>]/.test(comparison)) return this.#comparison(start, name, comparison as Comparison);
    const values = this.#values(start, name);
    this.#space();
    const field: LogQuery = { kind: "field", name, comparison: "=", values };
    return sign === "!=" ? { kind: "not", part: field } : field;
  }

  #comparison(start: number, name: string, comparison: Comparison): LogQuery {
    const value = this.#value(true);
    const typed = this.#text.slice(start, this.#at);
    if (name !== "level" && !/^-?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i.test(value.text))
      throw this.#refusal(
        start,
        `after ${comparison} comes a number`,
        `duration_ms${comparison}400; as text: "${typed.replaceAll('"', "")}"`,
      );
    this.#space();
    return { kind: "field", name, comparison, values: [value] };
  }

  /** `a`, `a,b`, `(a b)` or `(a OR b)`. */
  #values(start: number, name: string): FieldValue[] {
    const values: FieldValue[] = [];
    const add = (value: FieldValue): void => {
      if (values.push(value) > MAX_VALUES) throw this.#refusal(start, `at most ${MAX_VALUES} values`, `${name}:a,b`);
    };
    if (this.#text[this.#at] !== "(") {
      add(this.#value(true));
      while (this.#text[this.#at] === ",") {
        this.#at++;
        if (/[\s,)]/.test(this.#text[this.#at] ?? " ")) throw this.#refusal(this.#at, "a value is missing after the comma", `${name}:a,b`);
        add(this.#value(true));
      }
      return values;
    }
    this.#at++;
    this.#depth++;
    for (this.#space(); !this.#isClosing(); this.#space()) {
      if (this.#at === this.#text.length) throw this.#refusal(start, `the ( after ${name}: is not closed`, `${name}:(a OR b)`);
      if (this.#text[this.#at] === ",") this.#at++;
      else if (!this.#takeWord("OR")) add(this.#value(true));
    }
    if (values.length === 0) throw this.#refusal(start, `${name}: needs a value`, `${name}:(a OR b)`);
    this.#at++;
    this.#depth--;
    return values;
  }

  #value(isOfField: boolean): FieldValue {
    const sign = this.#text[this.#at];
    if (sign === '"' || (sign === "/" && (!isOfField || this.#isRegex()))) {
      const start = this.#at;
      const quoted = quotedAt(this.#text, start);
      if (!quoted) throw this.#refusal(start, `a closing ${sign} is missing`, sign === "/" ? String.raw`/time(d )?out/` : '"two words"');
      this.#at = quoted.end;
      return { kind: sign === "/" ? "regex" : "text", text: quoted.text };
    }
    const word = wordAt(this.#text, this.#at, { isGrouped: this.#depth > 0, isOfField });
    this.#at = word.end;
    if (word.isGlob) return { kind: word.pattern === "*" ? "any" : "glob", text: word.pattern };
    return { kind: "text", text: word.text };
  }

  /** Whether a value that begins with `/` also ends with one, as a regular expression; otherwise it is a path: `/var/log/app.log`. */
  #isRegex(): boolean {
    const quoted = quotedAt(this.#text, this.#at);
    return quoted !== undefined && /^([\s),]|$)/.test(this.#text.slice(quoted.end, quoted.end + 1));
  }

  #isClosing(): boolean {
    return this.#text[this.#at] === ")" && (this.#depth > 0 || /^\)+(\s|$)/.test(this.#text.slice(this.#at, this.#at + MAX_DEPTH)));
  }

  #isWord(word: string): boolean {
    return this.#text.startsWith(word, this.#at) && /^[\s()]?$/.test(this.#text.slice(this.#at + word.length, this.#at + word.length + 1));
  }

  #takeWord(word: string): boolean {
    if (!this.#isWord(word)) return false;
    this.#at += word.length;
    this.#space();
    return true;
  }

  #space(): void {
    while (this.#at < this.#text.length && /\s/.test(this.#text[this.#at] ?? "")) this.#at++;
  }

  #refusal(at: number, words: string, example: string): ApiError {
    return new ApiError("invalid_parameter", `query: column ${at + 1}: ${words}; for example ${example}`);
  }
}

function joinQueries(kind: "and" | "or", parts: readonly LogQuery[]): LogQuery {
  const [first] = parts;
  return parts.length === 1 && first ? first : { kind, parts };
}

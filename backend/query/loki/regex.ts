// Regular expressions as Loki has them, which are Go's: RE2, in time that grows with the text alone, whoever wrote them. Invariant: nothing
// here runs an expression of a query by JavaScript's own engine, which some expressions keep busy for hours; and the expressions of a query
// hold the event loop for no longer than a second or two for one record.
import { type Matcher as Found, RE2JS } from "re2js";
import { alternativesOf, stepsOf } from "../../storage/logs/pattern.ts";
import { tooExpensive } from "./budget.ts";
import { wrongQuery } from "./literals.ts";
import { beginRecordWork } from "./record-work.ts";

/** Of all expressions of a query together, but for lists of plain values. */
const MOST_CHARACTERS = 2000;
const MOST_STEPS = 100;

/** Counts what the expressions of one query may cost. */
export class Patterns {
  #characters = 0;
  #steps = 0;

  constructor() {
    beginRecord();
  }

  /** Throws ApiError invalid_parameter: it is none, or all are too much. */
  compile(text: string): Pattern {
    this.#characters += text.length;
    this.#steps += stepsOf(text);
    if (this.#characters > MOST_CHARACTERS)
      throw wrongQuery(`the regular expressions of a query have at most ${MOST_CHARACTERS} characters`);
    if (this.#steps > MOST_STEPS) {
      const such = "parts that stand for several characters or are repeated, as often as they are repeated (.{20} is 20)";
      throw wrongQuery(`the regular expressions of a query have at most ${MOST_STEPS} ${such}`);
    }
    return compiled(text);
  }
}

/** What all expressions of one record together take. */
const MOST_RECORD_MS = 1000;
/** What one may take of one text, by a measure of each character: texts of two letters, whose automaton does not fit into its memory. */
const MOST_TEXT_MS = 500;
const [NS, NS_A_PART] = [280, 70];
let spentMs = 0;

/** To be called before the stages of another record. */
export function beginRecord(): void {
  spentMs = 0;
  beginRecordWork();
}

/** An expression that is matched here. All throw ApiError query_too_expensive. */
export class Pattern {
  readonly #expression: RE2JS;
  readonly #mostCharacters: number;

  constructor(text: string) {
    this.#expression = RE2JS.compile(text);
    this.#mostCharacters = Math.floor((MOST_TEXT_MS * 1e6) / (NS + NS_A_PART * (stepsOf(text) + alternativesOf(text))));
  }

  get names(): Readonly<Record<string, number>> {
    return this.#expression.namedGroups();
  }

  test(text: string): boolean {
    return this.#timed(text, () => this.#expression.test(text));
  }

  /** Where it is found first. */
  find(text: string): Found | undefined {
    const matcher = this.#expression.matcher(text);
    return this.#timed(text, () => matcher.find()) ? matcher : undefined;
  }

  /** Each place; one at a time is in force. Some expressions read the whole rest of the text for each. */
  *all(text: string): Generator<Found> {
    const matcher = this.#expression.matcher(text);
    while (this.#timed(text, () => matcher.find())) yield matcher;
  }

  #timed<T>(text: string, work: () => T): T {
    if (text.length > this.#mostCharacters)
      throw tooExpensive(`has a regular expression of many parts that reads more than ${this.#mostCharacters} characters of one record`);
    if (spentMs > MOST_RECORD_MS)
      throw tooExpensive(`has regular expressions that take more than ${MOST_RECORD_MS / 1000} s for one record`);
    const startMs = performance.now();
    try {
      return work();
    } finally {
      spentMs += performance.now() - startMs;
    }
  }
}

/** Few: each remembers what it has met of texts. */
const MOST_REMEMBERED = 8;
const remembered = new Map<string, Pattern>();

/** Throws ApiError invalid_parameter. */
export function compiled(text: string): Pattern {
  try {
    const pattern = remembered.get(text) ?? new Pattern(text);
    remembered.delete(text);
    remembered.set(text, pattern);
    if (remembered.size > MOST_REMEMBERED) remembered.delete(remembered.keys().next().value as string);
    return pattern;
  } catch (cause) {
    throw wrongQuery((cause as Error).message.slice(0, 300), cause);
  }
}

/** As matchers are read: the whole value, and a dot is a line break too. */
export function anchored(text: string): string {
  return `^(?s:${text})$`;
}

const PLAIN = /^(?:[^\\.+*?()|[\]{}^$]|\\[\\.+*?()|[\]{}^$\-/"'`=:,;@#%&~<>! ])*$/s;

/** The values of an expression that is nothing but a list of them, such as a|b\.c; undefined: it is more than that. */
export function plainValues(text: string): string[] | undefined {
  const inner = /^\((?:\?:)?([^()]*)\)$/s.exec(text)?.[1] ?? text;
  const values = splitAlternatives(inner);
  return values.every((value) => PLAIN.test(value)) ? values.map((value) => value.replaceAll(/\\(.)/gs, "$1")) : undefined;
}

function splitAlternatives(text: string): string[] {
  const values = [""];
  for (const [token] of text.matchAll(/\\.|./gsu)) {
    if (token === "|") values.push("");
    else values[values.length - 1] += token;
  }
  return values;
}

// Regular expressions as Loki has them, which are Go's: RE2, in time that grows with the text alone, whoever wrote them. Invariant: nothing
// here runs an expression of a query by JavaScript's own engine, which some expressions keep busy for hours.
import { RE2JS } from "re2js";
import { stepsOf } from "../logs/pattern.ts";
import { wrongQuery } from "./literals.ts";

/** Of all expressions of a query together, but for lists of plain values. */
const MOST_CHARACTERS = 2000;
const MOST_STEPS = 100;

/** Counts what the expressions of one query may cost. */
export class Patterns {
  #characters = 0;
  #steps = 0;

  /** Throws ApiError invalid_parameter: it is none, or all are too much. */
  compile(text: string): RE2JS {
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

/** Few: each remembers what it has met of texts. */
const MOST_REMEMBERED = 8;
const remembered = new Map<string, RE2JS>();

/** Throws ApiError invalid_parameter. */
export function compiled(text: string): RE2JS {
  try {
    const pattern = remembered.get(text) ?? RE2JS.compile(text);
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

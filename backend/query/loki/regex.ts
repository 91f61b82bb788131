// Limits what a query may compute in this process: time, characters per record, and regular expressions, which are RE2, so that their time
// grows linearly with the text. Invariant: JavaScript's own engine never runs an expression of a query. In any case, the sandbox kills a
// process that exceeds its limits.
import { setImmediate as yieldToEventLoop } from "node:timers/promises";
import { type Matcher, RE2JS } from "re2js";
import { ApiError } from "../../errors.ts";
import { alternativesOf, stepsOf } from "../../storage/logs/pattern.ts";
import {
  MAX_CACHED_EXPRESSIONS,
  MAX_REGEX_CHARACTERS,
  MAX_REGEX_MS_PER_RECORD,
  MAX_REGEX_MS_PER_TEXT,
  MAX_REGEX_STEPS,
  MAX_STAGE_CHARACTERS,
  MAX_STAGE_TEXT_CHARACTERS,
} from "../query-limits.ts";
import { wrongQuery } from "./grammar.ts";

const SLICE_MS = 5;

export interface Bounds {
  /** Maximum number of records that are read one by one, and their size. */
  readonly records: number;
  readonly bytes: number;
  readonly computeMs: number;
}

export const BOUNDS: Bounds = { records: 200_000, bytes: 128 * 1024 * 1024, computeMs: 5000 };

export class Budget {
  readonly bounds: Bounds;
  readonly #signal: AbortSignal | undefined;
  #spentMs = 0;
  #sinceMs = performance.now();
  #sinceCpuMs = threadCpuMs();

  constructor(bounds: Bounds, signal: AbortSignal | undefined) {
    this.bounds = bounds;
    this.#signal = signal;
  }

  /** Call after waiting for other work, which is not charged. */
  begin(): void {
    this.#sinceMs = performance.now();
    this.#sinceCpuMs = threadCpuMs();
  }

  /** True if `yieldToOthers` has to be awaited. Cheap enough to be read for each record. */
  get isDue(): boolean {
    return performance.now() - this.#sinceMs > SLICE_MS;
  }

  /** Throws ApiError query_too_expensive, and the signal's reason. */
  async yieldToOthers(): Promise<void> {
    this.#spentMs += threadCpuMs() - this.#sinceCpuMs;
    this.#signal?.throwIfAborted();
    const { computeMs } = this.bounds;
    if (this.#spentMs > computeMs) throw tooExpensive(`takes more than ${computeMs / 1000} s to compute here`);
    await yieldToEventLoop();
    this.begin();
  }
}

/** CPU time, not wall-clock time: the process waits for the backend, and the machine may have other work. */
function threadCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

export function tooExpensive(what: string): ApiError {
  return new ApiError("query_too_expensive", `this query ${what}: add line filters or labels to the selector, or ask for a shorter range`);
}

/** V8's search for a longer text takes time that grows with the product of both lengths. */
const LONG_PART = 64;

/** The characters and the time that the stages of the current record have spent. */
let [spentCharacters, spentMs] = [0, 0];

/** Call before the stages of another record. */
export function beginRecord(): void {
  spentCharacters = 0;
  spentMs = 0;
}

/** Charges characters before they are read or created. Throws ApiError query_too_expensive. */
export function charge(characters: number): void {
  spentCharacters += characters;
  if (spentCharacters > MAX_STAGE_CHARACTERS)
    throw tooExpensive(`walks or makes more than ${MAX_STAGE_CHARACTERS / 1024 / 1024} Mi characters for one record`);
}

/** Like `text.indexOf(part, from)`. Throws ApiError query_too_expensive. */
export function findText(text: string, part: string, from = 0): number {
  if (part.length > LONG_PART) charge((text.length - from) * Math.ceil(part.length / LONG_PART));
  const found = text.indexOf(part, from);
  charge((found === -1 ? text.length : found) - from);
  return found;
}

/** The number of occurrences of a text, without overlaps. Throws ApiError query_too_expensive. */
export function countText(text: string, part: string): number {
  if (part === "") return text.length + 1;
  let count = 0;
  for (let at = findText(text, part); at !== -1; at = findText(text, part, at + part.length)) count += 1;
  return count;
}

/** Throws ApiError query_too_expensive. `what`: "a line", or "an attribute". */
export function checkLength(text: string, what: string): void {
  if (text.length > MAX_STAGE_TEXT_CHARACTERS)
    throw tooExpensive(`has stages that read ${what} of more than ${MAX_STAGE_TEXT_CHARACTERS / 1024} KiB`);
}

/** Limits the cost of the expressions of one query. */
export class Patterns {
  #characters = 0;
  #steps = 0;

  constructor() {
    beginRecord();
  }

  /** Throws ApiError invalid_parameter if the expression is invalid, or if all expressions together exceed the limit. */
  compile(text: string): Pattern {
    this.#characters += text.length;
    this.#steps += stepsOf(text);
    if (this.#characters > MAX_REGEX_CHARACTERS)
      throw wrongQuery(`the regular expressions of a query have at most ${MAX_REGEX_CHARACTERS} characters`);
    if (this.#steps > MAX_REGEX_STEPS) {
      const countedParts = "parts that stand for several characters or are repeated, as often as they are repeated (.{20} is 20)";
      throw wrongQuery(`the regular expressions of a query have at most ${MAX_REGEX_STEPS} ${countedParts}`);
    }
    return compilePattern(text);
  }
}

/** The time to match one character, and in addition for each part of the expression. */
const [CHARACTER_NS, PART_NS] = [280, 70];

/** An expression that is matched in this process. All methods throw ApiError query_too_expensive. */
export class Pattern {
  readonly #expression: RE2JS;
  readonly #maxCharacters: number;

  constructor(text: string) {
    this.#expression = RE2JS.compile(text);
    this.#maxCharacters = Math.floor((MAX_REGEX_MS_PER_TEXT * 1e6) / (CHARACTER_NS + PART_NS * (stepsOf(text) + alternativesOf(text))));
  }

  get names(): Readonly<Record<string, number>> {
    return this.#expression.namedGroups();
  }

  test(text: string): boolean {
    return this.#timed(text, () => this.#expression.test(text));
  }

  find(text: string): Matcher | undefined {
    const matcher = this.#expression.matcher(text);
    return this.#timed(text, () => matcher.find()) ? matcher : undefined;
  }

  /** All matches; each is valid until the next one. Some expressions read the whole rest of the text for each. */
  *all(text: string): Generator<Matcher> {
    const matcher = this.#expression.matcher(text);
    while (this.#timed(text, () => matcher.find())) yield matcher;
  }

  #timed<T>(text: string, work: () => T): T {
    if (text.length > this.#maxCharacters)
      throw tooExpensive(`has a regular expression of many parts that reads more than ${this.#maxCharacters} characters of one record`);
    if (spentMs > MAX_REGEX_MS_PER_RECORD)
      throw tooExpensive(`has regular expressions that take more than ${MAX_REGEX_MS_PER_RECORD / 1000} s for one record`);
    const startMs = performance.now();
    try {
      return work();
    } finally {
      spentMs += performance.now() - startMs;
    }
  }
}

/** In order of use, the oldest first. */
const patternCache = new Map<string, Pattern>();

/** Throws ApiError invalid_parameter. */
export function compilePattern(text: string): Pattern {
  try {
    const pattern = patternCache.get(text) ?? new Pattern(text);
    patternCache.delete(text);
    patternCache.set(text, pattern);
    if (patternCache.size > MAX_CACHED_EXPRESSIONS) patternCache.delete(patternCache.keys().next().value as string);
    return pattern;
  } catch (cause) {
    throw wrongQuery((cause as Error).message.slice(0, 300), cause);
  }
}

/** As in matchers: the expression matches the whole value, and a dot also matches a line break. */
export function anchored(text: string): string {
  return `^(?s:${text})$`;
}

const PLAIN = /^(?:[^\\.+*?()|[\]{}^$]|\\[\\.+*?()|[\]{}^$\-/"'`=:,;@#%&~<>! ])*$/s;

/** The values of an expression that only lists values, such as a|b\.c; undefined for any other expression. */
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

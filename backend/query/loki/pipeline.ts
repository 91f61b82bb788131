// Runs the stages of a query one after the other on one record at a time. Invariant: later stages do not see a record that a stage drops; a
// value that a filter cannot compare passes with an error, as in Loki.
import { MAX_REMEMBERED_LABELS } from "../query-limits.ts";
import type { Entry } from "./entry.ts";
import { convert } from "./grammar.ts";
import { isLike, linePattern, parserStep, type Step } from "./parsers.ts";
import { anchored, beginRecord, charge, checkLength, compilePattern, findText, plainValues } from "./regex.ts";
import type { CompareOperator, LabelChoice, LabelFilter, LabelFormat, LineFilter, Matcher, Stage } from "./syntax.ts";
import { usesLine } from "./syntax.ts";
import { TemplateError } from "./template-values.ts";
import { Template } from "./template.ts";

/** Returns a function that returns whether the record passes. `required`: the only labels that have to be read from its line. */
export function pipelineOf(stages: readonly Stage[], required?: ReadonlySet<string>): Step {
  const steps = stages.map((stage) => stepOf(stage, required));
  const readsLine = stages.some(usesLine);
  return (entry) => {
    beginRecord();
    if (readsLine) checkLength(entry.line, "a line");
    return steps.every((step) => step(entry));
  };
}

function stepOf(stage: Stage, required: ReadonlySet<string> | undefined): Step {
  switch (stage.kind) {
    case "line_filter":
      return lineFilter(stage);
    case "label_filter":
      return filterTest(stage.filter);
    case "line_format":
      return lineFormat(stage.text);
    case "label_format":
      return labelFormat(stage.formats);
    case "decolorize":
      return decolorize;
    case "drop":
      return drop(stage.labels);
    case "keep":
      return keep(stage.labels);
    default:
      return parserStep(stage, required) as Step;
  }
}

function lineFilter({ operator, texts }: LineFilter): Step {
  const tests = texts.map((text): ((line: string) => boolean) => {
    if (operator === "|=" || operator === "!=") return (line) => findText(line, text) !== -1;
    if (operator === "|>" || operator === "!>") {
      const parts = linePattern(text);
      return (line) => isLike(parts, line);
    }
    const pattern = compilePattern(text);
    return (line) => pattern.test(line);
  });
  const isWanted = operator.startsWith("|");
  return (entry) => tests.some((test) => test(entry.line)) === isWanted;
}

function lineFormat(text: string): Step {
  const template = new Template(text);
  return (entry) => {
    const line = renderTemplate(entry, template, labelsOf(entry));
    if (line !== undefined) entry.line = line;
    return true;
  };
}

function labelFormat(formats: readonly LabelFormat[]): Step {
  const templates = formats.map((format) => ({
    ...format,
    template: format.template === undefined ? undefined : new Template(format.template),
  }));
  return (entry) => {
    let labels: ReadonlyMap<string, string> | undefined;
    for (const { name, from, template } of templates) {
      if (template) {
        labels ??= labelsOf(entry);
        const value = renderTemplate(entry, template, labels);
        if (value !== undefined) entry.set(name, value);
        continue;
      }
      const value = entry.get(from as string);
      if (value === undefined) continue;
      entry.set(name, value);
      entry.delete(from as string);
    }
    return true;
  };
}

function labelsOf(entry: Entry): ReadonlyMap<string, string> {
  const labels = new Map<string, string>();
  for (const [name, value] of entry.labels()) labels.set(name, value);
  return labels;
}

/** Undefined if the template fails; then the record has an error. */
function renderTemplate(entry: Entry, template: Template, labels: ReadonlyMap<string, string>): string | undefined {
  try {
    return template.run({ labels, line: entry.line, timeNs: entry.timeNs });
  } catch (error) {
    if (!(error instanceof TemplateError)) throw error;
    entry.fail("TemplateFormatErr", error.message);
    return undefined;
  }
}

function decolorize(entry: Entry): boolean {
  charge(entry.line.length);
  entry.line = withoutColours(entry.line);
  return true;
}

const ERRORS: Readonly<Record<string, "error" | "errorDetails">> = { __error__: "error", __error_details__: "errorDetails" };

function drop(choices: readonly LabelChoice[]): Step {
  const drops = choices.map((choice) =>
    typeof choice === "string" ? { name: choice, test: () => true } : { name: choice.name, test: valueTest(choice) },
  );
  return (entry) => {
    for (const { name, test } of drops) {
      const error = ERRORS[name];
      if (error) entry[error] = test(entry[error]) ? "" : entry[error];
      else if (test(entry.get(name) ?? "")) entry.delete(name);
    }
    return true;
  };
}

function keep(choices: readonly LabelChoice[]): Step {
  const tests = new Map<string, ((value: string) => boolean)[]>();
  for (const choice of choices) {
    const [name, test] = typeof choice === "string" ? [choice, () => true] : [choice.name, valueTest(choice)];
    tests.set(name, [...(tests.get(name) ?? []), test]);
  }
  return (entry) => {
    // Collected first, because the entry must not change while its labels are read.
    const labels = Array.from(entry.labels());
    for (const [name, value] of labels) {
      if (name in ERRORS) continue;
      if (!tests.get(name)?.some((test) => test(value))) entry.delete(name);
    }
    return true;
  };
}

export type ValueTest = (value: string) => boolean;

export function valueTest({ operator, value }: Matcher): ValueTest {
  if (operator === "=") return (text) => text === value;
  if (operator === "!=") return (text) => text !== value;
  const matches = expressionTest(value);
  return operator === "=~" ? matches : (text) => !matches(text);
}

function expressionTest(text: string): ValueTest {
  const values = plainValues(text);
  if (values) {
    const set = new Set(values);
    return (text) => set.has(text);
  }
  const pattern = compilePattern(anchored(text));
  const results = new Map<string, boolean>();
  return (text) => {
    let matches = results.get(text);
    if (matches === undefined) {
      matches = pattern.test(text);
      if (results.size < MAX_REMEMBERED_LABELS && text.length < 256) results.set(text, matches);
    }
    return matches;
  };
}

const COMPARE: Readonly<Record<CompareOperator, (a: number, b: number) => boolean>> = {
  "==": (a, b) => a === b,
  "!=": (a, b) => a !== b,
  ">": (a, b) => a > b,
  ">=": (a, b) => a >= b,
  "<": (a, b) => a < b,
  "<=": (a, b) => a <= b,
};

export type EntryTest = (entry: Entry) => boolean;

export function filterTest(filter: LabelFilter): EntryTest {
  if (filter.kind === "match") {
    const test = valueTest(filter.matcher);
    const { name } = filter.matcher;
    return (entry) => test(entry.valueOf(name));
  }
  if (filter.kind === "compare") {
    const { name, value, conversion } = filter;
    const compare = COMPARE[filter.operator];
    return (entry) => {
      const text = entry.get(name);
      if (text === undefined) return false;
      const number = convert(text, conversion);
      if (number !== undefined) return compare(number, value);
      if (!entry.error) entry.fail("LabelFilterErr", `cannot read ${JSON.stringify(text.slice(0, 100))} as a ${conversion}`);
      return true;
    };
  }
  const [left, right] = [filterTest(filter.left), filterTest(filter.right)];
  if (filter.kind === "or") return (entry) => left(entry) || right(entry);
  // Evaluates both sides, because each may set an error.
  return (entry) => {
    const passes = left(entry);
    return right(entry) && passes;
  };
}

const BEGIN = /[\u001b\u009b]/g;
const INTRODUCTION = "[]()#;?";
const FINAL = /[\dA-PRZcf-ntqry=><~]/;
const MAX_DIGITS = 4;

export function withoutColours(line: string): string {
  const parts: string[] = [];
  let at = 0;
  BEGIN.lastIndex = 0;
  for (let begin = BEGIN.exec(line); begin; begin = BEGIN.exec(line)) {
    const end = codeEnd(line, begin.index + 1);
    if (end === undefined) continue;
    parts.push(line.slice(at, begin.index));
    at = end;
    BEGIN.lastIndex = end;
  }
  return at === 0 ? line : parts.join("") + line.slice(at);
}

/** The position after the escape code whose first character precedes `from`; undefined if there is none. */
function codeEnd(line: string, from: number): number | undefined {
  let start = from;
  while (start < line.length && INTRODUCTION.includes(line[start] as string)) start += 1;
  let end = start;
  while (end < line.length && isWord(line.charCodeAt(end))) end += 1;
  return line[end] === "\u0007" ? end + 1 : numbersEnd(line, start);
}

/** The position after numbers such as 1;31 and a final character, which may be the last digit of the numbers. */
function numbersEnd(line: string, start: number): number | undefined {
  let at = start;
  let digits = 0;
  let lastDigit: number | undefined;
  for (; at < line.length; at += 1) {
    const isNumber = isDigit(line.charCodeAt(at));
    if (isNumber ? digits === MAX_DIGITS : line[at] !== ";" || lastDigit === undefined) break;
    digits = isNumber ? digits + 1 : 0;
    if (isNumber) lastDigit = at;
  }
  if (at < line.length && FINAL.test(line[at] as string)) return at + 1;
  return lastDigit === undefined ? undefined : lastDigit + 1;
}

function isDigit(code: number): boolean {
  return code >= 48 && code <= 57;
}

/** A letter, a digit or a semicolon. */
function isWord(code: number): boolean {
  return isDigit(code) || code === 59 || (code >= 65 && code <= 90) || (code >= 97 && code <= 122);
}

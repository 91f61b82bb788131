// The stages of a query, one after another, for one record at a time. Invariant: a record that a stage drops is not seen by the next.
import { withoutColours } from "./colour-codes.ts";
import type { Entry } from "./entry.ts";
import { isLike, linePattern } from "./line-pattern.ts";
import { filterTest, valueTest } from "./match-labels.ts";
import { parserStep, type Step } from "./parsers.ts";
import { beginRecord, compiled } from "./regex.ts";
import { charge, checkLength, findText } from "./record-work.ts";
import type { LabelChoice, LabelFormat, LineFilter, Stage } from "./syntax.ts";
import { Template } from "./template-run.ts";
import { TemplateError } from "./template-values.ts";

/** Answers whether the record is left. `required`: no other labels need to be read of its line. */
export function pipelineOf(stages: readonly Stage[], required?: ReadonlySet<string>): Step {
  const steps = stages.map((stage) => stepOf(stage, required));
  const readsLine = stages.some(({ kind }) => !["label_filter", "label_format", "drop", "keep"].includes(kind));
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
    const pattern = compiled(text);
    return (line) => pattern.test(line);
  });
  const isWanted = operator.startsWith("|");
  return (entry) => tests.some((test) => test(entry.line)) === isWanted;
}

function lineFormat(text: string): Step {
  const template = new Template(text);
  return (entry) => {
    const line = filled(entry, template, labelsOf(entry));
    if (line !== undefined) entry.line = line;
    return true;
  };
}

function labelFormat(formats: readonly LabelFormat[]): Step {
  const read = formats.map((format) => ({
    ...format,
    template: format.template === undefined ? undefined : new Template(format.template),
  }));
  return (entry) => {
    let labels: ReadonlyMap<string, string> | undefined;
    for (const { name, from, template } of read) {
      if (template) {
        labels ??= labelsOf(entry);
        const value = filled(entry, template, labels);
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

/** Undefined: it cannot be, and the record has an error. */
function filled(entry: Entry, template: Template, labels: ReadonlyMap<string, string>): string | undefined {
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
    // All of them first: what is deleted while they are told could be told no more.
    const labels = Array.from(entry.labels());
    for (const [name, value] of labels) {
      if (name in ERRORS) continue;
      if (!tests.get(name)?.some((test) => test(value))) entry.delete(name);
    }
    return true;
  };
}

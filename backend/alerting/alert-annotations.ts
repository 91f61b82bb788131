// Annotations of alerts in the evaluator, which also gets two kinds of annotations from the server: the revision of the rule, and a copy of
// each template that can fail, without its formatters. Invariants: users can neither set nor see these; if a formatter cannot format a
// value, such as humanize a text, the annotation shows the value itself instead of the evaluator's error.
/** Identifies the revision of a rule in the evaluator. */
export const REVISION_ANNOTATION = "rule_revision";

type Texts = Readonly<Record<string, string>>;

/** Users cannot set annotations whose names begin with `__`. */
const RAW_PREFIX = "__raw_";
const ACTION = /\{\{([^{}]*)\}\}/g;
/** A template prints one value, before or after formatters. */
const VALUE = /\$\w+(?:\.\w+)?|\.[A-Z]\w*(?:\.\w+)?/;
const FAILED_PREFIX = /^error (?:evaluating|parsing) template: /;

/** Copies of the templates that can fail, without their formatters. */
export function rawAnnotations(annotations: Texts): Record<string, string> {
  const entries = Object.entries(annotations).filter(([, text]) => /\{\{[^{}]*humanize/.test(text));
  return Object.fromEntries(entries.map(([name, text]) => [RAW_PREFIX + name, text.replace(ACTION, withoutFormatters)]));
}

/** The annotations that users see. */
export function shownAnnotations(annotations: Texts): Record<string, string> {
  const shown = Object.entries(annotations).filter(([name]) => name !== REVISION_ANNOTATION && !name.startsWith(RAW_PREFIX));
  return Object.fromEntries(
    shown.map(([name, text]) => [name, FAILED_PREFIX.test(text) ? (annotations[RAW_PREFIX + name] ?? text) : text]),
  );
}

function withoutFormatters(_action: string, content: string): string {
  return `{{${content.startsWith("-") ? "-" : ""} ${VALUE.exec(content)?.[0] ?? ""} ${content.endsWith("-") ? "-" : ""}}}`;
}

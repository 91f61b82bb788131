// The text of rules: which characters a field and which templates an annotation may contain. Invariant: a template that passes can only print
// the alert's own values through a few formatters: no loops, definitions, queries or growing text, because templates run inside the evaluator
// of all tenants. Every error names the field.
import { invalidField } from "../http/schemas.ts";

const VALUE = String.raw`(?:\$value|\.Value|\$labels\.[a-zA-Z_]\w*|\.Labels\.[a-zA-Z_]\w*|\$expr|\.Expr|\$for|\$activeAt|\$interval)`;
const FORMATTER =
  "(?:humanize|humanize1024|humanizeDuration|humanizePercentage|humanizeTimestamp|title|toUpper|toLower|stripPort|stripDomain|jsonEscape|quotesEscape|htmlEscape|crlfEscape|pathEscape|queryEscape)";
const PRINT = String.raw`printf "%(?:\.\d{1,2})?[defgsv]"`;
const STAGE = `(?:${FORMATTER}|${PRINT})`;
const BLANK = String.raw`[ \t\r\n]`;
/** At most three stages, because some formatters double their input. A dash next to a brace needs a space, otherwise it is a minus. */
const ACTION = new RegExp(
  String.raw`\{\{(?:-${BLANK})?${BLANK}*(?:${STAGE}${BLANK}+)?${VALUE}(?:${BLANK}*\|${BLANK}*${STAGE}){0,3}(?:${BLANK}*|${BLANK}+-)\}\}`,
  "y",
);

/** Assumed size of a label's value; other values are shorter. */
const VALUE_BYTES = 1024;
/** Maximum bytes that an escaping formatter produces per byte. */
const ESCAPED_BYTES = 6;

/** Estimated maximum of bytes that the templates of `text` print for one alert of a rule whose expression has `exprBytes`. */
export function estimatePrintedBytes(text: string, exprBytes: number): number {
  let bytes = 0;
  for (const [, action = ""] of text.matchAll(/\{\{([^{}]*)\}\}/g)) {
    const escapes = action.match(/Escape/g)?.length ?? 0;
    bytes += (/\$expr|\.Expr/.test(action) ? exprBytes : VALUE_BYTES) * ESCAPED_BYTES ** escapes;
  }
  return bytes;
}

/** Undefined if every template in `text` only prints values; otherwise the reason, for the user. Actions are detected as in the engine. */
export function findTemplateProblem(text: string): string | undefined {
  for (let at = text.indexOf("{{"); at >= 0; at = text.indexOf("{{", ACTION.lastIndex)) {
    ACTION.lastIndex = at;
    if (ACTION.test(text)) continue;
    const action = text.slice(at, at + 40);
    return `\`${action}\` is not allowed: templates may print $value, $labels.<name>, $expr, $for or $activeAt, through formatters such as humanize or printf "%.2f"`;
  }
  return undefined;
}

/** Control characters, and the byte order mark, which some database drivers swallow. */
const CONTROL = /[\u0000-\u001f\u007f-\u009f\ufeff]/;
/** Like CONTROL, but tabs and line ends are allowed. */
export const EXCEPT_LINES = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\ufeff]/;

/** Throws ApiError `invalid_field`, which names the field. */
export function checkText(field: string, text: string, refused = CONTROL): void {
  const control = refused.exec(text)?.[0];
  if (control !== undefined) {
    throw invalidField(
      field,
      `must not contain control characters (U+${control.charCodeAt(0).toString(16).padStart(4, "0").toUpperCase()})`,
    );
  }
  if (!text.isWellFormed()) throw invalidField(field, "must be well-formed Unicode: it contains half a surrogate pair");
}

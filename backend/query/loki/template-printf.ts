// printf of templates, for the verbs that logs are written with. Invariant: any other verb is an error of the line, as a wrong one is.
import { charge } from "./record-work.ts";
import { MOST_VERB_WIDTH, printed, printedFloat, TemplateError, type Value } from "./template-values.ts";

const VERB = /%([-+0# ]*)(\d*)(?:\.(\d*))?(.)/gsu;

const MISSING = "(MISSING)";
/** Number.toFixed writes no more. */
const MOST_DECIMALS = 100;

export function formatted(format: string, values: readonly Value[]): string {
  let at = 0;
  const text = format.replaceAll(VERB, (_, flags: string, width: string, precision: string | undefined, verb: string) => {
    if (verb === "%") return "%";
    const value = values[at++];
    charge(width === "" ? verb.length + MISSING.length : Number(width));
    if (value === undefined) return `%!${verb}${MISSING}`;
    const digits = precision === undefined ? undefined : Number(precision || 0);
    if (Number(width) > MOST_VERB_WIDTH || (digits ?? 0) > MOST_VERB_WIDTH) throw new TemplateError("printf: too wide");
    const text = verbText(verb, value, digits, flags);
    charge(text.length);
    return padded(text, Number(width), flags, value);
  });
  if (at < values.length) throw new TemplateError("printf: more values than verbs");
  return text;
}

function verbText(verb: string, value: Value, digits: number | undefined, flags: string): string {
  const sign = flags.includes("+") && typeof value !== "string" && Number(value) >= 0 ? "+" : "";
  if (verb === "s" && typeof value === "string") return digits === undefined ? value : Array.from(value).slice(0, digits).join("");
  if (verb === "v") return typeof value === "number" && digits !== undefined ? unknown(verb) : sign + printed(value);
  if (verb === "d" && typeof value === "bigint") return sign + String(value);
  if (verb === "x" && typeof value === "bigint") return value.toString(16);
  if (verb === "t" && typeof value === "boolean") return String(value);
  if (verb === "q" && typeof value === "string") return JSON.stringify(value);
  if (verb === "f" && (digits ?? 0) > MOST_DECIMALS) throw new TemplateError("printf: too many decimals");
  if (verb === "f" && typeof value === "number") return Number.isFinite(value) ? sign + value.toFixed(digits ?? 6) : printedFloat(value);
  return unknown(verb);
}

function unknown(verb: string): never {
  throw new TemplateError(`printf: %${verb} is not supported for this value`);
}

function padded(text: string, width: number, flags: string, value: Value): string {
  const missing = width - Array.from(text).length;
  if (missing <= 0) return text;
  if (flags.includes("-")) return text + " ".repeat(missing);
  if (flags.includes("0") && typeof value !== "string") return text.replace(/^[+-]?/, (sign) => sign + "0".repeat(missing));
  return " ".repeat(missing) + text;
}

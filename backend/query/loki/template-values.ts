// Represents the values in a template with Go's types (an integer is a bigint here, a float a number), and prints them and times.
// Invariant: the printed text is what Go prints; times are in UTC.
import { MAX_DECIMALS, MAX_INTEGER_DIGITS, MAX_VERB_WIDTH } from "../query-limits.ts";
import { charge } from "./regex.ts";

export type Value = string | bigint | number | boolean | GoTime;

/** A time in nanoseconds since 1970. */
export class GoTime {
  readonly ns: bigint;
  constructor(ns: bigint) {
    this.ns = ns;
  }
}

/** A template fails for a line: the line stays unchanged and gets an error. */
export class TemplateError extends Error {}

/** Formats like %v. */
export function formatValue(value: Value): string {
  if (typeof value === "number") return formatFloat(value);
  if (value instanceof GoTime) return formatTime("2006-01-02 15:04:05.999999999 -0700 MST", value.ns);
  return String(value);
}

/** Formats like %v: the shortest digits, with an exponent if it is below -4 or at least 21. */
function formatFloat(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "+Inf" : "-Inf";
  if (Object.is(value, -0)) return "-0";
  const [digits = "", exponent = "0"] = value.toExponential().split("e");
  const power = Number(exponent);
  if (value !== 0 && (power < -4 || power >= 21)) return `${digits}e${power < 0 ? "-" : "+"}${String(Math.abs(power)).padStart(2, "0")}`;
  return value.toString().includes("e") ? value.toFixed(Math.max(0, digits.replace(/^-?\d\.?/, "").length - power)) : String(value);
}

export function isTrue(value: Value): boolean {
  return value instanceof GoTime ? true : Boolean(value);
}

/** Wraps around like a signed 64-bit integer. */
export function wrapInt64(value: bigint): bigint {
  return BigInt.asIntN(64, value);
}

/** Converts like sprig's int: fractions are truncated, and other texts are 0. */
export function toInteger(value: Value): bigint {
  if (typeof value === "bigint") return value;
  if (typeof value === "boolean") return value ? 1n : 0n;
  if (typeof value === "number") return Number.isFinite(value) ? wrapInt64(BigInt(Math.trunc(value))) : 0n;
  if (typeof value === "string" && value.length <= MAX_INTEGER_DIGITS && /^[+-]?\d+$/.test(value.trim()))
    return wrapInt64(BigInt(value.trim().replace(/^\+/, "")));
  return 0n;
}

/** Converts like sprig's float64. */
export function toFloat(value: Value): number {
  if (typeof value === "number") return value;
  if (typeof value === "bigint") return Number(value);
  if (typeof value === "boolean") return Number(value);
  if (typeof value === "string" && value.trim() === value && value !== "" && Number.isFinite(Number(value))) return Number(value);
  return 0;
}

export function textOf(value: Value, name: string): string {
  if (typeof value === "string") return value;
  throw new TemplateError(`wrong type for value of ${name}; expected string`);
}

/** The argument of a template function that takes an int. */
export function integerOf(value: Value, name: string): number {
  if (typeof value === "bigint") return Number(value);
  throw new TemplateError(`wrong type for value of ${name}; expected int`);
}

const VERB = /%([-+0# ]*)(\d*)(?:\.(\d*))?(.)/gsu;

const MISSING = "(MISSING)";

/** Formats like Go's fmt.Sprintf, with an error for verbs that are not supported. */
export function sprintf(format: string, values: readonly Value[]): string {
  let at = 0;
  const text = format.replaceAll(VERB, (_, flags: string, width: string, precision: string | undefined, verb: string) => {
    if (verb === "%") return "%";
    const value = values[at++];
    charge(width === "" ? verb.length + MISSING.length : Number(width));
    if (value === undefined) return `%!${verb}${MISSING}`;
    const digits = precision === undefined ? undefined : Number(precision || 0);
    if (Number(width) > MAX_VERB_WIDTH || (digits ?? 0) > MAX_VERB_WIDTH) throw new TemplateError("printf: too wide");
    const text = verbText(verb, value, digits, flags);
    charge(text.length);
    return padText(text, Number(width), flags, value);
  });
  if (at < values.length) throw new TemplateError("printf: more values than verbs");
  return text;
}

function verbText(verb: string, value: Value, digits: number | undefined, flags: string): string {
  const sign = flags.includes("+") && typeof value !== "string" && Number(value) >= 0 ? "+" : "";
  if (verb === "s" && typeof value === "string") return digits === undefined ? value : Array.from(value).slice(0, digits).join("");
  if (verb === "v") return typeof value === "number" && digits !== undefined ? unknown(verb) : sign + formatValue(value);
  if (verb === "d" && typeof value === "bigint") return sign + String(value);
  if (verb === "x" && typeof value === "bigint") return value.toString(16);
  if (verb === "t" && typeof value === "boolean") return String(value);
  if (verb === "q" && typeof value === "string") return JSON.stringify(value);
  if (verb === "f" && (digits ?? 0) > MAX_DECIMALS) throw new TemplateError("printf: too many decimals");
  if (verb === "f" && typeof value === "number") return Number.isFinite(value) ? sign + value.toFixed(digits ?? 6) : formatFloat(value);
  return unknown(verb);
}

function unknown(verb: string): never {
  throw new TemplateError(`printf: %${verb} is not supported for this value`);
}

function padText(text: string, width: number, flags: string, value: Value): string {
  const missing = width - Array.from(text).length;
  if (missing <= 0) return text;
  if (flags.includes("-")) return text + " ".repeat(missing);
  if (flags.includes("0") && typeof value !== "string") return text.replace(/^[+-]?/, (sign) => sign + "0".repeat(missing));
  return " ".repeat(missing) + text;
}

const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
/** The parts of a layout that stand for a part of the time. */
const LAYOUT_PART =
  /January|Jan|Monday|Mon|MST|2006|Z07:00:00|Z070000|Z07:00|Z0700|Z07|-07:00:00|-070000|-07:00|-0700|-07|__2|002|_2|01|02|03|04|05|06|15|PM|pm|[.,]0+(?!\d)|[.,]9+(?!\d)|1|2|3|4|5/g;

/** Formats like Go's Time.Format. */
export function formatTime(layout: string, ns: bigint): string {
  const second = ns >= 0n ? ns / 1_000_000_000n : -((-ns + 999_999_999n) / 1_000_000_000n);
  const date = new Date(Number(second) * 1000);
  const fraction = String(ns - second * 1_000_000_000n).padStart(9, "0");
  const hour = date.getUTCHours();
  const parts: Readonly<Record<string, string>> = {
    January: MONTHS[date.getUTCMonth()] as string,
    Jan: (MONTHS[date.getUTCMonth()] as string).slice(0, 3),
    Monday: DAYS[date.getUTCDay()] as string,
    Mon: (DAYS[date.getUTCDay()] as string).slice(0, 3),
    MST: "UTC",
    "2006": String(date.getUTCFullYear()).padStart(4, "0"),
    "06": twoDigits(date.getUTCFullYear() % 100),
    "01": twoDigits(date.getUTCMonth() + 1),
    "1": String(date.getUTCMonth() + 1),
    "02": twoDigits(date.getUTCDate()),
    _2: String(date.getUTCDate()).padStart(2),
    "2": String(date.getUTCDate()),
    "002": String(dayOfYear(date)).padStart(3, "0"),
    __2: String(dayOfYear(date)).padStart(3),
    "15": twoDigits(hour),
    "03": twoDigits(hour % 12 || 12),
    "3": String(hour % 12 || 12),
    "04": twoDigits(date.getUTCMinutes()),
    "4": String(date.getUTCMinutes()),
    "05": twoDigits(date.getUTCSeconds()),
    "5": String(date.getUTCSeconds()),
    PM: hour < 12 ? "AM" : "PM",
    pm: hour < 12 ? "am" : "pm",
  };
  return layout.replaceAll(LAYOUT_PART, (token) => {
    if (token.startsWith("Z")) return "Z";
    if (token.startsWith("-")) return `+${token.slice(1).replaceAll(/\d/g, "0")}`;
    if (/^[.,]0/.test(token)) return token[0] + fraction.slice(0, token.length - 1);
    if (/^[.,]9/.test(token)) return `${token[0]}${fraction.slice(0, token.length - 1)}`.replace(/[.,]?0*$/, "");
    return parts[token] ?? token;
  });
}

function twoDigits(value: number): string {
  return String(value).padStart(2, "0");
}

function dayOfYear(date: Date): number {
  return Math.floor((date.getTime() - Date.UTC(date.getUTCFullYear(), 0, 1)) / 86_400_000) + 1;
}

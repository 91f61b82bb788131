// Values within a template, as Go tells them apart: an integer is a bigint here, a float a number. Invariant: what is printed is what Go
// prints.
import { printedTime } from "./go-time.ts";

export type Value = string | bigint | number | boolean | GoTime;

/** A moment, in nanoseconds since 1970. */
export class GoTime {
  readonly ns: bigint;
  constructor(ns: bigint) {
    this.ns = ns;
  }
}

/** What a template cannot do with a line: the line stays as it is, and has an error. */
export class TemplateError extends Error {}

export function printed(value: Value): string {
  if (typeof value === "number") return printedFloat(value);
  if (value instanceof GoTime) return printedTime("2006-01-02 15:04:05.999999999 -0700 MST", value.ns);
  return String(value);
}

/** As %v: the shortest digits, with an exponent where it is below -4 or from 21 on. */
export function printedFloat(value: number): string {
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

/** The size of whole numbers of 64 bits. */
export function wrapped(value: bigint): bigint {
  return BigInt.asIntN(64, value);
}

/** BigInt takes long for very many digits. */
const MOST_INTEGER = 100;

/** As sprig's int: what is no whole number is cut, or nothing. */
export function toInteger(value: Value): bigint {
  if (typeof value === "bigint") return value;
  if (typeof value === "boolean") return value ? 1n : 0n;
  if (typeof value === "number") return Number.isFinite(value) ? wrapped(BigInt(Math.trunc(value))) : 0n;
  if (typeof value === "string" && value.length <= MOST_INTEGER && /^[+-]?\d+$/.test(value.trim()))
    return wrapped(BigInt(value.trim().replace(/^\+/, "")));
  return 0n;
}

/** As sprig's float64. */
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

/** Of a function of ours that takes an int. */
export function integerOf(value: Value, name: string): number {
  if (typeof value === "bigint") return Number(value);
  throw new TemplateError(`wrong type for value of ${name}; expected int`);
}

/** Of a verb of printf, in characters. */
export const MOST_VERB_WIDTH = 10_000;

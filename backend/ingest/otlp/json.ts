// Reads the fields of OTLP/JSON messages: the primitives of the protobuf JSON mapping with OTLP's exceptions (hex ids, integer enums,
// unknown fields ignored; OpenTelemetry protocol specification, "JSON Protobuf Encoding"). Invariant: a value of a wrong type causes a
// FieldError with its path, never a silent default; a 64-bit integer never passes through a double.
import { asObject, FieldError, type Json } from "../json-message.ts";
import { exactDigits, exactSource } from "./exact-integers.ts";

const EMPTY: Json = {};

/** Calls `visit` for each message of a repeated field; adds `name[index]` to the path of errors. */
export function each(parent: Json, name: string, visit: (item: Json) => void): void {
  const list = parent[name];
  if (list === undefined || list === null) return;
  if (!Array.isArray(list)) throw new FieldError(name, "must be an array");
  for (let index = 0; index < list.length; index += 1) {
    try {
      visit(asObject(list[index], ""));
    } catch (error) {
      if (error instanceof FieldError) error.within(`${name}[${index}]`);
      throw error;
    }
  }
}

/** Runs `read` on the message field `name`, and adds the name to the path of errors. If absent or null, the message is empty. */
export function within<T>(parent: Json, name: string, read: (item: Json) => T): T {
  const value = parent[name];
  const item = value === undefined || value === null ? EMPTY : asObject(value, name);
  try {
    return read(item);
  } catch (error) {
    if (error instanceof FieldError) error.within(name);
    throw error;
  }
}

/** An optional string; "" if absent or null. */
export function text(parent: Json, name: string): string {
  const value = parent[name];
  if (typeof value === "string") return value;
  if (value === undefined || value === null) return "";
  throw new FieldError(name, "must be a string");
}

const MAX_UINT64 = 18_446_744_073_709_551_615n;

/** An optional unsigned 64-bit integer, string or number, as decimal digits without leading zeros; "" if absent, null or 0. */
export function uint64(parent: Json, name: string): string {
  const value = parent[name];
  if (typeof value === "string" && value.length === 19 && NANOSECONDS_OF_OUR_TIME.test(value)) return value;
  if (value === undefined || value === null) return "";
  const digits = integerDigits(value, name);
  if (digits.startsWith("-") || (digits.length > 19 && BigInt(digits) > MAX_UINT64)) {
    throw new FieldError(name, "must be an unsigned 64-bit integer");
  }
  return digits === "0" ? "" : digits;
}

const NANOSECONDS_OF_OUR_TIME = /^[1-9]\d{18}$/;

/** An optional signed 64-bit integer as decimal digits. */
export function int64(value: unknown, name: string): string {
  const digits = integerDigits(value, name);
  if (digits.length > 18) {
    const integer = BigInt(digits);
    if (BigInt.asIntN(64, integer) !== integer) throw new FieldError(name, "must be a 64-bit integer");
  }
  return digits;
}

function integerDigits(value: unknown, name: string): string {
  if (typeof value === "number") {
    if (Number.isSafeInteger(value)) return String(value);
  } else if (typeof value === "string") {
    if (/^-?\d{1,40}$/.test(value)) return value.replace(/^(-?)0+(?=\d)/, "$1");
  } else {
    const digits = exactDigits(exactSource(value) ?? "");
    if (digits !== undefined) return digits;
  }
  throw new FieldError(name, "must be an integer, as a number or as a string of digits");
}

/** Validates an optional unsigned 32-bit integer that is not stored. */
export function checkUint32(parent: Json, name: string): void {
  const value = parent[name];
  if (value === undefined || value === null) return;
  const digits = integerDigits(value, name);
  if (digits.length > 10 || Number(digits) < 0 || Number(digits) > 0xff_ff_ff_ff) {
    throw new FieldError(name, "must be an unsigned 32-bit integer");
  }
}

const TWO_31 = 0x80_00_00_00;

/** An optional enum: a 32-bit integer, or one of `names`; 0 if absent or null. */
export function enumeration(parent: Json, name: string, names: Readonly<Record<string, number>>): number {
  const value = parent[name];
  if (value === undefined || value === null) return 0;
  if (typeof value === "number" && Number.isInteger(value) && value >= -TWO_31 && value < TWO_31) return value;
  if (typeof value === "string" && Object.hasOwn(names, value)) return names[value] as number;
  throw new FieldError(name, "must be an enum's integer or name");
}

/** An optional id of `bytes` bytes in hex, converted to lower case; "" if absent, empty or all zeros (which OTLP defines as invalid). */
export function hexId(parent: Json, name: string, bytes: number): string {
  const value = parent[name];
  if (value === undefined || value === null || value === "") return "";
  if (typeof value !== "string") throw new FieldError(name, "must be a string of hex digits");
  if (value.length !== bytes * 2 || !HEX.test(value)) throw new FieldError(name, `must be ${bytes * 2} hex digits, or empty`);
  return ZEROS.test(value) ? "" : value.toLowerCase();
}

const HEX = /^[0-9a-fA-F]+$/;
const ZEROS = /^0+$/;

/** A number in a field of type double: a JSON number, a numeric string, or "NaN", "Infinity", "-Infinity". */
export function double(value: unknown, name: string): number {
  if (typeof value === "number") return value;
  if (typeof value === "string") {
    if (value === "NaN" || value === "Infinity" || value === "-Infinity") return Number(value);
    if (/^-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(value)) return Number(value);
  }
  const exact = exactSource(value);
  if (exact !== undefined) return Number(exact);
  throw new FieldError(name, "must be a number");
}

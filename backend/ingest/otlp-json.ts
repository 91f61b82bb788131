// Reads OTLP/JSON: the JSON of a body, and the primitives of the protobuf JSON mapping with OTLP's exceptions (hex ids, integer enums,
// unknown fields ignored; OpenTelemetry protocol specification, "JSON Protobuf Encoding"). Invariant: a value of a wrong type is a
// FieldError that names its path, never a silent default; a 64-bit integer never passes through a double. Used by decode.ts of logs
// and traces, on any thread.
import { isUtf8 } from "node:buffer";
import { ApiError } from "../errors.ts";

/** A field of the document is invalid. Gains its path on the way out. */
export class FieldError extends Error {
  #path: string;
  readonly problem: string;
  constructor(path: string, problem: string) {
    super();
    this.#path = path;
    this.problem = problem;
  }

  within(parent: string): this {
    this.#path = this.#path === "" || this.#path.startsWith("[") ? parent + this.#path : `${parent}.${this.#path}`;
    return this;
  }

  toApiError(): ApiError {
    const path = this.#path.length > 300 ? `${this.#path.slice(0, 300)}…` : this.#path;
    return new ApiError("invalid_payload", path === "" ? this.problem : `${path}: ${this.problem}`);
  }
}

/** A JSON number that is an integer beyond 2^53: its exact digits, and the double that JSON.parse made of it. */
class ExactInteger {
  readonly digits: string;
  readonly double: number;
  constructor(digits: string, double: number) {
    this.digits = digits;
    this.double = double;
  }
}

/** Thrown where an integer was rounded by JSON.parse; the document is then read again, exactly. */
class RoundedInteger extends Error {}

export type Json = Record<string, unknown>;

/**
 * Parses `body` and hands the document to `decode`; an empty body is an empty document. Throws malformed_body for what is not UTF-8
 * or JSON, invalid_payload naming the field for what is not OTLP.
 */
export function decodeDocument<T>(body: Uint8Array, decode: (document: Json) => T): T {
  if (!isUtf8(body)) throw new ApiError("malformed_body", notJson(body, "the body is not UTF-8"));
  refuseDense(body);
  const text = Buffer.from(body.buffer, body.byteOffset, body.byteLength).toString("utf8");
  if (text.trim() === "") return decode({});
  try {
    return decodeParsed(parse(body, text), decode);
  } catch (error) {
    if (error instanceof RoundedInteger) return decodeParsed(JSON.parse(text, keepExact), decode);
    throw error;
  }
}

/** No body below this can take much memory. */
const SMALL_BYTES = 1024 * 1024;
const ALLOWED_CONTAINERS = 2_000_000;

/**
 * JSON.parse cannot be interrupted, and 32 MiB of `{},` would be gigabytes: a body that is mostly brackets is refused before. Real
 * documents have one bracket in 16 bytes at most; those within strings count too, so there is room for them.
 */
function refuseDense(body: Uint8Array): void {
  if (body.byteLength <= SMALL_BYTES) return;
  let containers = 0;
  for (let index = 0; index < body.byteLength; index += 1) {
    const byte = body[index];
    if (byte === 0x7b || byte === 0x5b) containers += 1;
  }
  if (containers <= ALLOWED_CONTAINERS + body.byteLength / 8) return;
  throw new ApiError("invalid_payload", `the document has ${containers} objects and arrays, too many for its size: send smaller batches`);
}

function decodeParsed<T>(document: unknown, decode: (document: Json) => T): T {
  try {
    return decode(asObject(document, ""));
  } catch (error) {
    throw error instanceof FieldError ? error.toApiError() : error;
  }
}

function parse(body: Uint8Array, text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch (error) {
    throw new ApiError("malformed_body", notJson(body, `the body is not JSON: ${(error as Error).message.slice(0, 200)}`));
  }
}

/** Most bodies that are not JSON are OTLP/protobuf of an exporter left at its default. */
function notJson(body: Uint8Array, problem: string): string {
  const looksLikeProtobuf = body[0] === 0x0a;
  return looksLikeProtobuf
    ? `${problem}; it looks like protobuf: this endpoint takes OTLP/JSON (set the exporter's encoding to json)`
    : problem;
}

/** JSON.parse reviver with the source text (ECMAScript "JSON.parse source text access"). */
function keepExact(this: unknown, _key: string, value: unknown, context?: { source?: string }): unknown {
  if (typeof value !== "number" || Number.isSafeInteger(value) || !Number.isInteger(value)) return value;
  return new ExactInteger(exactDigits(context?.source ?? ""), value);
}

/** The digits of a JSON number such as `17e17` or `1.5e3`; "not integral" when it is none, or too large for any integer field. */
function exactDigits(source: string): string {
  const match = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(source);
  const [, sign = "", whole = "", fraction = "", exponent = "0"] = match ?? [];
  const shift = Number(exponent) - fraction.length;
  if (!match || Math.abs(shift) > 40) return NOT_INTEGRAL;
  const digits = whole + fraction;
  if (shift < 0 && /[1-9]/.test(digits.slice(shift))) return NOT_INTEGRAL;
  const kept = shift >= 0 ? digits + "0".repeat(shift) : digits.slice(0, shift);
  return sign + (kept.replace(/^0+/, "") || "0");
}

const NOT_INTEGRAL = "not integral";

export function asObject(value: unknown, path: string): Json {
  if (typeof value === "object" && value !== null && !Array.isArray(value) && !(value instanceof ExactInteger)) return value as Json;
  throw new FieldError(path, "must be an object");
}

const EMPTY: Json = {};

/** An optional message field: absent and null are the empty message. */
function message(parent: Json, name: string): Json {
  const value = parent[name];
  return value === undefined || value === null ? EMPTY : asObject(value, name);
}

/** Calls `visit` for each message of a repeated field; errors gain `name[index]`. */
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

/** Runs `read` on the message field `name`; errors gain its name. Absent and null are the empty message. */
export function within<T>(parent: Json, name: string, read: (item: Json) => T): T {
  const item = message(parent, name);
  try {
    return read(item);
  } catch (error) {
    if (error instanceof FieldError) error.within(name);
    throw error;
  }
}

/** An optional string; absent and null are "". */
export function text(parent: Json, name: string): string {
  const value = parent[name];
  if (typeof value === "string") return value;
  if (value === undefined || value === null) return "";
  throw new FieldError(name, "must be a string");
}

const MAX_UINT64 = 18_446_744_073_709_551_615n;

/** An optional unsigned 64-bit integer, string or number, as decimal digits without leading zeros; absent, null and 0 are "". */
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
    if (Number.isInteger(value)) throw new RoundedInteger();
  } else if (typeof value === "string") {
    if (/^-?\d{1,40}$/.test(value)) return value.replace(/^(-?)0+(?=\d)/, "$1");
  } else if (value instanceof ExactInteger && value.digits !== NOT_INTEGRAL) {
    return value.digits;
  }
  throw new FieldError(name, "must be an integer, as a number or as a string of digits");
}

/** Checks an optional unsigned 32-bit integer that is not stored. */
export function checkUint32(parent: Json, name: string): void {
  const value = parent[name];
  if (value === undefined || value === null) return;
  const digits = integerDigits(value, name);
  if (digits.length > 10 || Number(digits) < 0 || Number(digits) > 0xff_ff_ff_ff) {
    throw new FieldError(name, "must be an unsigned 32-bit integer");
  }
}

const TWO_31 = 0x80_00_00_00;

/** An optional enum: a 32-bit integer, or one of `names`; absent and null are 0. */
export function enumeration(parent: Json, name: string, names: Readonly<Record<string, number>>): number {
  const value = parent[name];
  if (value === undefined || value === null) return 0;
  if (typeof value === "number" && Number.isInteger(value) && value >= -TWO_31 && value < TWO_31) return value;
  if (typeof value === "string" && Object.hasOwn(names, value)) return names[value] as number;
  throw new FieldError(name, "must be an enum's integer or name");
}

/** An optional id of `bytes` bytes in hex of any case, lowercased; "" when it is absent, empty or all zeros (which is how OTLP says invalid). */
export function hexId(parent: Json, name: string, bytes: number): string {
  const value = parent[name];
  if (value === undefined || value === null || value === "") return "";
  if (typeof value !== "string") throw new FieldError(name, "must be a string of hex digits");
  if (value.length !== bytes * 2 || !HEX.test(value)) throw new FieldError(name, `must be ${bytes * 2} hex digits, or empty`);
  return ZEROS.test(value) ? "" : value.toLowerCase();
}

const HEX = /^[0-9a-fA-F]+$/;
const ZEROS = /^0+$/;

/** A number in double position: a JSON number, a numeric string, or "NaN", "Infinity", "-Infinity". */
export function double(value: unknown, name: string): number {
  if (typeof value === "number") return value;
  if (value instanceof ExactInteger) return value.double;
  if (typeof value === "string") {
    if (value === "NaN" || value === "Infinity" || value === "-Infinity") return Number(value);
    if (/^-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?$/.test(value)) return Number(value);
  }
  throw new FieldError(name, "must be a number");
}

// Types and parsers of the OTLP/JSON metrics document as it arrives: every field may be missing, 64-bit integers are decimal strings or
// numbers, and NaN and infinities are strings. Invariant: only what protobuf's JSON form guarantees is assumed. Source:
// opentelemetry-proto, metrics/v1/metrics.proto; OTLP specification, "JSON Protobuf Encoding". `parseDocument` parses any OTLP/JSON body
// within limits.
import { GIVEN_TWICE, type JsonPath, pathText, readMembers, textOf } from "./json-members.ts";
import { MAX_JSON_KEYS, MAX_JSON_OBJECTS } from "./otlp-metrics-limits.ts";

export type Int64 = string | number;
export type Int32 = string | number;
export type Double = number | string;

export interface AnyValue {
  stringValue?: string;
  boolValue?: boolean;
  intValue?: Int64;
  doubleValue?: Double;
  arrayValue?: { values?: AnyValue[] };
  kvlistValue?: { values?: KeyValue[] };
  bytesValue?: string;
}
export interface KeyValue {
  key?: string;
  value?: AnyValue;
}
export interface OtlpExemplar {
  filteredAttributes?: KeyValue[];
  timeUnixNano?: Int64;
  asDouble?: Double;
  asInt?: Int64;
  spanId?: string;
  traceId?: string;
}
export interface Point {
  attributes?: KeyValue[];
  timeUnixNano?: Int64;
  flags?: number;
  exemplars?: OtlpExemplar[];
}
export interface NumberPoint extends Point {
  asDouble?: Double;
  asInt?: Int64;
}
export interface HistogramPoint extends Point {
  count?: Int64;
  sum?: Double;
  min?: Double;
  bucketCounts?: Int64[];
  explicitBounds?: Double[];
}
export interface Buckets {
  offset?: Int32;
  bucketCounts?: Int64[];
}
export interface ExponentialHistogramPoint extends Point {
  count?: Int64;
  sum?: Double;
  scale?: Int32;
  zeroCount?: Int64;
  zeroThreshold?: Double;
  positive?: Buckets;
  negative?: Buckets;
}
export interface SummaryPoint extends Point {
  count?: Int64;
  sum?: Double;
  quantileValues?: { quantile?: Double; value?: Double }[];
}
export interface Metric {
  name?: string;
  unit?: string;
  gauge?: { dataPoints?: NumberPoint[] };
  sum?: { dataPoints?: NumberPoint[]; aggregationTemporality?: number | string; isMonotonic?: boolean };
  histogram?: { dataPoints?: HistogramPoint[]; aggregationTemporality?: number | string };
  exponentialHistogram?: { dataPoints?: ExponentialHistogramPoint[]; aggregationTemporality?: number | string };
  summary?: { dataPoints?: SummaryPoint[] };
}
export interface ResourceMetrics {
  resource?: { attributes?: KeyValue[] };
  scopeMetrics?: { metrics?: Metric[] }[];
}
export interface MetricsDocument {
  resourceMetrics?: ResourceMetrics[];
}

/** Enum names are accepted next to numbers, as protobuf's JSON form allows. */
export function isCumulative(temporality: number | string | undefined): boolean {
  return temporality === 2 || temporality === "AGGREGATION_TEMPORALITY_CUMULATIVE";
}

export function isDelta(temporality: number | string | undefined): boolean {
  return temporality === 1 || temporality === "AGGREGATION_TEMPORALITY_DELTA";
}

/** The number, or undefined if it is not one. NaN counts as a number. */
export function toDouble(value: Double | undefined): number | undefined {
  if (typeof value === "number") return value;
  if (value === "NaN") return Number.NaN;
  if (typeof value !== "string" || value.trim() === "") return undefined;
  const number = Number(value);
  return Number.isNaN(number) ? undefined : number;
}

/** Decimal digits of a 64-bit integer, exactly as sent; undefined if it is not one. */
export function toDigits(value: Int64 | undefined): string | undefined {
  if (Number.isSafeInteger(value)) return String(value);
  if (typeof value === "number") return Number.isInteger(value) && Math.abs(value) < 2 ** 64 ? BigInt(value).toString() : undefined;
  return typeof value === "string" && /^-?\d{1,20}$/.test(value) ? value : undefined;
}

/** The digits of a natural number; undefined if it is none. */
export function toCount(value: Int64 | undefined): string | undefined {
  const digits = toDigits(value ?? 0);
  return digits?.startsWith("-") ? undefined : digits;
}

/** Undefined if it is not a 32-bit integer, as a number or in decimal digits. */
export function toInt32(value: Int32 | undefined): number | undefined {
  const digits = toDigits(value ?? 0);
  const number = Number(digits ?? Number.NaN);
  return number === (number | 0) ? number : undefined;
}

/** A field has a type that the protobuf JSON mapping does not allow. */
export class ShapeError extends TypeError {}

/** A repeated field. Throws ShapeError for other values: a string has a length too, and an object may have one. */
export function listOf<T>(value: readonly T[] | undefined, name = "a repeated field"): readonly T[] {
  if (value === undefined || value === null) return [];
  if (!Array.isArray(value)) throw new ShapeError(`${name} must be a list`);
  return value;
}

/** Throws ShapeError unless it is a message. A list in its place may have the reason why there is none. */
export function requireMessage(value: unknown): void {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return;
  const reason: unknown = Array.isArray(value) ? value[1] : undefined;
  throw new ShapeError(typeof reason === "string" ? reason : "must be an object");
}

/** The number of points of a metric of any shape. */
export function countPoints(metric: unknown): number {
  const data: unknown[] = Object.values(metric ?? {});
  return data.reduce<number>((sum, part) => {
    const points: unknown = (part as { dataPoints?: unknown } | null)?.dataPoints;
    return sum + (Array.isArray(points) ? points.length : 0);
  }, 0);
}

/** An attribute's value as text: scalars as they are, bytes as base64, lists and maps as JSON. "" for an empty value. */
export function attributeText(value: AnyValue | undefined): string {
  if (value === undefined || value === null) return "";
  if (typeof value.stringValue === "string") return value.stringValue;
  const plain = plainValue(value);
  return typeof plain === "object" && plain !== null ? JSON.stringify(plain) : String(plain ?? "");
}

type Plain = string | number | boolean | null | Plain[] | { [key: string]: Plain };

function plainValue(value: AnyValue | undefined): Plain {
  if (value === undefined || value === null) return null;
  const { stringValue, boolValue, intValue, doubleValue, bytesValue, arrayValue, kvlistValue } = value;
  if (arrayValue) return listOf(arrayValue.values).map(plainValue);
  if (kvlistValue) return Object.fromEntries(listOf(kvlistValue.values).map(({ key, value: item }) => [key ?? "", plainValue(item)]));
  const number = Number(intValue ?? Number.NaN);
  return (
    stringValue ?? boolValue ?? (Number.isSafeInteger(number) ? number : intValue && String(intValue)) ?? doubleValue ?? bytesValue ?? null
  );
}

// Parses JSON of a telemetry body, and defines the error for a body that is not forwarded. Invariant: the memory of the parsed values is
// limited: `{}` has two bytes and takes about sixty.

/** The kind determines the response to the sender. */
export class BodyError extends Error {
  override readonly name = "BodyError";
  readonly kind: "too_large" | "no_room" | "malformed" | "unsupported_encoding";
  constructor(kind: BodyError["kind"], message: string, options?: ErrorOptions) {
    super(message, options);
    this.kind = kind;
  }
}

export interface ParseOptions {
  /** Where a name may be given twice; the last one counts. Default: nowhere. */
  readonly mayRepeat?: (path: JsonPath) => boolean;
  /** By default, integers that a double may round become texts of their digits, which mean the same in protobuf's JSON form. */
  readonly roundsIntegers?: boolean;
}

/**
 * Bytes that are not UTF-8 become U+FFFD: an application can put them into a label, and refusing the body would lose its whole batch.
 * Throws BodyError "too_large", or "malformed" if a name is given twice, and SyntaxError.
 */
export function parseDocument(json: Buffer, { mayRepeat, roundsIntegers = false }: ParseOptions = {}): unknown {
  const members = readMembers(json, { containers: MAX_JSON_OBJECTS, names: MAX_JSON_KEYS }, mayRepeat);
  const { twice, containers, names, escapedNames } = members;
  if (twice) throw new BodyError("malformed", `${pathText(twice)}: ${GIVEN_TWICE}`);
  if (containers > MAX_JSON_OBJECTS) throw new BodyError("too_large", `a body of more than ${MAX_JSON_OBJECTS} objects and lists`);
  if (names > MAX_JSON_KEYS) throw new BodyError("too_large", `a body of more than ${MAX_JSON_KEYS} different keys`);
  return JSON.parse(textOf(json, { escapedNames, longIntegers: roundsIntegers ? [] : members.longIntegers }));
}
